#pragma once

#include "schedule/schedule_table.h"
#include "schedule/task_graph.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The order in which lanes run their tasks: a named schedule, or a table that a user wrote.
/// Ownership and threading: an immutable value that shares its table; copy it freely, read it from any thread.
class Schedule {
public:
    /// Each has one row of traits in schedules.cpp, which says how it is written and what is true of it.
    enum class Name {
        gpipe,             ///< fill-drain: every forward, then every backward, last micro-batch first
        one_f_one_b,       ///< alternates forward and backward, first micro-batch first: same bubble, fewer live
                           ///< micro-batches
        interleaved_1f1b,  ///< 1F1B with several partitions per lane: smaller bubble, more copies
        looped_bfs,        ///< fill-drain with several partitions per lane: smaller bubble, every micro-batch live
        zero_bubble_h1,    ///< 1F1B that delays weight gradients to fill the bubble, with the memory of 1F1B
        zero_bubble_2p,    ///< zero-bubble H2: no bubble but the ramps, with twice the memory
        interleaved_zero_bubble,  ///< interleaved that delays weight gradients
        zero_bubble_v,            ///< two partitions per lane in a V: the bubble of zero_bubble_2p, the memory of 1F1B
        dualpipe_v,               ///< like zero_bubble_v, with forwards and backwards that may overlap
        dualpipe,        ///< micro-batches from both ends, and two copies of each partition. The engine does not run it
        v_half,          ///< a V with half the memory of 1F1B
        v_min,           ///< a V with a third of the memory of 1F1B
        pipedream,       ///< 1F1B that never drains: no bubble, but micro-batches see weights of different ages. For
                         ///< comparison only: the simulator runs it, the engine does not
        model_parallel,  ///< one micro-batch at a time, on one lane at a time
        automatic,       ///< the order that automatic_schedule() finds for a pipeline's costs
    };
    using enum Name;

    /// A table from a file, and what follows from it.
    struct File {
        std::string name;  ///< without its folder
        ScheduleTable table;
        PipelineShape shape;      ///< partitions, micro-batches, placement; checkpoint if the table recomputes
        bool recomputes = false;  ///< it has R cells, which determine the checkpoint mode
        std::size_t communication_cells = 0;  ///< of the file; the table has none

        friend bool operator==(const File& a, const File& b) { return a.name == b.name && a.table == b.table; }
    };

    Schedule(Name name = gpipe) : name_(name) {}
    /// The schedule of a CSV (ScheduleTable). `name` is what messages and reports call it. Throws Error that starts
    /// with the name, unless each task runs once, in an order that never waits forever.
    static Schedule from_csv(const std::string& name, std::string_view csv);

    /// Null for a named schedule.
    const File* file() const noexcept { return file_.get(); }
    /// Precondition: file() is null.
    Name name() const noexcept { return name_; }

    friend bool operator==(const Schedule& a, const Schedule& b) {
        return a.file_ && b.file_ ? a.file_ == b.file_ || *a.file_ == *b.file_
                                  : !a.file_ && !b.file_ && a.name_ == b.name_;
    }

private:
    Name name_ = gpipe;
    std::shared_ptr<const File> file_;
};

/// The name as on the command line. A file's is its own.
std::string to_string(const Schedule& schedule);
/// "auto" is automatic. Throws UsageError that lists the names.
Schedule parse_schedule(std::string_view name);
/// The named ones that have an order of their own: all but automatic.
std::vector<Schedule> all_schedules();
/// Those that the engine runs too.
std::vector<Schedule> runnable_schedules();
/// Names for messages and help: "gpipe, 1f1b or interleaved", or with other words before the last one.
std::string schedule_names(std::span<const Schedule> schedules, std::string_view before_last = " or ");
/// Of those that the engine runs.
std::string runnable_schedule_names(std::string_view before_last = " or ");
/// Of the others.
std::string compared_schedule_names();

/// True if the schedule computes the loss of each micro-batch within the step. Such a schedule cannot be split into a
/// forward that returns and a later backward.
bool needs_loss_inside(const Schedule& schedule);
/// True if the backwards may run in either order (BackwardOrder): the loss of the whole mini-batch comes before them.
bool takes_backward_order(const Schedule& schedule);
/// True if the backward is split into gradients of inputs (backward) and of weights (backward_weight), or may be
/// (auto).
bool splits_backward(const Schedule& schedule);
/// True if the update equals that on one device: the step drains, and there is one version of the weights. False for
/// pipedream, whose gradients mix weights of different ages.
bool is_synchronous(const Schedule& schedule);
/// True if only the simulator can run the schedule.
bool is_for_comparison_only(const Schedule& schedule);
/// The schedule that the engine runs in the place of one that only the simulator runs. Empty if the engine runs the
/// schedule itself.
std::optional<Schedule> nearest_runnable(const Schedule& schedule);
/// ", such as dualpipe-v"; empty without such a schedule.
std::string nearest_runnable_text(const Schedule& schedule);
/// True if a lane works only while all others wait, so that a pipeline gains memory and no time.
bool runs_one_lane_at_a_time(const Schedule& schedule);

/// True if partition j runs on lane j and no other. Otherwise the schedule has a placement of its own, and as a rule
/// several partitions per lane.
bool runs_one_partition_a_lane(const Schedule& schedule);
/// True if micro-batches enter at both ends of the lanes (PipelineShape::bidirectional), so that two lanes hold each
/// partition.
bool is_bidirectional(const Schedule& schedule);
/// True if the schedule pairs forwards with backwards, which may run as one (PipelineShape::joins_pairs).
bool pairs_tasks(const Schedule& schedule);
/// At least this share of all work takes time if pairs hide `overlap` of their shorter half. `auto` may choose pairs.
double least_work_share(const Schedule& schedule, double overlap);
/// The lane of each partition that the schedule needs: dealt out in turn, in a V (placement_in_v()), or as in its file.
/// Empty if partition j runs on lane j, or may. check_schedule() tells whether that many partitions and lanes fit.
std::vector<LaneId> placement_of(const Schedule& schedule, std::size_t partitions, std::size_t lanes);
/// The number of partitions on that many lanes, unless the user asks for another: one or two per lane, or as in the
/// file. A bidirectional schedule has as many as lanes, each on two of them.
std::size_t usual_partitions(const Schedule& schedule, std::size_t lanes);
/// The number of groups in which interleaved and interleaved-zero-bubble take micro-batches through a lane's
/// partitions: as many as have one micro-batch or more for each lane, or one. Source: ScheduleInterleaved1F1B of
/// torch.distributed.pipelining (PyTorch 2.11).
std::int64_t interleaved_groups(int lanes, std::int64_t micro_batches);
/// True if the schedule can run that many micro-batches on that many lanes, with its usual placement.
bool can_run(const Schedule& schedule, int lanes, std::int64_t micro_batches);
/// The requirements of can_run() and of the usual placement, worded to follow "it needs". Empty if there are none.
std::string needs_of(const Schedule& schedule);

/// Micro-batches that a lane holds at a time, from forward to backward, each counted once for each of its partitions.
struct HeldMicroBatches {
    double least = 1;       ///< at some time
    double most = 0;        ///< at any time
    bool is_known = false;  ///< the schedule fixes their number: least and most are equal
};
/// Bounds for any costs. Of most schedules only that a lane holds no more than there are.
HeldMicroBatches held_micro_batches(const Schedule& schedule, LaneId lane, int lanes, std::size_t partitions,
                                    std::int64_t micro_batches);

/// Throws UsageError if the shape is invalid or does not fit the schedule. Interleaved and its kin need partition j on
/// lane j mod lanes, two or more partitions per lane; interleaved also needs a number of micro-batches that its groups
/// divide. A V needs two partitions per lane, the first on its way down the lanes, the second on its way
/// up. 1F1B, PipeDream and zero-bubble run one partition per lane. DualPipe needs an even number of lanes, a partition
/// for each, and an even number of micro-batches, two or more for each lane. A file needs its own partitions, placement
/// and micro-batches.
void check_schedule(const Schedule& schedule, const PipelineShape& shape);

/// Builds the schedule's task graph. Sets the shape's `loss` and `bidirectional` as the schedule needs them. The file
/// of each family of schedules has its picture and its source.
///
/// A pipedream graph holds the micro-batches of several successive mini-batches; m is their total.
///
/// Throws as check_schedule() does. Precondition: not automatic, whose order depends on costs.
TaskGraph make_schedule(const Schedule& schedule, PipelineShape shape);
}  // namespace pipescope
