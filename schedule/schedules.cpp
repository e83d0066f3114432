#include "schedule/schedules.h"

#include "base/error.h"
#include "base/parse_name.h"
#include "base/quantities.h"
#include "schedule/placement.h"
#include "schedule/schedule_programs.h"

#include <algorithm>
#include <array>

namespace pipescope {
namespace {
/// Where a named schedule has its partitions.
enum class Places { any, one_each, in_turn, v };

/// How many micro-batches a named schedule can run.
enum class Counts { any, equal_groups, two_a_lane };

struct NamedSchedule {
    Schedule::Name schedule;
    std::string_view name;
    Places places;
    Counts counts;
    bool splits;  ///< the backward
    bool runs;    ///< in the engine
    LanePrograms (*programs)(const PipelineShape&);
};

// In the order of Schedule::Name.
constexpr std::array kNamed{
    NamedSchedule{Schedule::gpipe, "gpipe", Places::any, Counts::any, false, true, gpipe_programs},
    NamedSchedule{Schedule::one_f_one_b, "1f1b", Places::one_each, Counts::any, false, true, one_f_one_b_programs},
    NamedSchedule{Schedule::interleaved_1f1b, "interleaved", Places::in_turn, Counts::equal_groups, false, true,
                  interleaved_programs},
    NamedSchedule{Schedule::looped_bfs, "looped-bfs", Places::in_turn, Counts::any, false, true, looped_bfs_programs},
    NamedSchedule{Schedule::zero_bubble_h1, "zero-bubble-h1", Places::one_each, Counts::any, true, true,
                  zero_bubble_h1_programs},
    NamedSchedule{Schedule::zero_bubble_2p, "zero-bubble-2p", Places::one_each, Counts::any, true, true,
                  zero_bubble_2p_programs},
    NamedSchedule{Schedule::interleaved_zero_bubble, "interleaved-zero-bubble", Places::in_turn, Counts::equal_groups,
                  true, true, interleaved_zero_bubble_programs},
    NamedSchedule{Schedule::zero_bubble_v, "zero-bubble-v", Places::v, Counts::any, true, true, zero_bubble_v_programs},
    NamedSchedule{Schedule::dualpipe_v, "dualpipe-v", Places::v, Counts::two_a_lane, true, true, dualpipe_v_programs},
    NamedSchedule{Schedule::v_half, "v-half", Places::v, Counts::any, true, true, v_half_programs},
    NamedSchedule{Schedule::v_min, "v-min", Places::v, Counts::any, true, true, v_min_programs},
    NamedSchedule{Schedule::pipedream, "pipedream", Places::one_each, Counts::any, false, false, one_f_one_b_programs},
    NamedSchedule{Schedule::model_parallel, "model-parallel", Places::any, Counts::any, false, true,
                  model_parallel_programs},
    NamedSchedule{Schedule::automatic, "auto", Places::any, Counts::any, true, false, nullptr},
};

const NamedSchedule& facts_of(Schedule::Name name) {
    return kNamed.at(static_cast<std::size_t>(name));
}

std::string names_where(bool runs, std::string_view before_last) {
    std::vector<std::string> names;
    for (const NamedSchedule& each : kNamed) {
        if (each.runs == runs && each.programs != nullptr) {
            names.emplace_back(each.name);
        }
    }
    std::string text;
    for (std::size_t k = 0; k < names.size(); ++k) {
        text += k == 0 ? "" : k + 1 == names.size() ? before_last : ", ";
        text += names[k];
    }
    return text;
}

void check_one_partition_a_lane(const PipelineShape& shape, std::string_view schedule) {
    if (shape.num_lanes() != shape.num_partitions) {
        throw UsageError("the " + std::string(schedule) + " schedule runs one partition a lane; the pipeline has " +
                         counted(shape.num_partitions, "partition", "partitions") + " on " +
                         counted(shape.num_lanes(), "lane", "lanes") + "; use " +
                         counted(shape.num_lanes(), "partition", "partitions") +
                         ", or another schedule, such as interleaved");
    }
}

/// Refuses a placement that is not the schedule's own.
void check_placement(const PipelineShape& shape, const std::vector<LaneId>& own, const std::string& schedule) {
    for (std::size_t j = 0; j < own.size(); ++j) {
        const LaneId lane = shape.lane_of(PartitionId{static_cast<std::int64_t>(j)});
        if (lane != own[j]) {
            throw UsageError(schedule + " puts partition " + std::to_string(j) + " on lane " +
                             std::to_string(own[j].value()) + ", not on lane " + std::to_string(lane.value()) +
                             "; give a placement such as " + placement_text(own));
        }
    }
}

void check_in_turn(const PipelineShape& shape, std::string_view schedule) {
    const int lanes = shape.num_lanes();
    const std::string subject = "the " + std::string(schedule) + " schedule";
    if (shape.num_partitions % lanes != 0 || shape.num_partitions == lanes) {
        throw UsageError(subject + " needs two or more partitions per lane, the same number on all; the pipeline has " +
                         counted(shape.num_partitions, "partition", "partitions") + " on " +
                         counted(lanes, "lane", "lanes") + "; use a multiple of " + std::to_string(lanes) +
                         ", at least " + std::to_string(2 * lanes));
    }
    check_placement(shape,
                    placement_in_turn(static_cast<std::size_t>(shape.num_partitions), static_cast<std::size_t>(lanes)),
                    subject);
}

void check_v(const PipelineShape& shape, std::string_view schedule) {
    const int lanes = shape.num_lanes();
    const std::string subject = "the " + std::string(schedule) + " schedule";
    if (shape.num_partitions != 2 * lanes) {
        throw UsageError(
            subject + " needs two partitions per lane; the pipeline has " +
            counted(shape.num_partitions, "partition", "partitions") + " on " + counted(lanes, "lane", "lanes") +
            "; use " + std::to_string(2 * lanes) + " partitions" +
            (shape.num_partitions % 2 == 0 ? ", or " + counted(shape.num_partitions / 2, "lane", "lanes") : ""));
    }
    check_placement(shape, placement_in_v(static_cast<std::size_t>(lanes)), subject);
}

bool can_count(Counts counts, int lanes, std::int64_t micro_batches) {
    switch (counts) {
        case Counts::any: return true;
        case Counts::equal_groups: return micro_batches % interleaved_groups(lanes, micro_batches) == 0;
        case Counts::two_a_lane: return micro_batches >= 2 * std::int64_t{lanes};
    }
    return false;
}

void check_count(const NamedSchedule& facts, int lanes, std::int64_t micro_batches) {
    if (can_count(facts.counts, lanes, micro_batches)) {
        return;
    }
    const std::string subject = "the " + std::string(facts.name) + " schedule needs ";
    if (facts.counts == Counts::equal_groups) {
        std::int64_t less = micro_batches;
        std::int64_t more = micro_batches;
        while (!can_count(facts.counts, lanes, less)) {
            --less;
        }
        while (!can_count(facts.counts, lanes, more)) {
            ++more;
        }
        throw UsageError(subject + "equal groups of micro-batches, as many as " + std::to_string(lanes) +
                         " lanes fill; " + std::to_string(micro_batches) + " do not divide into " +
                         std::to_string(interleaved_groups(lanes, micro_batches)) + " groups; use " +
                         std::to_string(less) + " or " + std::to_string(more));
    }
    throw UsageError(subject + "at least " + std::to_string(2 * lanes) + " micro-batches, two for each lane; " +
                     std::to_string(micro_batches) + " are too few; change their number");
}

/// Refuses a shape that contradicts the file.
void check_file(const Schedule::File& file, const PipelineShape& shape) {
    const auto require = [&](const std::string& subject, int asked, int own, const char* one, const char* many,
                             const std::string& what) {
        if (asked != own) {
            throw UsageError(subject + " has " + counted(asked, one, many) + "; the schedule " + file.name +
                             " is for " + counted(own, one, many) + "; change the " + what +
                             ", or use another schedule");
        }
    };
    const std::string pipeline = "the pipeline";
    require(pipeline, shape.num_partitions, file.shape.num_partitions, "partition", "partitions", "balance");
    const std::int64_t samples = std::int64_t{file.shape.num_micro_batches} * shape.replicas;
    require(shape.replicas > 1 ? "each of " + counted(shape.replicas, "replica", "replicas") : pipeline,
            shape.num_micro_batches, file.shape.num_micro_batches, "micro-batch", "micro-batches",
            shape.num_micro_batches < file.shape.num_micro_batches
                ? "batch to at least " + counted(samples, "sample", "samples")
                : "number of micro-batches");
    check_placement(shape, file.shape.placement, "the schedule " + file.name);
    if (file.recomputes && shape.checkpoint != file.shape.checkpoint) {
        throw UsageError("checkpoint is " + to_string(shape.checkpoint) + "; the recomputes (R) of the schedule " +
                         file.name + " are those of checkpoint " + to_string(file.shape.checkpoint) +
                         "; use that, or remove every R to have each recompute before its backward");
    }
}
}  // namespace

Schedule Schedule::from_csv(const std::string& name, std::string_view csv) {
    try {
        auto file = std::make_shared<File>();
        file->name = name;
        file->table = parse_schedule_csv(csv, &file->communication_cells);
        file->recomputes = recomputes(file->table);
        const TaskGraph graph = table_graph(file->table, {.checkpoint = Checkpoint::never});
        file->shape = graph.shape();
        if (file->communication_cells > 0) {  // the columns of the file are no common slots
            file->table.rows = schedule_table(graph).rows;
        }
        Schedule schedule;
        schedule.file_ = std::move(file);
        return schedule;
    } catch (const Error& error) {
        throw Error(name + ": " + error.what());
    }
}

std::string to_string(const Schedule& schedule) {
    return schedule.file() ? schedule.file()->name : std::string(facts_of(schedule.name()).name);
}

std::vector<Schedule> all_schedules() {
    std::vector<Schedule> all;
    for (const NamedSchedule& each : kNamed) {
        if (each.programs != nullptr) {
            all.emplace_back(each.schedule);
        }
    }
    return all;
}

std::vector<Schedule> runnable_schedules() {
    std::vector<Schedule> all = all_schedules();
    std::erase_if(all, [](const Schedule& each) { return is_for_comparison_only(each); });
    return all;
}

std::string runnable_schedule_names(std::string_view before_last) {
    return names_where(true, before_last);
}

std::string compared_schedule_names() {
    return names_where(false, ", ");
}

Schedule parse_schedule(std::string_view name) {
    std::vector<Schedule> all = all_schedules();
    all.emplace_back(Schedule::automatic);
    const bool looks_like_file = name.find('.') != std::string_view::npos;
    return parse_name(name, all, "schedule '" + std::string(name) + "' is not known",
                      looks_like_file ? "the name of a file ends in .csv; rename it" : "use gpipe when unsure");
}

bool needs_loss_inside(const Schedule& schedule) {
    return schedule != Schedule::gpipe;
}

bool splits_backward(const Schedule& schedule) {
    return schedule.file() ? splits_backward(schedule.file()->table) : facts_of(schedule.name()).splits;
}

bool is_synchronous(const Schedule& schedule) {
    return schedule != Schedule::pipedream;
}

bool is_for_comparison_only(const Schedule& schedule) {
    return !schedule.file() && !facts_of(schedule.name()).runs;
}

bool runs_one_partition_a_lane(const Schedule& schedule) {
    if (schedule.file()) {
        const std::vector<LaneId>& placement = schedule.file()->shape.placement;
        return placement == placement_in_turn(placement.size(), placement.size());
    }
    const Places places = facts_of(schedule.name()).places;
    return places == Places::any || places == Places::one_each;
}

std::vector<LaneId> placement_of(const Schedule& schedule, std::size_t partitions, std::size_t lanes) {
    if (runs_one_partition_a_lane(schedule)) {
        return {};
    }
    if (schedule.file()) {
        return schedule.file()->shape.placement;
    }
    return facts_of(schedule.name()).places == Places::v ? placement_in_v(lanes) : placement_in_turn(partitions, lanes);
}

std::size_t usual_partitions(const Schedule& schedule, std::size_t lanes) {
    if (schedule.file()) {
        return schedule.file()->shape.placement.size();
    }
    return runs_one_partition_a_lane(schedule) ? lanes : 2 * lanes;
}

std::int64_t interleaved_groups(int lanes, std::int64_t micro_batches) {
    return std::max<std::int64_t>(1, micro_batches / lanes);
}

bool can_run(const Schedule& schedule, int lanes, std::int64_t micro_batches) {
    if (const Schedule::File* file = schedule.file()) {
        return file->shape.num_lanes() == lanes && file->shape.num_micro_batches == micro_batches;
    }
    const bool is_alone = lanes == 1 && !runs_one_partition_a_lane(schedule);
    return !is_alone && can_count(facts_of(schedule.name()).counts, lanes, micro_batches);
}

std::string needs_of(const Schedule& schedule) {
    if (const Schedule::File* file = schedule.file()) {
        return counted(file->shape.num_lanes(), "lane", "lanes") + ", " +
               counted(file->shape.num_partitions, "layer", "layers") + " or more, and " +
               counted(file->shape.num_micro_batches, "micro-batch", "micro-batches");
    }
    if (runs_one_partition_a_lane(schedule)) {
        return "";
    }
    const std::string lanes = "2 lanes or more, 2 layers for each";
    switch (facts_of(schedule.name()).counts) {
        case Counts::any: return lanes;
        case Counts::equal_groups: return lanes + ", and micro-batches in equal groups, as many as the lanes fill";
        case Counts::two_a_lane: return lanes + ", and twice as many micro-batches as lanes or more";
    }
    return lanes;
}

void check_schedule(const Schedule& schedule, const PipelineShape& shape) {
    shape.check();
    if (schedule.file()) {
        check_file(*schedule.file(), shape);
        return;
    }
    const NamedSchedule& facts = facts_of(schedule.name());
    switch (facts.places) {
        case Places::any: break;
        case Places::one_each: check_one_partition_a_lane(shape, facts.name); break;
        case Places::in_turn: check_in_turn(shape, facts.name); break;
        case Places::v: check_v(shape, facts.name); break;
    }
    check_count(facts, shape.num_lanes(), shape.num_micro_batches);
}

void add_all_reduces(const PipelineShape& shape, LanePrograms& programs) {
    for (int j = shape.num_partitions; shape.replicas > 1 && j-- > 0;) {
        programs[shape.lane_of(PartitionId{j}).index()].push_back({0, TaskKind::all_reduce, j, -1, -1});
    }
}

TaskGraph make_schedule(const Schedule& schedule, PipelineShape shape) {
    shape.loss = needs_loss_inside(schedule) ? LossScope::micro_batch : LossScope::mini_batch;
    check_schedule(schedule, shape);
    if (schedule.file()) {
        return table_graph(schedule.file()->table, shape);
    }
    if (schedule == Schedule::automatic) {
        throw Error("schedule auto has no order before it is found for a pipeline's costs; find it first");
    }
    LanePrograms programs = facts_of(schedule.name()).programs(shape);
    add_all_reduces(shape, programs);
    return TaskGraph(shape, programs);
}
}  // namespace pipescope
