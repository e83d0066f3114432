#include "simulator/clock/task_costs.h"

#include "balance/partition_time.h"
#include "base/error.h"
#include "base/printable.h"
#include "schedule/placement.h"
#include "schedule/schedules.h"
#include "simulator/clock/contention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace pipescope {
namespace {

/// Deviation of the sum of independent layers over the sum. Excludes the noise they share, which no single task varies
/// by.
double combined_cv(const std::vector<double>& times, LayerRange layers, double common_cv, const auto& cv_of) {
    double sum = 0;
    double variance = 0;
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        sum += times[l];
        const double own = std::max(0.0, cv_of(l) * cv_of(l) - common_cv * common_cv);
        variance += times[l] * times[l] * own;
    }
    return sum > 0 ? std::sqrt(variance) / sum : 0;
}
}  // namespace

Gradients gradients_of(const LayerProfile& layer) {
    const auto experts = static_cast<double>(layer.expert_gradient_bytes);
    return {static_cast<double>(layer.gradient_bytes) - experts, experts};
}

TaskCosts::TaskCosts(const Profile& profile, const PipelineOptions& options, int mini_batches)
    : options_(options),
      num_lanes_(num_lanes(options)),
      mini_batches_(mini_batches),
      sizes_(micro_batch_sizes(options)),
      routes_(skip_routes(profile, options.balance, options.placement)) {
    add_shared(profile);
    per_mini_batch_ = static_cast<int>(sizes_.size());
    sized_.push_back(at_size(profile, sizes_.front()));
    if (sizes_.back() != sizes_.front()) {
        sized_.push_back(at_size(profile, sizes_.back()));
    }
    const double loss = loss_time_alone(profile, replica_batch(options));
    double fastest = 0;
    for (int lane = 0; lane < num_lanes_; ++lane) {
        fastest = std::max(fastest, speed_of(options.hardware, LaneId{lane}));
    }
    serial_ns_ = loss;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
        const SizedProfile& at = sized(static_cast<int>(i));
        const std::vector<double>& forward = keeps_graph(static_cast<int>(i)) ? at.kept_forward : at.forward;
        serial_ns_ += std::accumulate(forward.begin(), forward.end(), 0.0);
        serial_ns_ += std::accumulate(at.backward.begin(), at.backward.end(), 0.0);
    }
    serial_ns_ /= fastest;
    check_magnitude(profile);
    const std::vector<LaneId> last = lanes_of(options, PartitionId{options.balance.num_partitions() - 1});
    loss_ns_ = rounded_time(loss, speed_of(options.hardware, last.front()));
    optimizer_ = optimizer_times(profile);
    for (const SizedProfile& at : sized_) {
        times_.push_back(partition_times(profile, at));
        for (const LaneId lane : last) {
            times_.back().loss.push_back(
                rounded_time(loss_time_alone(profile, at.samples), speed_of(options.hardware, lane)));
        }
    }
    const std::size_t m = sizes_.size();
    for (std::size_t i = m; i < m * static_cast<std::size_t>(mini_batches); ++i) {
        sizes_.push_back(sizes_[i - m]);
    }
}

void TaskCosts::add_shared(const Profile& profile) {
    const std::vector<ProfiledShare> shares = shares_of(profile);
    std::vector<SharedLayers> layers;
    for (const ProfiledShare& each : shares) {
        layers.push_back(each.where);
    }
    std::vector<LaneId> placement = options_.placement;
    if (is_bidirectional(options_.schedule)) {  // partitions j and n - 1 - j are on the same lanes
        const auto n = static_cast<std::int64_t>(options_.balance.num_partitions());
        placement.clear();
        for (std::int64_t j = 0; j < n; ++j) {
            placement.emplace_back(std::min(j, mirrored(j, n)));
        }
    }
    shared_ = shared_routes(layers, options_.balance, placement);
    shared_bytes_.resize(shared_.size());
    for (const ProfiledShare& each : shares) {
        const LaneId holder = lane_of(placement, options_.balance.partition_of(each.where.layers.front()));
        std::set<LaneId> users;
        for (const LayerId layer : each.where.layers) {
            users.insert(lane_of(placement, options_.balance.partition_of(layer)));
        }
        users.erase(holder);
        for (const LaneId user : users) {
            SharedBytes& bytes = shared_bytes_[route_of(shared_, each.where, options_.balance, placement, user)];
            bytes.parameter_bytes += each.bytes.parameter_bytes;
            bytes.gradient_bytes += each.bytes.gradient_bytes;
        }
    }
    double gradients = 0;
    for (const LayerProfile& layer : profile.layers) {
        gradients += static_cast<double>(layer.gradient_bytes);
    }
    for (std::size_t k = 0; k < shared_.size(); ++k) {
        const double part = static_cast<double>(shared_bytes_[k].gradient_bytes) / std::max(1.0, gradients);
        shared_sums_.push_back(rounded_time(profile.optimizer_ns * part / speed_alone(profile),
                                            speed_of(options_.hardware, lane_of(placement, shared_[k].from))));
    }
}

/// Computes in double, where nothing overflows: no sum of tasks is larger, whatever their order.
void TaskCosts::check_magnitude(const Profile& profile) const {
    double slowest = 1;
    for (const double speed : options_.hardware.speeds) {
        slowest = std::min(slowest, speed);
    }
    double time = serial_ns_ + profile.optimizer_ns / slowest;
    double bytes = 0;
    const OptimizerStates states = optimizer_states(options_, profile.dtype);
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        const LayerProfile& layer = profile.layers[l];
        const auto gradients = static_cast<double>(layer.gradient_bytes);
        const double versions = is_synchronous(options_.schedule) ? 1 : kMostPartitions;
        bytes += versions * static_cast<double>(layer.parameter_bytes) + static_cast<double>(layer.buffer_bytes);
        bytes += gradients + static_cast<double>(states.of(layer));
        double longest = sum_ns(gradients_of(layer), LaneId{0});
        for (const PairLink& pair : options_.hardware.pairs) {
            longest = std::max(longest, sum_ns(gradients_of(layer), LaneId{pair.a}));
        }
        time += longest;
    }
    const auto m = static_cast<double>(sizes_.size());
    bytes += static_cast<double>(loss_transient(profile, replica_batch(options_), true));
    for (const SizedProfile& at : sized_) {
        bytes += m * static_cast<double>(loss_transient(profile, at.samples, false));
        const auto add_transfer = [&](Bytes moved) {
            bytes += 4 * m * static_cast<double>(moved);
            double longest = options_.hardware.link.copy_ns(static_cast<double>(moved));
            for (const LinkTier& tier : options_.hardware.nearer) {
                longest = std::max(longest, tier.link.copy_ns(static_cast<double>(moved)));
            }
            for (const PairLink& pair : options_.hardware.pairs) {
                longest = std::max(longest, pair.link.copy_ns(static_cast<double>(moved)));
            }
            time += 2 * m * longest;
        };
        add_transfer(at.input);
        for (std::size_t l = 0; l < at.forward.size(); ++l) {
            time += m * (std::max(at.forward[l], at.kept_forward[l]) + at.recompute[l] + at.backward[l]) / slowest;
            bytes += m * (static_cast<double>(at.saved[l]) + static_cast<double>(at.transient[l]));
            add_transfer(at.output[l]);
        }
        for (std::size_t skip = 0; skip < at.skips.size(); ++skip) {
            for (std::size_t pop = 0; pop < at.skip_layers[skip].pops.size(); ++pop) {
                add_transfer(at.skips[skip]);
            }
        }
    }
    for (std::size_t k = 0; k < shared_.size(); ++k) {
        const auto& [parameters, gradients] = shared_bytes_[k];
        const auto there = static_cast<double>(parameters);
        const auto back = static_cast<double>(gradients);
        bytes += 2 * (there + back);
        double longest = 0;
        const auto consider = [&](const Link& link) {
            longest = std::max(longest, link.copy_ns(there) + link.copy_ns(back));
        };
        consider(options_.hardware.link);
        std::ranges::for_each(options_.hardware.nearer, consider, &LinkTier::link);
        std::ranges::for_each(options_.hardware.pairs, consider, &PairLink::link);
        time += longest + static_cast<double>(shared_sums_[k]);
    }
    if (!(time < kMostPerStep) || !(bytes < kMostPerStep)) {
        const double more = std::max(time, bytes);
        throw UsageError("batch " + std::to_string(options_.batch) + " would take " +
                         (std::isfinite(more) ? shortest(more) : "more than 1e308") +
                         " ns or bytes; a step must stay below 4e18 of either; use a smaller batch, or correct the "
                         "profile's units, the speeds or the link");
    }
}

std::vector<std::int64_t> TaskCosts::optimizer_times(const Profile& profile) const {
    std::vector<double> ns(static_cast<std::size_t>(num_lanes_));
    for (std::size_t j = 0; j < options_.balance.num_partitions(); ++j) {
        const PartitionId partition{j};
        for (const LaneId lane : lanes_of(options_, partition)) {
            ns[lane.index()] += optimizer_time(profile, options_.balance.layers_of(partition)) / speed_alone(profile);
        }
    }
    std::vector<std::int64_t> times;
    for (std::size_t lane = 0; lane < ns.size(); ++lane) {
        times.push_back(rounded_time(ns[lane], speed_of(options_.hardware, LaneId{lane})));
    }
    return times;
}

TaskCosts::PartitionTimes TaskCosts::partition_times(const Profile& profile, const SizedProfile& at) const {
    PartitionTimes times;
    const auto forward_cv = [&](std::size_t l) { return profile.layers[l].forward_cv; };
    const auto backward_cv = [&](std::size_t l) { return profile.layers[l].backward_cv; };
    const bool splits = splits_backward(options_.schedule);
    const std::size_t n = options_.balance.num_partitions();
    for (std::size_t place = 0; place < (is_bidirectional(options_.schedule) ? 2 * n : n); ++place) {
        const PartitionId partition{place % n};
        const LayerRange layers = options_.balance.layers_of(partition);
        const LaneId lane = lanes_of(options_, partition)[place / n];
        const double speed = speed_of(options_.hardware, lane);
        const auto of = [&](const std::vector<double>& ns) {
            return partition_time(std::span(ns).subspan(layers.first.index(), layers.size()), speed);
        };
        times.forward.push_back(of(at.forward));
        times.kept_forward.push_back(of(at.kept_forward));
        times.recompute.push_back(of(at.recompute));
        times.backward.push_back(of(at.backward));
        times.backward_weight.push_back(splits ? of(at.backward_weight) : 0);
        times.backward.back() -= times.backward_weight.back();
        times.all_reduce.push_back(all_reduce_time(profile, layers, lane));
        times.forward_cv.push_back(combined_cv(at.forward, layers, profile.step_cv, forward_cv));
        times.kept_forward_cv.push_back(combined_cv(at.kept_forward, layers, profile.step_cv, forward_cv));
        times.recompute_cv.push_back(combined_cv(at.recompute, layers, profile.step_cv, forward_cv));
        times.backward_cv.push_back(combined_cv(at.backward, layers, profile.step_cv, backward_cv));
    }
    return times;
}

/// A ring over the copies of the weights: each sends 2 (R - 1) parts of 1 / R of the gradients, one after the other.
/// With a bidirectional schedule the ring runs over both lanes of each replica, and its slowest link counts.
/// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69 (2009).
double TaskCosts::sum_ns(const Gradients& gradients, LaneId lane) const {
    const bool is_doubled = is_bidirectional(options_.schedule);
    const auto lanes = static_cast<int>(options_.balance.num_partitions());
    const LaneId mirror{mirrored<std::int64_t>(lane.value(), lanes)};
    const bool crosses = is_doubled && !share_device(options_.hardware, lane, mirror, lanes);
    const auto ring = [&](double copies, const Link& link, double bytes) {
        const auto over = [&](const Link& each) { return 2 * (copies - 1) * each.exchange_ns(bytes / copies); };
        const double between_replicas = !is_doubled || copies > 2 ? over(link) : 0;
        return crosses ? std::max(between_replicas, over(link_between(options_.hardware, lane, mirror)))
                       : between_replicas;
    };
    const ExpertSums& experts = options_.experts;
    const double usual =
        gradients.usual > 0 || gradients.experts == 0
            ? ring(num_weight_copies(options_), replica_link_of(options_.hardware, lane), gradients.usual)
            : 0;
    if (gradients.experts == 0 || experts.links.empty()) {
        return usual;
    }
    return usual + ring(num_expert_copies(options_),
                        experts.links.size() > 1 ? experts.links[lane.index()] : experts.links.front(),
                        gradients.experts);
}

std::int64_t TaskCosts::all_reduce_time(const Profile& profile, LayerRange layers, LaneId lane) const {
    Gradients gradients;
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        gradients += gradients_of(profile.layers[l]);
    }
    return std::llround(sum_ns(gradients, lane));
}

bool TaskCosts::extrapolated() const {
    return std::ranges::any_of(sized_, [](const SizedProfile& at) { return at.extrapolated; });
}

Bytes TaskCosts::bytes(const TaskKey& key) const {
    switch (key.kind) {
        case TaskKind::copy_forward:
        case TaskKind::copy_backward:
            return sized(key.micro_batch)
                .output[options_.balance.layers_of(PartitionId{key.partition}).end.index() - 1];
        case TaskKind::skip_forward:
        case TaskKind::skip_backward: {
            const SizedProfile& at = sized(key.micro_batch);
            const std::size_t skip = skip_of(static_cast<std::size_t>(key.skip));
            return key.kind == TaskKind::skip_forward || at.has_gradient[skip] ? at.skips[skip] : 0;
        }
        case TaskKind::shared_forward: return shared_bytes_[static_cast<std::size_t>(key.skip)].parameter_bytes;
        case TaskKind::shared_backward: return shared_bytes_[static_cast<std::size_t>(key.skip)].gradient_bytes;
        default: return 0;
    }
}

bool TaskCosts::keeps_graph(int i) const {
    return !is_checkpointed(options_.checkpoint, MicroBatchId{i % per_mini_batch_}, per_mini_batch_);
}

bool TaskCosts::is_reversed(int i) const {
    return is_bidirectional(options_.schedule) && i % per_mini_batch_ >= per_mini_batch_ / 2;
}

std::int64_t TaskCosts::forward(int i, int j, bool keeps_graph) const {
    const PartitionTimes& times = times_[size_class(i)];
    return (keeps_graph ? times.kept_forward : times.forward)[place_of(i, j)];
}

std::int64_t TaskCosts::duration(const Task& task) const {
    const TaskKey& key = task.key;
    if (key.kind == TaskKind::loss) {
        return key.micro_batch < 0 ? loss_ns_
                                   : times_[size_class(key.micro_batch)].loss[is_reversed(key.micro_batch) ? 1 : 0];
    }
    if (is_copy(key.kind)) {
        if (share_device(options_.hardware, task.lane, task.receiver, num_lanes_)) {
            return 0;
        }
        return std::llround(
            link_between(options_.hardware, task.lane, task.receiver).copy_ns(static_cast<double>(bytes(key))));
    }
    if (key.kind == TaskKind::optimizer) {
        return optimizer_[task.lane.index()];
    }
    if (key.kind == TaskKind::shared_sum) {
        return shared_sums_[static_cast<std::size_t>(key.skip)];
    }
    const std::size_t j = place_of(key.micro_batch, key.partition);
    if (key.kind == TaskKind::all_reduce) {
        return times_.front().all_reduce[j];
    }
    const PartitionTimes& times = times_[size_class(key.micro_batch)];
    switch (key.kind) {
        case TaskKind::forward: return forward(key.micro_batch, key.partition, keeps_graph(key.micro_batch));
        case TaskKind::recompute: return times.recompute[j];
        case TaskKind::backward: return times.backward[j];
        case TaskKind::backward_weight: return times.backward_weight[j];
        default: return 0;
    }
}

double TaskCosts::cv(const Task& task) const {
    if (!is_compute(task.key.kind)) {
        return 0;
    }
    const PartitionTimes& times = times_[size_class(task.key.micro_batch)];
    const std::size_t j = place_of(task.key.micro_batch, task.key.partition);
    switch (task.key.kind) {
        case TaskKind::forward:
            return (keeps_graph(task.key.micro_batch) ? times.kept_forward_cv : times.forward_cv)[j];
        case TaskKind::recompute: return times.recompute_cv[j];
        case TaskKind::backward:
        case TaskKind::backward_weight: return times.backward_cv[j];
        default: return 0;
    }
}
}  // namespace pipescope
