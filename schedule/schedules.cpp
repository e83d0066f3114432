#include "schedule/schedules.h"

#include "base/error.h"
#include "base/parse_name.h"
#include "base/quantities.h"
#include "schedule/placement.h"
#include "schedule/schedule_programs.h"

#include <algorithm>
#include <array>
#include <span>

namespace pipescope {
namespace {
/// Where a named schedule has its partitions.
enum class Places { any, one_each, in_turn, v, both_ends };

/// How many micro-batches a named schedule can run.
enum class Counts { any, equal_groups, two_a_lane, even_two_a_lane };

/// How many micro-batches a lane of a named schedule holds.
enum class Held { unknown, as_1f1b, as_interleaved };

/// What is true of a named schedule. Everything else that knows schedules asks for this.
struct ScheduleTraits {
    Schedule::Name schedule;
    std::string_view name;
    LanePrograms (*programs)(const PipelineShape&);  ///< null if the order depends on costs
    /// The tasks that may run as one; null: none.
    std::vector<LaneJoints> (*joints)(const PipelineShape&) = nullptr;
    Places places = Places::one_each;
    Counts counts = Counts::any;
    Held held = Held::unknown;
    LossScope loss = LossScope::micro_batch;  ///< mini_batch: backwards may run in either order
    bool splits = false;                      ///< the backward
    bool drains = true;                       ///< a step ends before the next one begins, so weights have one version
    bool overlaps = true;                     ///< lanes work at the same time
    bool runs = true;                         ///< in the engine
    /// The nearest one that the engine runs; gpipe if the schedule itself runs.
    Schedule::Name nearest = Schedule::gpipe;
};

// In the order of Schedule::Name, which is that of lists and tables.
constexpr std::array kNamed{
    ScheduleTraits{.schedule = Schedule::gpipe,
                   .name = "gpipe",
                   .programs = gpipe_programs,
                   .places = Places::any,
                   .loss = LossScope::mini_batch},
    ScheduleTraits{
        .schedule = Schedule::one_f_one_b, .name = "1f1b", .programs = one_f_one_b_programs, .held = Held::as_1f1b},
    ScheduleTraits{.schedule = Schedule::interleaved_1f1b,
                   .name = "interleaved",
                   .programs = interleaved_programs,
                   .places = Places::in_turn,
                   .counts = Counts::equal_groups,
                   .held = Held::as_interleaved},
    ScheduleTraits{.schedule = Schedule::looped_bfs,
                   .name = "looped-bfs",
                   .programs = looped_bfs_programs,
                   .places = Places::in_turn},
    ScheduleTraits{.schedule = Schedule::zero_bubble_h1,
                   .name = "zero-bubble-h1",
                   .programs = zero_bubble_h1_programs,
                   .splits = true},
    ScheduleTraits{.schedule = Schedule::zero_bubble_2p,
                   .name = "zero-bubble-2p",
                   .programs = zero_bubble_2p_programs,
                   .splits = true},
    ScheduleTraits{.schedule = Schedule::interleaved_zero_bubble,
                   .name = "interleaved-zero-bubble",
                   .programs = interleaved_zero_bubble_programs,
                   .places = Places::in_turn,
                   .counts = Counts::equal_groups,
                   .splits = true},
    ScheduleTraits{.schedule = Schedule::zero_bubble_v,
                   .name = "zero-bubble-v",
                   .programs = zero_bubble_v_programs,
                   .places = Places::v,
                   .splits = true},
    ScheduleTraits{.schedule = Schedule::dualpipe_v,
                   .name = "dualpipe-v",
                   .programs = dualpipe_v_programs,
                   .joints = dualpipe_v_joints,
                   .places = Places::v,
                   .counts = Counts::two_a_lane,
                   .splits = true},
    ScheduleTraits{.schedule = Schedule::dualpipe,
                   .name = "dualpipe",
                   .programs = dualpipe_programs,
                   .joints = dualpipe_joints,
                   .places = Places::both_ends,
                   .counts = Counts::even_two_a_lane,
                   .splits = true,
                   .runs = false,
                   .nearest = Schedule::dualpipe_v},
    ScheduleTraits{.schedule = Schedule::v_half,
                   .name = "v-half",
                   .programs = v_half_programs,
                   .places = Places::v,
                   .splits = true},
    ScheduleTraits{
        .schedule = Schedule::v_min, .name = "v-min", .programs = v_min_programs, .places = Places::v, .splits = true},
    ScheduleTraits{.schedule = Schedule::pipedream,
                   .name = "pipedream",
                   .programs = one_f_one_b_programs,
                   .drains = false,
                   .runs = false,
                   .nearest = Schedule::one_f_one_b},
    ScheduleTraits{.schedule = Schedule::model_parallel,
                   .name = "model-parallel",
                   .programs = model_parallel_programs,
                   .places = Places::any,
                   .overlaps = false},
    ScheduleTraits{.schedule = Schedule::automatic,
                   .name = "auto",
                   .programs = nullptr,
                   .places = Places::any,
                   .splits = true,
                   .runs = false},
};
static_assert(
    [] {
        for (std::size_t k = 0; k < kNamed.size(); ++k) {
            if (static_cast<std::size_t>(kNamed[k].schedule) != k) {
                return false;
            }
        }
        return kNamed.back().schedule == Schedule::automatic;
    }(),
    "each Schedule::Name has one row, at its place");

const ScheduleTraits& traits_of(Schedule::Name name) {
    return kNamed.at(static_cast<std::size_t>(name));
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

void check_both_ends(const PipelineShape& shape, std::string_view schedule) {
    const int lanes = shape.num_lanes();
    const std::string subject = "the " + std::string(schedule) + " schedule ";
    if (lanes % 2 != 0) {
        throw UsageError(subject +
                         "needs an even number of lanes, since micro-batches enter at both ends; the pipeline "
                         "has " +
                         counted(lanes, "lane", "lanes") + "; use " + std::to_string(lanes + 1) +
                         ", or another schedule, such as dualpipe-v");
    }
    if (shape.num_partitions != lanes) {
        throw UsageError(subject +
                         "needs as many partitions as lanes, and gives each lane two of them; the pipeline "
                         "has " +
                         counted(shape.num_partitions, "partition", "partitions") + " on " +
                         counted(lanes, "lane", "lanes") + "; use " + counted(lanes, "partition", "partitions"));
    }
    check_placement(shape, placement_in_turn(static_cast<std::size_t>(lanes), static_cast<std::size_t>(lanes)),
                    subject.substr(0, subject.size() - 1));
    if (!shape.shared.empty()) {
        const SharedRoute& route = shape.shared.front();
        throw UsageError(subject + "holds partitions j and " + std::to_string(lanes - 1) +
                         " - j on one lane; partitions " + std::to_string(route.from.value()) + " and " +
                         std::to_string(route.users.front().value()) +
                         " share parameters and lie on different lanes; move the layers that share parameters to such "
                         "partitions, or use another schedule, such as dualpipe-v");
    }
}

bool can_count(Counts counts, int lanes, std::int64_t micro_batches) {
    switch (counts) {
        case Counts::any: return true;
        case Counts::equal_groups: return micro_batches % interleaved_groups(lanes, micro_batches) == 0;
        case Counts::two_a_lane: return micro_batches >= 2 * std::int64_t{lanes};
        case Counts::even_two_a_lane: return micro_batches % 2 == 0 && micro_batches >= 2 * std::int64_t{lanes};
    }
    return false;
}

void check_count(const ScheduleTraits& traits, int lanes, std::int64_t micro_batches) {
    if (can_count(traits.counts, lanes, micro_batches)) {
        return;
    }
    const std::string subject = "the " + std::string(traits.name) + " schedule needs ";
    if (traits.counts == Counts::equal_groups) {
        std::int64_t less = micro_batches;
        std::int64_t more = micro_batches;
        while (!can_count(traits.counts, lanes, less)) {
            --less;
        }
        while (!can_count(traits.counts, lanes, more)) {
            ++more;
        }
        throw UsageError(subject + "equal groups of micro-batches, as many as " + std::to_string(lanes) +
                         " lanes fill; " + std::to_string(micro_batches) + " do not divide into " +
                         std::to_string(interleaved_groups(lanes, micro_batches)) + " groups; use " +
                         std::to_string(less) + " or " + std::to_string(more));
    }
    const std::int64_t least = 2 * std::int64_t{lanes};
    if (micro_batches >= least) {
        throw UsageError(subject + "an even number of micro-batches, since half of them enter at each end; " +
                         std::to_string(micro_batches) + " are odd; use " + std::to_string(micro_batches - 1) + " or " +
                         std::to_string(micro_batches + 1));
    }
    throw UsageError(subject + "at least " + std::to_string(least) + " micro-batches, two for each lane; " +
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
    return schedule.file() ? schedule.file()->name : std::string(traits_of(schedule.name()).name);
}

std::vector<Schedule> all_schedules() {
    std::vector<Schedule> all;
    for (const ScheduleTraits& each : kNamed) {
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

std::string schedule_names(std::span<const Schedule> schedules, std::string_view before_last) {
    std::string text;
    for (std::size_t k = 0; k < schedules.size(); ++k) {
        text += k == 0 ? "" : k + 1 == schedules.size() ? before_last : ", ";
        text += to_string(schedules[k]);
    }
    return text;
}

std::string runnable_schedule_names(std::string_view before_last) {
    return schedule_names(runnable_schedules(), before_last);
}

std::string compared_schedule_names() {
    std::vector<Schedule> others = all_schedules();
    std::erase_if(others, [](const Schedule& each) { return !is_for_comparison_only(each); });
    return schedule_names(others, ", ");
}

Schedule parse_schedule(std::string_view name) {
    std::vector<Schedule> all = all_schedules();
    all.emplace_back(Schedule::automatic);
    const bool looks_like_file = name.find('.') != std::string_view::npos;
    return parse_name(name, all, "schedule '" + std::string(name) + "' is not known",
                      looks_like_file ? "the name of a file ends in .csv; rename it" : "use gpipe when unsure");
}

bool needs_loss_inside(const Schedule& schedule) {
    return schedule.file() || traits_of(schedule.name()).loss == LossScope::micro_batch;
}

bool takes_backward_order(const Schedule& schedule) {
    return !needs_loss_inside(schedule);
}

bool splits_backward(const Schedule& schedule) {
    return schedule.file() ? splits_backward(schedule.file()->table) : traits_of(schedule.name()).splits;
}

bool is_synchronous(const Schedule& schedule) {
    return schedule.file() || traits_of(schedule.name()).drains;
}

bool is_for_comparison_only(const Schedule& schedule) {
    return schedule.file() ? is_bidirectional(schedule) : !traits_of(schedule.name()).runs;
}

std::optional<Schedule> nearest_runnable(const Schedule& schedule) {
    if (!is_for_comparison_only(schedule) || schedule == Schedule::automatic) {
        return std::nullopt;
    }
    return Schedule(schedule.file() ? Schedule::dualpipe_v : traits_of(schedule.name()).nearest);
}

std::string nearest_runnable_text(const Schedule& schedule) {
    const std::optional<Schedule> nearest = nearest_runnable(schedule);
    return nearest ? ", such as " + to_string(*nearest) : "";
}

bool runs_one_lane_at_a_time(const Schedule& schedule) {
    return !schedule.file() && !traits_of(schedule.name()).overlaps;
}

bool is_bidirectional(const Schedule& schedule) {
    return schedule.file() ? schedule.file()->shape.bidirectional
                           : traits_of(schedule.name()).places == Places::both_ends;
}

bool pairs_tasks(const Schedule& schedule) {
    return schedule.file() ? pairs_tasks(schedule.file()->table) : traits_of(schedule.name()).joints != nullptr;
}

double least_work_share(const Schedule& schedule, double overlap) {
    return schedule == Schedule::automatic || pairs_tasks(schedule) ? 1 - overlap / 2 : 1;
}

bool runs_one_partition_a_lane(const Schedule& schedule) {
    if (is_bidirectional(schedule)) {
        return false;
    }
    if (schedule.file()) {
        const std::vector<LaneId>& placement = schedule.file()->shape.placement;
        return placement == placement_in_turn(placement.size(), placement.size());
    }
    const Places places = traits_of(schedule.name()).places;
    return places == Places::any || places == Places::one_each;
}

std::vector<LaneId> placement_of(const Schedule& schedule, std::size_t partitions, std::size_t lanes) {
    if (runs_one_partition_a_lane(schedule) || is_bidirectional(schedule)) {
        return {};
    }
    if (schedule.file()) {
        return schedule.file()->shape.placement;
    }
    return traits_of(schedule.name()).places == Places::v ? placement_in_v(lanes)
                                                          : placement_in_turn(partitions, lanes);
}

std::size_t usual_partitions(const Schedule& schedule, std::size_t lanes) {
    if (schedule.file()) {
        return schedule.file()->shape.placement.size();
    }
    return runs_one_partition_a_lane(schedule) || is_bidirectional(schedule) ? lanes : 2 * lanes;
}

std::int64_t interleaved_groups(int lanes, std::int64_t micro_batches) {
    return std::max<std::int64_t>(1, micro_batches / lanes);
}

bool can_run(const Schedule& schedule, int lanes, std::int64_t micro_batches) {
    if (const Schedule::File* file = schedule.file()) {
        return file->shape.num_lanes() == lanes && file->shape.num_micro_batches == micro_batches;
    }
    const bool is_alone = lanes == 1 && !runs_one_partition_a_lane(schedule);
    const bool is_halved = !is_bidirectional(schedule) || lanes % 2 == 0;
    return !is_alone && is_halved && can_count(traits_of(schedule.name()).counts, lanes, micro_batches);
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
    switch (traits_of(schedule.name()).counts) {
        case Counts::any: return lanes;
        case Counts::equal_groups: return lanes + ", and micro-batches in equal groups, as many as the lanes fill";
        case Counts::two_a_lane: return lanes + ", and twice as many micro-batches as lanes or more";
        case Counts::even_two_a_lane:
            return "an even number of lanes, a layer for each, and an even number of micro-batches, twice as many as "
                   "lanes or more";
    }
    return lanes;
}

HeldMicroBatches held_micro_batches(const Schedule& schedule, LaneId lane, int lanes, std::size_t partitions,
                                    std::int64_t micro_batches) {
    const double per_lane = static_cast<double>(partitions) / lanes;
    const double all = static_cast<double>(micro_batches) * per_lane;
    const auto behind = static_cast<double>(lanes - lane.value());  // lanes from this one to the last
    switch (schedule.file() ? Held::unknown : traits_of(schedule.name()).held) {
        case Held::unknown: break;
        case Held::as_1f1b: return {std::min(all, behind), std::min(all, behind), true};
        case Held::as_interleaved: {  // arXiv 2104.04473, section 2.2
            const double group =
                static_cast<double>(micro_batches) / static_cast<double>(interleaved_groups(lanes, micro_batches));
            return {.most = std::min(all, 2 * (behind - 1) + (per_lane - 1) * group + 1)};
        }
    }
    return {.most = all};
}

void check_schedule(const Schedule& schedule, const PipelineShape& shape) {
    shape.check();
    if (schedule.file()) {
        check_file(*schedule.file(), shape);
        return;
    }
    const ScheduleTraits& traits = traits_of(schedule.name());
    switch (traits.places) {
        case Places::any: break;
        case Places::one_each: check_one_partition_a_lane(shape, traits.name); break;
        case Places::in_turn: check_in_turn(shape, traits.name); break;
        case Places::v: check_v(shape, traits.name); break;
        case Places::both_ends: check_both_ends(shape, traits.name); break;
    }
    check_count(traits, shape.num_lanes(), shape.num_micro_batches);
    if (!shape.shared.empty() && !is_synchronous(schedule)) {
        throw UsageError("lanes share parameters in the schedule " + to_string(schedule) +
                         ", which keeps several versions of them at a time; use a schedule with synchronous updates, "
                         "or put the layers that share parameters on one lane");
    }
}

void add_all_reduces(const PipelineShape& shape, LanePrograms& programs) {
    for (int j = shape.num_partitions; (shape.replicas > 1 || shape.bidirectional) && j-- > 0;) {
        programs[shape.lane_of(PartitionId{j}).index()].push_back({0, TaskKind::all_reduce, j, -1, -1});
        if (shape.bidirectional) {
            const TaskKey key{0, TaskKind::all_reduce, j, shape.num_micro_batches / 2, -1};
            programs[shape.lane_of(cell_of(key)).index()].push_back(key);
        }
    }
}

TaskGraph make_schedule(const Schedule& schedule, PipelineShape shape) {
    shape.loss = needs_loss_inside(schedule) ? LossScope::micro_batch : LossScope::mini_batch;
    check_schedule(schedule, shape);
    shape.bidirectional = is_bidirectional(schedule);
    if (schedule.file()) {
        return table_graph(schedule.file()->table, shape);
    }
    if (schedule == Schedule::automatic) {
        throw Error("schedule auto has no order before it is found for a pipeline's costs; find it first");
    }
    const ScheduleTraits& traits = traits_of(schedule.name());
    LanePrograms programs = traits.programs(shape);
    add_all_reduces(shape, programs);
    const bool joins = shape.joins_pairs && traits.joints != nullptr;
    return TaskGraph(shape, programs, joins ? traits.joints(shape) : std::vector<LaneJoints>());
}
}  // namespace pipescope
