#pragma once

#include "profiler/profile/profile.h"
#include "schedule/task_graph.h"
#include "simulator/pipeline_options.h"
#include "simulator/sized_profile.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Bytes of gradients, by who sums them.
struct Gradients {
    double usual = 0;
    double experts = 0;  ///< ExpertSums

    Gradients& operator+=(const Gradients& other) {
        usual += other.usual;
        experts += other.experts;
        return *this;
    }
};
Gradients gradients_of(const LayerProfile& layer);

/// Costs of one step's tasks: the profile read at the actual micro-batch sizes and summed per partition. Micro-batches
/// have at most two sizes, so two profiles are read, the larger size first.
class TaskCosts {
public:
    /// Throws UsageError if the step's times or bytes would overflow 64 bits. Preconditions: the profile was checked,
    /// and check_options() pass. With several mini-batches in a row, micro-batch i of mini-batch s has number s m + i.
    TaskCosts(const Profile& profile, const PipelineOptions& options, int mini_batches = 1);

    int mini_batches() const { return mini_batches_; }
    /// Sizes of all micro-batches, in samples.
    const std::vector<std::int64_t>& micro_batches() const { return sizes_; }
    /// The profile at the size of micro-batch i.
    const SizedProfile& sized(int i) const { return sized_[size_class(i)]; }
    bool extrapolated() const;
    /// The skips' routes under the options' balance and placement, by their number in keys.
    const std::vector<SkipRoute>& routes() const { return routes_.routes; }
    /// The skip that goes by the route, as SizedProfile counts skips.
    std::size_t skip_of(std::size_t route) const { return routes_.skip_of.at(route); }
    /// The routes of shared parameters under the options' balance and placement, by their number in keys.
    const std::vector<SharedRoute>& shared() const { return shared_; }
    /// What goes over such a route: the parameters there, and their gradients back.
    const SharedBytes& shared_bytes(std::size_t route) const { return shared_bytes_[route]; }

    /// In ns; 0 for a copy between lanes of one device or over a free link. An optimizer task takes the lane's part of
    /// the profile's optimizer_ns, by bytes of gradients; a shared_sum as long as for the bytes that it adds.
    std::int64_t duration(const Task& task) const;
    /// Standard deviation over mean, from the layers' own noise, taken as independent; 0 for copies and the loss.
    double cv(const Task& task) const;
    /// Time in ns of the forward of micro-batch i on partition j if it keeps its graph, or if it keeps none.
    std::int64_t forward(int i, int j, bool keeps_graph) const;
    /// Bytes moved by a copy, in either direction; 0 for other tasks.
    Bytes bytes(const TaskKey& key) const;
    /// Time of the same layers in sequence on one lane at the fastest lane's speed, loss included, no recompute, in ns.
    double serial_time() const { return serial_ns_; }
    /// Time in ns in which the devices that hold the same weights of a lane, and then those that hold the same experts,
    /// sum gradients.
    double sum_ns(const Gradients& gradients, LaneId lane) const;

private:
    struct PartitionTimes {
        // By place (place_of()), in ns.
        std::vector<std::int64_t> forward, kept_forward, recompute, backward, backward_weight;
        std::vector<std::int64_t> all_reduce;
        std::vector<double> forward_cv, kept_forward_cv, recompute_cv, backward_cv;
        std::vector<std::int64_t> loss;  // per micro-batch, by copy of the last partition
    };

    bool keeps_graph(int i) const;
    /// True if micro-batch i runs through the second copies of the partitions.
    bool is_reversed(int i) const;
    /// The partition that micro-batch i runs, or, with a bidirectional schedule, its second copy, numbered after all
    /// first ones.
    std::size_t place_of(int i, int j) const {
        return static_cast<std::size_t>(j) + (is_reversed(i) ? options_.balance.num_partitions() : 0);
    }
    std::size_t size_class(int i) const { return sizes_[static_cast<std::size_t>(i)] == sizes_.front() ? 0 : 1; }
    std::vector<std::int64_t> optimizer_times(const Profile& profile) const;
    PartitionTimes partition_times(const Profile& profile, const SizedProfile& sized) const;
    std::int64_t all_reduce_time(const Profile& profile, LayerRange layers, LaneId lane) const;
    void check_magnitude(const Profile& profile) const;
    void add_shared(const Profile& profile);

    PipelineOptions options_;
    int num_lanes_ = 1;
    int mini_batches_;
    int per_mini_batch_ = 0;  // micro-batches
    std::vector<std::int64_t> sizes_;
    std::vector<SizedProfile> sized_;    // by size class
    std::vector<PartitionTimes> times_;  // by size class
    SkipRoutes routes_;
    std::vector<SharedRoute> shared_;
    std::vector<SharedBytes> shared_bytes_;  // by route
    std::vector<std::int64_t> shared_sums_;  // ns, by route
    std::int64_t loss_ns_ = 0;               // of the whole mini-batch
    std::vector<std::int64_t> optimizer_;    // ns, by lane
    double serial_ns_ = 0;
};
}  // namespace pipescope
