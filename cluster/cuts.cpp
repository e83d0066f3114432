#include "cluster/cuts.h"

#include "balance/contiguous_partition.h"
#include "hardware/hardware.h"
#include "schedule/schedules.h"
#include "simulator/sized_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace pipescope {
namespace {
/// True if a partition may have the layers [first, end).
using MayHave = std::function<bool(std::size_t partition, std::size_t first, std::size_t end)>;

/// Minimizes the time of the slowest part, where part j takes costs[j] of its layers. Among such cuts, picks one with
/// the smallest sum of squares. Empty if each cut gives some part layers that it may not have; an empty `may_have`
/// allows everything. Cost: O(parts layers^2). Precondition: `may_have` allows parts of allowed ranges; there are at
/// least as many layers as parts.
std::optional<Balance> unlike_partition(const std::vector<const std::vector<double>*>& costs, const MayHave& may_have) {
    const std::size_t parts = costs.size();
    const std::size_t layers = costs.front()->size();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::map<const std::vector<double>*, std::vector<double>> before;  // prefix sums over the layers
    for (const std::vector<double>* each : costs) {
        if (const auto [sums, is_new] = before.try_emplace(each, std::vector<double>{0}); is_new) {
            std::partial_sum(each->begin(), each->end(), std::back_inserter(sums->second));
        }
    }
    // Finds the best cut of all layers by its longest part, or with `starts` by the sum of squares. No part exceeds the
    // limit.
    const auto best = [&](double limit, std::vector<std::vector<std::size_t>>* starts) {
        std::vector<double> last(layers + 1, kNever);
        last[0] = 0;
        for (std::size_t j = 0; j < parts; ++j) {
            std::vector<double> next(layers + 1, kNever);
            const std::vector<double>& sums = before.at(costs[j]);
            for (std::size_t end = j + 1; end <= layers - (parts - j - 1); ++end) {
                for (std::size_t start = end; start-- > j;) {
                    const double part = sums[end] - sums[start];
                    const double least = starts == nullptr ? part : part * part;
                    // Longer parts cannot be better, either.
                    if (part > limit || least >= next[end] || (may_have && !may_have(j, start, end))) {
                        break;
                    }
                    const double value = starts == nullptr ? std::max(last[start], part) : last[start] + least;
                    if (value < next[end]) {
                        next[end] = value;
                        if (starts != nullptr) {
                            (*starts)[j][end] = start;
                        }
                    }
                }
            }
            last = std::move(next);
        }
        return last[layers];
    };
    constexpr double kRounding = 1 + 1e-12;
    std::vector<std::vector<std::size_t>> starts(parts, std::vector<std::size_t>(layers + 1));
    const double longest = best(kNever, nullptr);
    if (longest == kNever) {
        return std::nullopt;
    }
    best(longest * kRounding, &starts);
    std::vector<std::int64_t> sizes(parts);
    for (std::size_t j = parts, end = layers; j-- > 0;) {
        sizes[j] = static_cast<std::int64_t>(end - starts[j][end]);
        end = starts[j][end];
    }
    return Balance(sizes);
}

std::vector<const std::vector<double>*> costs_by_partition(const PartProfiles& profiles, const LayerCosts& costs,
                                                           const PipelineOptions& options, std::size_t partitions) {
    std::vector<const std::vector<double>*> of_partition;
    for (std::size_t j = 0; j < partitions; ++j) {
        of_partition.push_back(&costs[profiles.of_lane[lane_of(options, j)]]);
    }
    return of_partition;
}
}  // namespace

LayerCosts times_by_part(const PartProfiles& profiles) {
    LayerCosts times;
    for (const PartProfilePointer& each : profiles.parts) {
        times.push_back(each->times);
    }
    return times;
}

std::size_t lane_of(const PipelineOptions& options, std::size_t partition) {
    return lane_of(options.placement, PartitionId{partition}).index();
}

double CopyTimes::all() const {
    return std::accumulate(after.begin(), after.end(), 0.0);
}

double CopyTimes::before(std::size_t partition, bool splits) const {
    double ns = 0;
    for (std::size_t j = 0; j < partition; ++j) {
        ns += after[j] * (splits || j + 1 == partition ? 1 : 2);
    }
    return ns;
}

CopyTimes copy_times(const Hardware& hardware, const std::vector<LaneId>& placement, std::size_t lanes,
                     std::size_t partitions, double bytes) {
    CopyTimes times{{}, std::vector<double>(lanes)};
    for (std::size_t j = 0; j + 1 < partitions; ++j) {
        const LaneId from = lane_of(placement, PartitionId{j});
        const LaneId to = lane_of(placement, PartitionId{j + 1});
        if (from == to) {
            times.after.push_back(0);
            continue;
        }
        const Link& link = link_between(hardware, from, to);
        const double ns = link.copy_ns(bytes);
        times.after.push_back(ns);
        // Each lane sends one of the two messages and receives the other.
        const double waits = link.sends == Sends::overlapped ? 0 : link.sends == Sends::blocking ? ns : 2 * ns;
        times.of_lane[from.index()] += waits;
        times.of_lane[to.index()] += waits;
    }
    return times;
}

CopyTimes copy_times(const PartProfiles& profiles, const PipelineOptions& options) {
    Bytes least = std::numeric_limits<Bytes>::max();
    for (const PartProfilePointer& each : profiles.parts) {
        const std::vector<Bytes>& output = each->sized.output;
        least = std::min(least, output.size() > 1 ? *std::min_element(output.begin(), output.end() - 1) : 0);
    }
    return copy_times(options.hardware, options.placement, profiles.of_lane.size(), options.balance.num_partitions(),
                      static_cast<double>(least));
}

Balance even_cuts(std::size_t layers, int partitions) {
    const auto blocks = static_cast<std::int64_t>(layers) - 2;
    return own_cuts(std::vector<std::int64_t>(static_cast<std::size_t>(partitions), blocks / partitions));
}

Balance own_cuts(std::vector<std::int64_t> blocks) {
    ++blocks.front();
    ++blocks.back();
    return Balance(std::move(blocks));
}

namespace {
double busiest_lane(const Balance& balance, const std::vector<double>& times, const PipelineOptions& options) {
    std::vector<double> sums(balance.num_partitions());  // no more lanes than partitions
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            sums[lane_of(options, j)] += times[l];
        }
    }
    return std::ranges::max(sums);
}

/// Deals layers out one by one, each to the lane with the least work so far, as if all layers between the ends took
/// equally long. The lane adds it to its smallest partition.
Balance dealt_out(const std::vector<double>& times, const PipelineOptions& options, std::size_t partitions) {
    const std::size_t layers = times.size();
    const double block = layers > 2 ? times[layers / 2] : 0;
    std::vector<std::int64_t> sizes(partitions, 1);
    std::vector<double> sums(partitions);
    for (std::size_t j = 0; j < partitions; ++j) {
        sums[lane_of(options, j)] += j == 0 ? times.front() : j + 1 == partitions ? times.back() : block;
    }
    for (std::size_t left = layers - partitions; left > 0; --left) {
        std::size_t best = 0;
        for (std::size_t j = 1; j < partitions; ++j) {
            const auto rank = [&](std::size_t of) { return std::pair(sums[lane_of(options, of)], sizes[of]); };
            best = rank(j) < rank(best) ? j : best;
        }
        ++sizes[best];
        sums[lane_of(options, best)] += block;
    }
    return Balance(sizes);
}
}  // namespace

Balance KnownCuts::of(const PartProfiles& profiles, const PipelineOptions& options, std::size_t partitions) {
    constexpr std::size_t kMost = 4096;
    if (known_.size() == kMost) {
        known_.clear();
    }
    const auto [cuts, is_new] = known_.try_emplace({profiles.parts, profiles.of_lane, options.placement, partitions},
                                                   std::vector<std::int64_t>{1});
    if (is_new) {
        cuts->second = quickest_cuts(profiles, times_by_part(profiles), options, partitions);
    }
    return cuts->second;
}

Balance quickest_cuts(const PartProfiles& profiles, const LayerCosts& costs, const PipelineOptions& options,
                      std::size_t partitions) {
    if (costs.size() > 1) {
        return *unlike_partition(costs_by_partition(profiles, costs, options, partitions), {});
    }
    Balance cuts = minmax_partition(costs.front(), static_cast<int>(partitions));
    if (!options.placement.empty()) {  // a lane works for the sum of its partitions
        Balance dealt = dealt_out(costs.front(), options, partitions);
        if (busiest_lane(dealt, costs.front(), options) < busiest_lane(cuts, costs.front(), options)) {
            cuts = std::move(dealt);
        }
    }
    return cuts;
}

Profile joined(const PartProfiles& profiles, const PipelineOptions& options, const std::string& device) {
    Profile whole = profiles.parts.back()->profile;  // the last lane's, which computes the loss
    whole.device = device;
    for (std::size_t j = 0; profiles.parts.size() > 1 && j < options.balance.num_partitions(); ++j) {
        const LayerRange layers = options.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            whole.layers[l] = profiles.at(lane_of(options, j)).layers[l];
        }
    }
    return whole;
}

PartSums::PartSums(const PartProfile& part, const PipelineOptions& options) : constants{0}, kept{0} {
    const Profile& profile = part.profile;
    const SizedProfile& sized = part.sized;
    const OptimizerStates states = optimizer_states(options, profile.dtype);
    std::vector<Bytes> each;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        const LayerProfile& layer = profile.layers[l];
        constants.push_back(constants.back() + static_cast<double>(layer.parameter_bytes + layer.gradient_bytes +
                                                                   layer.buffer_bytes + states.of(layer)));
        const Bytes input = l > 0 ? sized.output[l - 1] : 0;
        kept.push_back(kept.back() + static_cast<double>(sized.saved[l] + input));
        each.push_back(sized.transient[l] + sized.output[l] + input);
    }
    work = SparseTable(std::move(each));
}

FittingCuts::FittingCuts(const PartProfiles& profiles, const LayerCosts& costs, const PipelineOptions& options)
    : profiles_(profiles), costs_(costs), options_(options) {
    for (const PartProfilePointer& each : profiles.parts) {
        sums_.emplace_back(*each, options);
    }
}

/// Estimated bytes of a partition at its lane's peak.
double FittingCuts::held(std::size_t partition, std::size_t first, std::size_t end) const {
    const std::size_t lane = lane_of(options_, partition);
    const PartSums& sums = sums_[profiles_.of_lane[lane]];
    return sums.constants[end] - sums.constants[first] + micro_batches_[lane] * (sums.kept[end] - sums.kept[first]) +
           static_cast<double>(sums.work.largest(first, end));
}

std::optional<Balance> FittingCuts::after(const Simulation& refused) {
    const Balance& balance = refused.options.balance;
    const std::size_t partitions = balance.num_partitions();
    const std::size_t lanes = refused.lanes.size();
    const std::vector<Bytes> limits = memory_limits_of(options_.hardware, static_cast<int>(lanes));
    const auto layers_of = [&](std::size_t j) { return balance.layers_of(PartitionId{static_cast<std::int64_t>(j)}); };
    const bool is_first = micro_batches_.empty();
    if (is_first) {
        std::vector<double> rest(lanes);  // the part of the peak that is neither constants nor work
        std::vector<double> kept(lanes);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            rest[lane] = static_cast<double>(refused.lanes[lane].peak_bytes);
        }
        for (std::size_t j = 0; j < partitions; ++j) {
            const std::size_t first = layers_of(j).first.index();
            const std::size_t end = layers_of(j).end.index();
            for (const LaneId holder : lanes_of(options_, PartitionId{j})) {
                const std::size_t lane = holder.index();
                const PartSums& sums = sums_[profiles_.of_lane[lane]];
                rest[lane] -= sums.constants[end] - sums.constants[first];
                rest[lane] -= static_cast<double>(sums.work.largest(first, end));
                kept[lane] += sums.kept[end] - sums.kept[first];
            }
        }
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            micro_batches_.push_back(kept[lane] > 0 ? std::max(0.0, rest[lane] / kept[lane]) : 0);
        }
        most_.assign(partitions, std::numeric_limits<double>::infinity());
    }
    constexpr double kEstimate = 1.02;  // estimates for other cuts may be wrong by this factor
    constexpr double kLess = 1 - 1e-9;
    std::vector<double> of_lane(lanes);
    for (std::size_t j = 0; j < partitions; ++j) {
        for (const LaneId lane : lanes_of(options_, PartitionId{j})) {
            of_lane[lane.index()] += held(j, layers_of(j).first.index(), layers_of(j).end.index());
        }
    }
    for (std::size_t j = 0; j < partitions; ++j) {
        const double here = held(j, layers_of(j).first.index(), layers_of(j).end.index());
        for (const LaneId holder : lanes_of(options_, PartitionId{j})) {
            const std::size_t lane = holder.index();
            const auto limit = static_cast<double>(limits[lane]);
            if (is_first) {
                most_[j] = std::min(most_[j], here * limit / of_lane[lane] * kEstimate);
            }
            if (refused.lanes[lane].peak_bytes > limits[lane]) {
                most_[j] = std::min(most_[j], here * kLess);
            }
        }
    }
    return unlike_partition(
        costs_by_partition(profiles_, costs_, options_, partitions),
        [&](std::size_t j, std::size_t first, std::size_t end) { return held(j, first, end) <= most_[j]; });
}

CutMemory::CutMemory(const PartProfiles& profiles, const PipelineOptions& options, double boundary)
    : profiles_(profiles),
      options_(options),
      micro_batches_(static_cast<std::int64_t>(micro_batch_sizes(options).size())),
      boundary_(boundary),
      limits_(memory_limits_of(options.hardware, static_cast<int>(profiles.of_lane.size()))) {
    for (const PartProfilePointer& each : profiles.parts) {
        sums_.emplace_back(*each, options);
    }
    const auto lanes = static_cast<int>(profiles.of_lane.size());
    for (int lane = 0; lane < lanes; ++lane) {
        held_.push_back(held_micro_batches(options.schedule, LaneId{lane}, lanes, options.balance.num_partitions(),
                                           micro_batches_));
    }
    copies_ = copy_times(profiles, options);
}

/// The least that a lane must hold at some time. If it has several partitions, the least for one of them.
double CutMemory::least_bytes(std::size_t lane, std::size_t first, std::size_t end) const {
    const PartSums& sums = sums_[profiles_.of_lane[lane]];
    return sums.constants[end] - sums.constants[first] + held_[lane].least * (sums.kept[end] - sums.kept[first]);
}

bool CutMemory::surely_exceeds(const Balance& balance) const {
    for (std::size_t j = 0; j < balance.num_partitions() && !limits_.empty(); ++j) {
        const std::size_t lane = lane_of(options_, j);
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        if (least_bytes(lane, layers.first.index(), layers.end.index()) > static_cast<double>(limits_[lane])) {
            return true;
        }
    }
    return false;
}

bool CutMemory::surely_fits(const Balance& balance) const {
    const std::size_t lanes = profiles_.of_lane.size();
    if (limits_.empty()) {
        return true;
    }
    if (splits_backward(options_.schedule)) {
        return false;  // graphs stay for the second half
    }
    std::vector<double> constants(lanes);
    std::vector<double> kept(lanes);  // of the largest partition
    std::vector<double> work(lanes);
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const std::size_t lane = lane_of(options_, j);
        const PartSums& here = sums_[profiles_.of_lane[lane]];
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        const std::size_t first = layers.first.index();
        const std::size_t end = layers.end.index();
        constants[lane] += here.constants[end] - here.constants[first];
        kept[lane] = std::max(kept[lane], here.kept[end] - here.kept[first]);
        work[lane] = std::max(work[lane], static_cast<double>(here.work.largest(first, end)));
    }
    const SizedProfile& last = profiles_.parts.back()->sized;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        const double held = held_[lane].most;
        const double before = held_[lane > 0 ? lane - 1 : lanes - 1].most;
        const bool is_known = held_[lane].is_known;
        // Tensors wait here only for micro-batches that this lane or the one before holds. These are inputs (if their
        // number is known, of micro-batches that this lane does not hold yet), gradients of outputs, and what is sent,
        // one at a time if the lane waits.
        const double inputs = is_known ? std::max(0.0, before - held) : before;
        const double sent = options_.hardware.link.sends == Sends::overlapped ? held + before : 2;
        double bytes = constants[lane] + held * kept[lane] + work[lane] + (inputs + held + sent + 2) * boundary_;
        bytes += lane == 0 ? static_cast<double>(micro_batches_) * static_cast<double>(last.input) : 0;
        if (lane_of(options_, balance.num_partitions() - 1) == lane) {
            bytes += (is_known ? 2 : 3) * held * static_cast<double>(last.output.back());
        }
        if (bytes > static_cast<double>(limits_[lane])) {
            return false;
        }
    }
    return true;
}

std::optional<double> CutMemory::least_pipeline_ns() const {
    const std::size_t partitions = options_.balance.num_partitions();
    const std::size_t layers = options_.balance.num_layers();
    std::vector<std::vector<double>> before;  // by part: prefix sums of the layers' times
    std::vector<double> ways{0};  // by first layer: least time for the first way there and the last way back
    const bool splits = splits_backward(options_.schedule);
    const bool has_ways = partitions == profiles_.of_lane.size();
    for (const PartProfilePointer& each : profiles_.parts) {
        std::vector<double>& sums = before.emplace_back(std::vector<double>{0});
        std::partial_sum(each->times.begin(), each->times.end(), std::back_inserter(sums));
    }
    for (std::size_t l = 0; l < layers; ++l) {
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t part = 0; part < before.size(); ++part) {
            least = std::min(least, splits ? profiles_.parts[part]->profile.layers[l].forward_ns.front()
                                           : before[part][l + 1] - before[part][l]);
        }
        ways.push_back(ways.back() + (has_ways ? least : 0));
    }
    // If a lane has several partitions, their layers share its time and memory: the ends aside, as many as the cheapest
    // ones of its part.
    std::vector<double> least_times;  // by part: of a layer
    std::vector<double> least_constants;
    for (std::size_t part = 0; part < before.size() && layers > 2; ++part) {
        const std::vector<double>& constants = sums_[part].constants;
        double time = std::numeric_limits<double>::infinity();
        double bytes = time;
        for (std::size_t l = 1; l + 1 < layers; ++l) {
            time = std::min(time, before[part][l + 1] - before[part][l]);
            bytes = std::min(bytes, constants[l + 1] - constants[l]);
        }
        least_times.push_back(time);
        least_constants.push_back(bytes);
    }
    // A lane also waits for its copies. A partition's part of them: with one partition per lane, all of them.
    std::vector<double> waits(partitions);
    std::vector<double> hops(partitions);  // copies on the first way there and the last way back
    for (std::size_t j = 0; j < partitions && has_ways; ++j) {
        waits[j] = micro_batches_ * copies_.of_lane[lane_of(options_, j)];
        hops[j] = copies_.before(j, splits);
    }
    const auto lanes_hold_all = [&](double ns) {
        if (layers <= 2) {
            return true;
        }
        constexpr double kRounding = 1 + 1e-9;
        double held = 0;
        for (std::size_t lane = 0; lane < profiles_.of_lane.size(); ++lane) {
            const std::size_t part = profiles_.of_lane[lane];
            const double most_by_time = (ns / micro_batches_ - copies_.of_lane[lane]) / least_times[part] * kRounding;
            const double most_by_memory = limits_.empty() || least_constants[part] <= 0
                                              ? most_by_time
                                              : static_cast<double>(limits_[lane]) / least_constants[part] * kRounding;
            held += std::floor(std::max(0.0, std::min(most_by_time, most_by_memory)));
        }
        return held >= static_cast<double>(layers - 2);
    };
    // A lane works on all micro-batches between the first one's arrival and the last one's way back. Each partition
    // greedily takes as many layers as it may: if a range fits, so does any part of it, so this leaves the fewest. A
    // partition may get none, which only lowers the bound.
    const auto can_end_by = [&](double ns) {
        if (!has_ways && !lanes_hold_all(ns)) {
            return false;
        }
        std::size_t first = 0;
        for (std::size_t j = 0; j < partitions; ++j) {
            const std::size_t lane = lane_of(options_, j);
            const std::vector<double>& times = before[profiles_.of_lane[lane]];
            const auto may_have = [&](std::size_t end) {
                return micro_batches_ * (times[end] - times[first]) + ways[first] + waits[j] + hops[j] <= ns &&
                       (limits_.empty() || least_bytes(lane, first, end) <= static_cast<double>(limits_[lane]));
            };
            std::size_t end = first;
            while (end < layers && may_have(end + 1)) {
                ++end;
            }
            first = end;
        }
        return first == layers;
    };
    double most = 0;
    for (const std::vector<double>& sums : before) {
        most = std::max(most, (micro_batches_ + 1) * sums.back());
    }
    most += 2 * copies_.all() + micro_batches_ * std::accumulate(copies_.of_lane.begin(), copies_.of_lane.end(), 0.0);
    if (!can_end_by(most)) {
        return std::nullopt;
    }
    double least = 0;
    for (constexpr double kClose = 1e-4; most - least > kClose * most;) {
        const double middle = (least + most) / 2;
        (can_end_by(middle) ? most : least) = middle;
    }
    return least;
}
}  // namespace pipescope
