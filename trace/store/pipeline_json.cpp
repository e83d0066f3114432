#include "trace/store/pipeline_json.h"

#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using nlohmann::ordered_json;

// A task is written as partition, letter and micro-batch: 3F0. Omits a number that its key lacks.
std::string text_of(const TaskKey& key) {
    const auto number = [](std::int32_t value) { return value < 0 ? std::string() : std::to_string(value); };
    return number(key.partition) + letter_of(key.kind).value() + number(key.micro_batch);
}

TaskKey parse_task(std::string_view text) {
    const auto refuse = [&] {
        throw Error("the recorded pipeline holds the task '" + std::string(text) +
                    "'; a task is partition, letter and micro-batch, such as 3F0");
    };
    const std::size_t letter = text.find_first_not_of("0123456789");
    const auto kind = letter == std::string_view::npos ? std::nullopt : kind_of_letter(text[letter]);
    if (!kind || kind == TaskKind::shared_sum) {
        refuse();
    }
    const auto number = [&](std::string_view digits, std::int32_t most) {
        const auto value = number_in<std::int32_t>(digits);
        if (!digits.empty() && (!value || *value >= most)) {
            refuse();
        }
        return value.value_or(-1);
    };
    return {0, *kind, number(text.substr(0, letter), kMostPartitions),
            number(text.substr(letter + 1), kMostMicroBatches), -1};
}

LaneProgram parse_program(std::string_view text, const PipelineShape& shape, LaneId lane) {
    LaneProgram program;
    while (!text.empty()) {
        const std::size_t end = text.find(' ');
        const TaskKey key = parse_task(text.substr(0, end));
        if (shape.lane_of(key) != lane) {
            throw Error("the recorded pipeline has " + to_string(key) + " on lane " + std::to_string(lane.value()) +
                        ", where its partition is not");
        }
        program.push_back(key);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return program;
}

template <class Value>
Value field(const ordered_json& object, const char* key, const char* wanted) {
    const auto found = object.find(key);
    try {
        if (found != object.end()) {
            return found->template get<Value>();
        }
    } catch (const nlohmann::json::exception&) {  // it has another type: refused below
    }
    throw Error(std::string("the recorded pipeline has ") +
                (found == object.end() ? std::string("no ") + key
                                       : std::string("the ") + key + " " +
                                             found->dump(-1, ' ', false, ordered_json::error_handler_t::replace)) +
                "; every pipeline has " + wanted + " of that name; record the run again");
}

int whole_number(const ordered_json& object, const char* key) {
    return field<int>(object, key, "a whole number");
}
std::string name(const ordered_json& object, const char* key) {
    return field<std::string>(object, key, "a name");
}

PipelineShape parse_shape(const ordered_json& object) {
    PipelineShape shape{.num_partitions = whole_number(object, "partitions"),
                        .num_micro_batches = whole_number(object, "micro_batches"),
                        .checkpoint = parse_checkpoint(name(object, "checkpoint")),
                        .loss = parse_loss_scope(name(object, "loss")),
                        .recompute_start = parse_recompute_start(name(object, "recompute_start")),
                        .replicas = whole_number(object, "replicas")};
    for (const std::int64_t lane : field<std::vector<std::int64_t>>(object, "placement", "a list of lanes")) {
        shape.placement.emplace_back(lane);
    }
    shape.bidirectional = object.contains("bidirectional") && field<bool>(object, "bidirectional", "a truth value");
    using Lists = std::vector<std::vector<std::int64_t>>;
    for (const auto& partitions : field<Lists>(object, "skips", "a list of lists of partitions")) {
        SkipRoute& route = shape.skips.emplace_back();
        route.from = PartitionId{partitions.empty() ? 0 : partitions.front()};
        for (std::size_t k = 1; k < partitions.size(); ++k) {
            route.to.emplace_back(partitions[k]);
        }
    }
    if (object.contains("shared")) {
        using Routes = std::vector<std::tuple<std::int64_t, std::vector<std::int64_t>, bool>>;
        const char* const wanted = "a list of routes, each a partition, a list of partitions and a truth value,";
        for (const auto& [from, users, trains] : field<Routes>(object, "shared", wanted)) {
            SharedRoute& route = shape.shared.emplace_back(SharedRoute{PartitionId{from}, {}, trains});
            for (const std::int64_t user : users) {
                route.users.emplace_back(user);
            }
        }
    }
    shape.check();
    return shape;
}

/// By lane, the tasks that run as one. Empty if there are none.
std::vector<LaneJoints> parse_joints(const ordered_json& object, const std::vector<LaneProgram>& programs) {
    using Pairs = std::vector<std::vector<std::pair<std::size_t, std::size_t>>>;
    std::vector<LaneJoints> joints;
    if (!object.contains("joints")) {
        return joints;
    }
    for (const auto& of_lane : field<Pairs>(object, "joints", "a list of lists of pairs")) {
        LaneJoints& lane = joints.emplace_back();
        const std::size_t tasks = joints.size() <= programs.size() ? programs[joints.size() - 1].size() : 0;
        std::size_t end = 0;  // of the one before
        for (const auto& [first, count] : of_lane) {
            if (first < end || first > tasks || count < 2 || count > tasks - first) {
                throw Error("the recorded pipeline joins " + std::to_string(count) + " tasks from " +
                            std::to_string(first) + " on lane " + std::to_string(joints.size() - 1) + ", which has " +
                            std::to_string(tasks) + "; joined tasks are two or more, in order; record the run again");
            }
            lane.push_back({first, count});
            end = first + count;
        }
    }
    return joints;
}

std::vector<LaneJoints> joints_by_lane(const TaskGraph& graph) {
    std::vector<LaneJoints> joints(static_cast<std::size_t>(graph.num_lanes()));
    std::vector<std::size_t> positions(graph.tasks().size());  // in the lane's program
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        std::size_t position = 0;
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            positions[task] = position++;
        }
    }
    for (std::size_t k = 0; k < graph.joints().size(); ++k) {
        const std::span<const TaskIndex> tasks = graph.joints().at(k);
        joints[graph.tasks()[tasks.front()].lane.index()].push_back({positions[tasks.front()], tasks.size()});
    }
    return joints;
}
}  // namespace

std::string pipeline_json(const TaskGraph& graph) {
    const PipelineShape& shape = graph.shape();
    ordered_json object = {{"partitions", shape.num_partitions},
                           {"micro_batches", shape.num_micro_batches},
                           {"checkpoint", to_string(shape.checkpoint)},
                           {"loss", to_string(shape.loss)},
                           {"recompute_start", to_string(shape.recompute_start)},
                           {"replicas", shape.replicas},
                           {"placement", ordered_json::array()},
                           {"skips", ordered_json::array()},
                           {"programs", ordered_json::array()}};
    for (int partition = 0; partition < shape.num_partitions; ++partition) {
        object["placement"].push_back(shape.lane_of(PartitionId{partition}).value());
    }
    if (shape.bidirectional) {
        object["bidirectional"] = true;
    }
    for (const SkipRoute& skip : shape.skips) {
        ordered_json partitions = ordered_json::array({skip.from.value()});
        for (const PartitionId to : skip.to) {
            partitions.push_back(to.value());
        }
        object["skips"].push_back(std::move(partitions));
    }
    for (const SharedRoute& route : shape.shared) {
        ordered_json users = ordered_json::array();
        for (const PartitionId user : route.users) {
            users.push_back(user.value());
        }
        object["shared"].push_back({route.from.value(), users, route.trains});
    }
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        std::string program;
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            if (graph.tasks()[task].key.kind == TaskKind::shared_sum) {
                continue;  // the shape determines where it is
            }
            program += (program.empty() ? "" : " ") + text_of(graph.tasks()[task].key);
        }
        object["programs"].push_back(std::move(program));
    }
    if (const std::vector<LaneJoints> joints = joints_by_lane(graph); graph.joints().size() > 0) {
        for (const LaneJoints& of_lane : joints) {
            ordered_json& list = object["joints"].emplace_back(ordered_json::array());
            for (const JointTasks& each : of_lane) {
                list.push_back({each.first, each.count});
            }
        }
    }
    return object.dump();
}

TaskGraph parse_pipeline_json(const std::string& text) {
    const ordered_json object = ordered_json::parse(text, nullptr, false);
    if (!object.is_object()) {
        throw Error("the recorded pipeline is '" + printable(text.substr(0, 40)) +
                    "'; it is one JSON object; record the run again");
    }
    PipelineShape shape = parse_shape(object);
    const auto texts = field<std::vector<std::string>>(object, "programs", "a list of texts, one a lane,");
    if (texts.size() != static_cast<std::size_t>(shape.num_lanes())) {
        throw Error("the recorded pipeline has programs of " + std::to_string(texts.size()) + " lanes and places on " +
                    std::to_string(shape.num_lanes()));
    }
    std::vector<LaneProgram> programs;
    for (const std::string& program : texts) {
        programs.push_back(parse_program(program, shape, LaneId{programs.size()}));
    }
    const std::vector<LaneJoints> joints = parse_joints(object, programs);
    shape.joins_pairs = !joints.empty();
    return TaskGraph(std::move(shape), programs, joints);
}
}  // namespace pipescope
