#pragma once

#include "balance/optimal_partition.h"
#include "simulator/memory_bounds.h"
#include "simulator/pipeline_options.h"
#include "simulator/search_tables.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// A balance search's questions to the exact search (balance/optimal_partition.h), and bounds of what simulating a cut
/// would give. Memory limits are part of every problem. Borrows all it is made of; the problems borrow it.
/// Threading: one thread at a time.
class CutProblems {
public:
    CutProblems(const Profile& profile, const PipelineOptions& options, int partitions, const SearchTables& tables);
    CutProblems(const CutProblems&) = delete;
    CutProblems& operator=(const CutProblems&) = delete;

    /// Skips left out, memory at its least; of micro-batches of two sizes one is as quick as either, the others as they
    /// are, each on its own: where cost_is_a_bound(), no real step is shorter than this problem's, and with equal
    /// micro-batches and no skip across a cut none is longer.
    PartitionProblem least() const;
    PartitionProblem large() const;  ///< all micro-batches of the larger size; memory at its least
    /// As large(), but with memory at its most, so that what keeps the limit keeps it for certain.
    PartitionProblem whatever_waits() const;
    /// To order cuts by peak_bytes, memory at its least with gpipe, without limits.
    PartitionProblem least_memory() const;
    /// To order cuts by peak_bytes, memory at its least; ranges that are over the given limit for sure are marked so.
    /// Where the options' limits differ it is the largest lane's, and the others as far below it as theirs.
    PartitionProblem within(Bytes limit) const;

    /// Whether least() bounds the step of the options' schedule.
    bool cost_is_a_bound() const;
    /// Whether lanes of the options may slow each other down: they share a device, the host's cores or a link, or one
    /// process launches for several. Then simulating says more than the closed form.
    bool lanes_share() const;
    /// Whether what a lane holds depends, in the forward phase, on the partitions before it only, and in the backward
    /// phase on those behind.
    bool lanes_depend_on_one_side() const;

    /// By the recurrence, with micro-batches of their own sizes: no simulated step of the balance is shorter.
    /// Precondition: cost_is_a_bound().
    std::int64_t step_at_least(const Balance& balance) const;
    /// Some lane does at least the smallest largest share of the work, whatever the schedule.
    std::int64_t work_bound() const;
    /// What a layer costs a lane per micro-batch.
    std::vector<double> layer_costs() const;
    /// A cut whose lanes need about equally much, by constants and saved tensors.
    Balance even_memory() const;

private:
    PartitionProblem problem_at(const SizedProfile& sized, std::shared_ptr<const IntervalTable> intervals) const;
    PartitionProblem with_limits(PartitionProblem problem, std::vector<Bytes> limits) const;
    std::vector<std::int64_t> copies(const SizedProfile& sized) const;  ///< behind each layer but the last, in ns
    std::int64_t copy_ns(Bytes bytes) const;                            // between two devices
    bool is_free(int boundary) const;                                   // between partitions `boundary` and the next
    std::int64_t loss_ns() const;

    const Profile& profile_;
    PipelineOptions options_;  ///< with some cut into `partitions`: their lanes are asked for
    int partitions_;
    const SearchTables& tables_;
    bool lanes_are_apart_ = true;  // each on a device of its own
    mutable MemoryBounds bounds_;  // remembers what it worked out
};
}  // namespace pipescope
