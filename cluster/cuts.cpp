#include "cluster/cuts.h"

#include "balance/contiguous_partition.h"
#include "schedule/schedules.h"
#include "simulator/hardware.h"
#include "simulator/sized_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace pipescope {
namespace {
/// True if a partition may have the layers from the first to before the last.
using MayHave = std::function<bool(std::size_t partition, std::size_t first, std::size_t end)>;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Minimizes the time of the slowest part. Among such cuts, picks one with the
/// smallest sum of squares. Empty if each has a part that it may not have; with fewer layers a part may always have
/// them. An empty `may_have` allows all. Cost O(parts layers^2). Precondition: as many layers as parts or more.
std::optional<Balance> shortest_longest(const std::vector<const PartTimes*>& of_part, const MayHave& may_have) {
    const std::size_t parts = of_part.size();
    const std::size_t layers = of_part.front()->work.size() - 1;
    // The best cut of all layers, judged by its longest part; with `starts`, by the sum of squares. No part exceeds
    // the limit.
    const auto best = [&](double limit, std::vector<std::vector<std::size_t>>* starts) {
        std::vector<double> last(layers + 1, kNever);
        last[0] = 0;
        for (std::size_t j = 0; j < parts; ++j) {
            std::vector<double> next(layers + 1, kNever);
            for (std::size_t end = j + 1; end <= layers - (parts - j - 1); ++end) {
                for (std::size_t start = end; start-- > j;) {
                    const double part = of_part[j]->work[end] - of_part[j]->work[start];
                    if (part > limit || (may_have && !may_have(j, start, end))) {
                        break;
                    }
                    const double value = starts == nullptr ? std::max(last[start], part) : last[start] + part * part;
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

/// The cuts of a pipeline of unlike devices with one partition a lane, and a time that its step does not fall below.
struct PassedCuts {
    Balance balance;
    double ns = 0;
};
/// Lane j works w_j on each of m micro-batches, after the way of the first one through the lanes before, and before
/// that of the last one back, v_j in each lane. Minimizes the longest of these times,
///     T_j(first) = min over end of max(m w_j, v_j + T_j+1(end)),
/// and of equal ones prefers small sums of squares. Empty if each cut has a lane that may not have its layers.
std::optional<PassedCuts> passed_cuts(const std::vector<const PartTimes*>& lanes, double m, const MayHave& may_have) {
    struct Rest {  // lanes from one on
        double ns = kNever;
        double squares = 0;
        std::size_t end = 0;  // of its layers
    };
    const std::size_t layers = lanes.front()->work.size() - 1;
    std::vector<std::vector<Rest>> rest(lanes.size() + 1, std::vector<Rest>(layers + 1));
    rest.back().back() = {0, 0, 0};
    for (std::size_t j = lanes.size(); j-- > 0;) {
        const PartTimes& times = *lanes[j];
        for (std::size_t first = j; first + lanes.size() - j <= layers; ++first) {
            Rest& best = rest[j][first];
            for (std::size_t end = first + 1; end <= layers - (lanes.size() - j - 1); ++end) {
                const double work = times.work[end] - times.work[first];
                if (m * work > best.ns || (may_have && !may_have(j, first, end))) {
                    break;
                }
                const Rest& next = rest[j + 1][end];
                const double ns = std::max(m * work, times.way[end] - times.way[first] + next.ns);
                const double squares = work * work + next.squares;
                if (ns < best.ns || (ns == best.ns && squares < best.squares)) {
                    best = {ns, squares, end};
                }
            }
        }
    }
    if (rest.front().front().ns == kNever) {
        return std::nullopt;
    }
    std::vector<std::int64_t> sizes;
    for (std::size_t j = 0, first = 0; j < lanes.size(); ++j) {
        const std::size_t end = rest[j][first].end;
        sizes.push_back(static_cast<std::int64_t>(end - first));
        first = end;
    }
    return PassedCuts{Balance(sizes), rest.front().front().ns};
}

bool splits(const PipelineOptions& options) {
    return splits_backward(options.schedule) || options.schedule == Schedule::automatic;
}

std::vector<PartTimes> times_by_part(const PartProfiles& profiles, const PipelineOptions& options,
                                     std::int64_t samples) {
    std::vector<PartTimes> all;
    for (const Profile& each : profiles.profiles) {
        const SizedProfile sized = at_size(each, samples);
        const std::vector<double> work = layer_times(sized, Checkpoint::never, 1);
        const auto sums = [](const std::vector<double>& times) {
            std::vector<double> sum{0};
            std::partial_sum(times.begin(), times.end(), std::back_inserter(sum));
            return sum;
        };
        // A schedule that splits backwards may put off all gradients of weights until a gradient has gone back.
        all.push_back({sums(work), sums(splits(options) ? sized.forward : work), sums(sized.kept_forward)});
    }
    return all;
}

/// The quickest cuts of those that are allowed.
std::optional<Balance> quickest_of(const std::vector<PartTimes>& times, const PartProfiles& profiles,
                                   const PipelineOptions& options, std::size_t partitions, const MayHave& may_have) {
    std::vector<const PartTimes*> lanes;
    for (std::size_t j = 0; j < partitions; ++j) {
        lanes.push_back(&times[profiles.of_lane[lane_of(options, j)]]);
    }
    if (has_unlike_lanes(profiles, options)) {
        const auto m = static_cast<double>(micro_batch_sizes(options).size());
        std::optional<PassedCuts> cuts = passed_cuts(lanes, m, may_have);
        return cuts ? std::optional(std::move(cuts->balance)) : std::nullopt;
    }
    return shortest_longest(lanes, may_have);
}
}  // namespace

bool has_unlike_lanes(const PartProfiles& profiles, const PipelineOptions& options) {
    return profiles.profiles.size() > 1 && options.placement.empty();
}

std::size_t lane_of(const PipelineOptions& options, std::size_t partition) {
    return lane_of(options.placement, PartitionId{partition}).index();
}

std::optional<Balance> even_cuts(std::size_t layers, int partitions) {
    const auto blocks = static_cast<std::int64_t>(layers) - 2;
    if (blocks % partitions != 0) {
        return std::nullopt;
    }
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(partitions), blocks / partitions);
    ++sizes.front();
    ++sizes.back();
    return Balance(sizes);
}

namespace {
/// Work of the busiest lane.
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

/// Deals layers out one by one, each to the lane that has the least to do, as if those between the ends were equally
/// long. A lane gives it to its smallest partition.
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

Balance quickest_cuts(const PartProfiles& profiles, const PipelineOptions& options, std::size_t partitions,
                      std::int64_t samples) {
    if (profiles.profiles.size() == 1) {
        const std::vector<double> times =
            layer_times(at_size(profiles.profiles.front(), samples), Checkpoint::never, 1);
        Balance cuts = minmax_partition(times, static_cast<int>(partitions));
        if (!options.placement.empty()) {  // a lane works as long as all its partitions
            Balance dealt = dealt_out(times, options, partitions);
            if (busiest_lane(dealt, times, options) < busiest_lane(cuts, times, options)) {
                cuts = std::move(dealt);
            }
        }
        return cuts;
    }
    return *quickest_of(times_by_part(profiles, options, samples), profiles, options, partitions, {});
}

Profile joined(const PartProfiles& profiles, const PipelineOptions& options, const std::string& device) {
    Profile whole = profiles.profiles.back();  // of the last lane, which computes the loss
    whole.device = device;
    for (std::size_t j = 0; profiles.profiles.size() > 1 && j < options.balance.num_partitions(); ++j) {
        const LayerRange layers = options.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            whole.layers[l] = profiles.at(lane_of(options, j)).layers[l];
        }
    }
    return whole;
}

PartSums::PartSums(const Profile& profile, const PipelineOptions& options, std::int64_t samples)
    : constants{0}, kept{0} {
    const SizedProfile sized = at_size(profile, samples);
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

CutPeaks peaks_of(const Simulation& simulation) {
    CutPeaks cuts{simulation.options.balance, {}};
    for (const SimulatedLane& lane : simulation.lanes) {
        cuts.peaks.push_back(lane.peak_bytes);
    }
    return cuts;
}

FittingCuts::FittingCuts(const PartProfiles& profiles, const PipelineOptions& options, std::int64_t samples)
    : profiles_(profiles),
      options_(options),
      times_(times_by_part(profiles, options, samples)),
      limits_(memory_limits_of(options.hardware, static_cast<int>(profiles.of_lane.size()))) {
    for (const Profile& each : profiles.profiles) {
        sums_.emplace_back(each, options, samples);
    }
}

namespace {
constexpr double kEstimate = 1.02;  // estimates of what other cuts hold may be wrong by so much
}  // namespace

/// Estimated bytes of a partition at its lane's peak.
double FittingCuts::held(std::size_t partition, std::size_t first, std::size_t end) const {
    const std::size_t lane = lane_of(options_, partition);
    const PartSums& sums = sums_[profiles_.of_lane[lane]];
    return sums.constants[end] - sums.constants[first] + micro_batches_[lane] * (sums.kept[end] - sums.kept[first]) +
           static_cast<double>(sums.work.largest(first, end));
}

bool FittingCuts::keeps(const CutPeaks& cuts) const {
    for (std::size_t lane = 0; lane < limits_.size(); ++lane) {
        if (cuts.peaks[lane] > limits_[lane]) {
            return false;
        }
    }
    return true;
}

void FittingCuts::lower(std::size_t part, const CutPeaks& cuts) {
    Bytes most = 0;
    for (std::size_t lane = 0; lane < limits_.size(); ++lane) {
        most = profiles_.of_lane[lane] == part ? std::max(most, cuts.peaks[lane]) : most;
    }
    for (std::size_t lane = 0; lane < limits_.size(); ++lane) {
        if (profiles_.of_lane[lane] == part) {
            limits_[lane] = std::min(limits_[lane], most - 1);
            if (!most_.empty()) {
                most_[lane] = std::min(most_[lane], static_cast<double>(limits_[lane]) * kEstimate);
            }
        }
    }
}

CutPeaks FittingCuts::estimate(const Balance& balance) const {
    CutPeaks cuts{balance, std::vector<Bytes>(profiles_.of_lane.size())};
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        cuts.peaks[lane_of(options_, j)] += std::llround(held(j, layers.first.index(), layers.end.index()));
    }
    return cuts;
}

FittingCuts::LeastTimes FittingCuts::least_times(const Balance& balance) const {
    const auto m = static_cast<double>(micro_batch_sizes(options_).size());
    const auto over = [&](const std::vector<double>& sums, std::size_t j) {
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        return sums[layers.end.index()] - sums[layers.first.index()];
    };
    const std::size_t lanes = balance.num_partitions();
    double all = 0;
    for (std::size_t j = 0; j < lanes; ++j) {
        all += over(times_[profiles_.of_lane[j]].work, j);
    }
    LeastTimes least;
    double ways = 0;
    for (std::size_t j = 0; j < lanes; ++j) {
        const PartTimes& times = times_[profiles_.of_lane[j]];
        const double work = over(times.work, j);
        least.later = std::max(least.later, m * work + ways);
        ways += over(times.way, j);
        if (options_.schedule == Schedule::one_f_one_b) {
            // A lane begins with as many forwards as lanes follow, itself included. Then it waits until the first
            // micro-batch is back from these.
            const double forwards = std::min(m, static_cast<double>(lanes - j));
            least.here = std::max(least.here, all + (m - 1) * work - (forwards - 1) * over(times.forward, j));
        }
    }
    least.here = std::max(least.here, least.later);
    return least;
}

std::optional<Balance> FittingCuts::after(const CutPeaks& refused) {
    const Balance& balance = refused.balance;
    const std::size_t partitions = balance.num_partitions();
    const std::size_t lanes = refused.peaks.size();
    const auto layers_of = [&](std::size_t j) { return balance.layers_of(PartitionId{static_cast<std::int64_t>(j)}); };
    const bool is_first = micro_batches_.empty();
    if (is_first) {
        std::vector<double> rest(lanes);  // what the peak holds besides constants and work
        std::vector<double> kept(lanes);
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            rest[lane] = static_cast<double>(refused.peaks[lane]);
        }
        for (std::size_t j = 0; j < partitions; ++j) {
            const std::size_t lane = lane_of(options_, j);
            const PartSums& sums = sums_[profiles_.of_lane[lane]];
            const std::size_t first = layers_of(j).first.index();
            const std::size_t end = layers_of(j).end.index();
            rest[lane] -= sums.constants[end] - sums.constants[first];
            rest[lane] -= static_cast<double>(sums.work.largest(first, end));
            kept[lane] += sums.kept[end] - sums.kept[first];
        }
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            micro_batches_.push_back(kept[lane] > 0 ? std::max(0.0, rest[lane] / kept[lane]) : 0);
        }
        most_.assign(partitions, std::numeric_limits<double>::infinity());
    }
    constexpr double kLess = 1 - 1e-9;
    std::vector<double> of_lane(lanes);
    for (std::size_t j = 0; j < partitions; ++j) {
        of_lane[lane_of(options_, j)] += held(j, layers_of(j).first.index(), layers_of(j).end.index());
    }
    for (std::size_t j = 0; j < partitions; ++j) {
        const std::size_t lane = lane_of(options_, j);
        const double here = held(j, layers_of(j).first.index(), layers_of(j).end.index());
        const auto limit = static_cast<double>(limits_[lane]);
        if (is_first) {
            most_[j] = here * limit / of_lane[lane] * kEstimate;
        }
        if (refused.peaks[lane] > limits_[lane]) {
            most_[j] = std::min(most_[j], here * kLess);
        }
    }
    return quickest_of(times_, profiles_, options_, partitions, [&](std::size_t j, std::size_t first, std::size_t end) {
        return held(j, first, end) <= most_[j];
    });
}

CutMemory::CutMemory(const PartProfiles& profiles, const PipelineOptions& options, std::int64_t samples,
                     double boundary)
    : profiles_(profiles),
      options_(options),
      samples_(samples),
      micro_batches_(static_cast<double>(micro_batch_sizes(options).size())),
      boundary_(boundary),
      limits_(memory_limits_of(options.hardware, static_cast<int>(profiles.of_lane.size()))) {
    for (const Profile& each : profiles.profiles) {
        sums_.emplace_back(each, options, samples);
    }
    const auto lanes = static_cast<double>(profiles.of_lane.size());
    const auto partitions = static_cast<double>(options.balance.num_partitions());
    const double all = micro_batches_ * partitions / lanes;
    for (std::size_t lane = 0; lane < profiles.of_lane.size(); ++lane) {
        const double behind = lanes - static_cast<double>(lane);
        const bool is_plain = options.schedule == Schedule::one_f_one_b;
        most_held_.push_back(is_plain ? std::min(all, behind)
                             : options.schedule == Schedule::interleaved_1f1b  // arXiv 2104.04473, section 2.2
                                 ? std::min(all, 2 * (behind - 1) + partitions - lanes + 1)
                                 : all);
        least_held_.push_back(is_plain ? most_held_.back() : 1);
    }
}

/// The least that a lane must hold at some time. If it has several partitions, that of one of them.
double CutMemory::least_bytes(std::size_t lane, std::size_t first, std::size_t end) const {
    const PartSums& sums = sums_[profiles_.of_lane[lane]];
    return sums.constants[end] - sums.constants[first] + least_held_[lane] * (sums.kept[end] - sums.kept[first]);
}

bool CutMemory::surely_exceeds() const {
    for (std::size_t j = 0; j < options_.balance.num_partitions() && !limits_.empty(); ++j) {
        const std::size_t lane = lane_of(options_, j);
        const LayerRange layers = options_.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        if (least_bytes(lane, layers.first.index(), layers.end.index()) > static_cast<double>(limits_[lane])) {
            return true;
        }
    }
    return false;
}

bool CutMemory::surely_fits() const {
    const std::size_t lanes = profiles_.of_lane.size();
    if (limits_.empty()) {
        return true;
    }
    if (splits_backward(options_.schedule) || options_.schedule == Schedule::automatic) {
        return false;  // graphs stay for the second half
    }
    std::vector<double> constants(lanes);
    std::vector<double> kept(lanes);  // of the largest partition
    std::vector<double> work(lanes);
    for (std::size_t j = 0; j < options_.balance.num_partitions(); ++j) {
        const std::size_t lane = lane_of(options_, j);
        const PartSums& here = sums_[profiles_.of_lane[lane]];
        const LayerRange layers = options_.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        const std::size_t first = layers.first.index();
        const std::size_t end = layers.end.index();
        constants[lane] += here.constants[end] - here.constants[first];
        kept[lane] = std::max(kept[lane], here.kept[end] - here.kept[first]);
        work[lane] = std::max(work[lane], static_cast<double>(here.work.largest(first, end)));
    }
    const SizedProfile last = at_size(profiles_.profiles.back(), samples_);
    const bool is_plain = options_.schedule == Schedule::one_f_one_b;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        const double held = most_held_[lane];
        const double before = most_held_[lane > 0 ? lane - 1 : lanes - 1];
        // Tensors wait here only for micro-batches that this lane or the one before holds. These are inputs (with 1f1b,
        // of micro-batches that this lane does not hold yet), gradients of outputs, and what is sent, one at a time if
        // the lane waits.
        const double inputs = is_plain ? std::max(0.0, before - held) : before;
        const double sent = options_.hardware.link.sends == Sends::overlapped ? held + before : 2;
        double bytes = constants[lane] + held * kept[lane] + work[lane] + (inputs + held + sent + 2) * boundary_;
        bytes += lane == 0 ? micro_batches_ * static_cast<double>(last.input) : 0;
        if (lane_of(options_, options_.balance.num_partitions() - 1) == lane) {
            bytes += (is_plain ? 2 : 3) * held * static_cast<double>(last.output.back());
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
    const std::vector<PartTimes> times = times_by_part(profiles_, options_, samples_);
    const auto may_hold = [&](std::size_t lane, std::size_t first, std::size_t end) {
        return limits_.empty() || least_bytes(lane, first, end) <= static_cast<double>(limits_[lane]);
    };
    if (has_unlike_lanes(profiles_, options_)) {
        std::vector<const PartTimes*> lanes;
        for (const std::size_t part : profiles_.of_lane) {
            lanes.push_back(&times[part]);
        }
        const std::optional<PassedCuts> cuts = passed_cuts(lanes, micro_batches_, may_hold);
        return cuts ? std::optional(cuts->ns) : std::nullopt;
    }
    std::vector<double> ways{0};  // what the first micro-batch takes before at least, and the last one after
    const bool has_ways = partitions == profiles_.of_lane.size();
    for (std::size_t l = 0; l < layers; ++l) {
        double least = kNever;
        for (const PartTimes& part : times) {
            least = std::min(least, part.way[l + 1] - part.way[l]);
        }
        ways.push_back(ways.back() + (has_ways ? least : 0));
    }
    // A lane works on all micro-batches, after the way of the first one to it and before that of the last one back.
    // Each partition takes as many layers as it may, which leaves the fewest: what a range may hold and take, a part of
    // it may too. A partition may have none, which only lowers the bound.
    const auto can_end_by = [&](double ns) {
        std::size_t first = 0;
        for (std::size_t j = 0; j < partitions; ++j) {
            const std::size_t lane = lane_of(options_, j);
            const std::vector<double>& work = times[profiles_.of_lane[lane]].work;
            const auto may_have = [&](std::size_t end) {
                return micro_batches_ * (work[end] - work[first]) + ways[first] <= ns && may_hold(lane, first, end);
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
    for (const PartTimes& part : times) {
        most = std::max(most, (micro_batches_ + 1) * part.work.back());
    }
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
