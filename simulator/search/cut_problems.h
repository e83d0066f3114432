#pragma once

#include "balance/contiguous_partition.h"
#include "balance/optimal_partition.h"
#include "simulator/memory/memory_bounds.h"
#include "simulator/pipeline_options.h"
#include "simulator/search/balance_algorithm.h"
#include "simulator/search/search_tables.h"

#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
/// The balance of an algorithm that looks only at the layers' costs. `optimal` does not, and gets that of minmax.
/// Throws like minmax_partition().
BlockPartition partition_by_costs(BalanceAlgorithm algorithm, std::span<const double> costs, int partitions);

/// Turns a balance search into problems for the exact search (balance/optimal_partition.h), and bounds the simulated
/// step of a cut. Every problem includes the memory limits. Borrows its arguments; the problems borrow this object.
/// Threading: one thread at a time.
class CutProblems {
public:
    CutProblems(const Profile& profile, const PipelineOptions& options, int partitions, const SearchTables& tables);
    CutProblems(const CutProblems&) = delete;
    CutProblems& operator=(const CutProblems&) = delete;

    /// Ignores skips, and takes memory at its least. If micro-batches have two sizes, one of them takes each time at
    /// the smaller of both, and the others keep their own times. If cost_is_a_bound(), no real step is shorter than
    /// this problem's; with equal micro-batches and no skip across a cut, none is longer.
    PartitionProblem least() const;
    PartitionProblem large() const;  ///< all micro-batches of the larger size; memory at its least
    /// Like large(), but with memory at its most: a cut that keeps the limit here keeps it for certain.
    PartitionProblem whatever_waits() const;
    /// For ordering cuts by peak_bytes: memory at its least with gpipe, without limits.
    PartitionProblem least_memory() const;
    /// For ordering cuts by peak_bytes: memory at its least. Marks ranges that are certainly over the given limit. If
    /// the options' limits differ, `limit` is the largest lane's, and the others keep their distance to it.
    PartitionProblem within(Bytes limit) const;

    /// True if least() bounds the step of the options' schedule.
    bool cost_is_a_bound() const;
    /// True if lanes may slow each other down: they share a device, the host's cores or a link, or one process launches
    /// for several. The simulator is then more accurate than the closed form.
    bool lanes_share() const;

    /// A bound by the recurrence, with each micro-batch's own size: no simulated step of the balance is shorter.
    /// Precondition: cost_is_a_bound().
    std::int64_t step_at_least(const Balance& balance) const;
    /// A bound for any schedule: some lane does at least the smallest largest share of the work.
    std::int64_t work_bound() const;
    /// Time of each layer per micro-batch.
    std::vector<double> layer_costs() const;
    /// A cut whose lanes need about the same memory, judged by constants and saved tensors.
    Balance even_memory() const;

private:
    PartitionProblem problem_at(const SizedProfile& sized, std::shared_ptr<const IntervalTable> intervals) const;
    PartitionProblem with_limits(PartitionProblem problem, std::vector<Bytes> limits) const;
    std::vector<std::int64_t> copies(const SizedProfile& sized) const;  ///< behind each layer but the last, in ns
    std::int64_t copy_ns(Bytes bytes) const;                            // between two devices
    bool copies_take_one_link() const;                                  // Hardware::link, between any two partitions
    bool is_free(int boundary) const;                                   // between partitions `boundary` and the next
    std::int64_t loss_ns() const;

    const Profile& profile_;
    PipelineOptions options_;  ///< with an arbitrary cut into `partitions`, so that num_lanes() fits
    int partitions_;
    const SearchTables& tables_;
    const SearchTimes& times_;
    bool lanes_are_apart_ = true;  // each on a device of its own
    mutable MemoryBounds bounds_;  // caches results
};
}  // namespace pipescope
