#include "trace/pipeline_json.h"

#include "schedule/error.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using nlohmann::ordered_json;

// A task is written as partition, letter and micro-batch: 3F0. A number that its key lacks is omitted.
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
    if (!kind) {
        refuse();
    }
    const auto number = [&](std::string_view digits, std::int32_t most) {
        std::int32_t value = -1;
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (!digits.empty() && (error != std::errc() || end != digits.data() + digits.size() || value >= most)) {
            refuse();
        }
        return digits.empty() ? -1 : value;
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

PipelineShape parse_shape(const ordered_json& object) {
    PipelineShape shape{.num_partitions = object.at("partitions").get<int>(),
                        .num_micro_batches = object.at("micro_batches").get<int>(),
                        .checkpoint = parse_checkpoint(object.at("checkpoint").get<std::string>()),
                        .loss = parse_loss_scope(object.at("loss").get<std::string>()),
                        .recompute_start = parse_recompute_start(object.at("recompute_start").get<std::string>()),
                        .replicas = object.at("replicas").get<int>()};
    for (const std::int64_t lane : object.at("placement").get<std::vector<std::int64_t>>()) {
        shape.placement.emplace_back(lane);
    }
    for (const auto& [from, to] : object.at("skips").get<std::vector<std::pair<std::int64_t, std::int64_t>>>()) {
        shape.skips.push_back({PartitionId{from}, PartitionId{to}});
    }
    shape.check();
    return shape;
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
    for (const SkipRoute& skip : shape.skips) {
        object["skips"].push_back({skip.from.value(), skip.to.value()});
    }
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        std::string program;
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            program += (program.empty() ? "" : " ") + text_of(graph.tasks()[task].key);
        }
        object["programs"].push_back(std::move(program));
    }
    return object.dump();
}

TaskGraph parse_pipeline_json(const std::string& text) {
    try {
        const ordered_json object = ordered_json::parse(text);
        PipelineShape shape = parse_shape(object);
        const auto texts = object.at("programs").get<std::vector<std::string>>();
        if (texts.size() != static_cast<std::size_t>(shape.num_lanes())) {
            throw Error("the recorded pipeline has programs of " + std::to_string(texts.size()) +
                        " lanes and places on " + std::to_string(shape.num_lanes()));
        }
        std::vector<LaneProgram> programs;
        for (const std::string& program : texts) {
            programs.push_back(parse_program(program, shape, LaneId{programs.size()}));
        }
        return TaskGraph(std::move(shape), programs);
    } catch (const nlohmann::json::exception& error) {
        throw Error(std::string("the recorded pipeline cannot be read: ") + error.what());
    }
}
}  // namespace pipescope
