#include "analysis/calibration.h"

#include "analysis/measured_steps.h"
#include "analysis/replay.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "schedule/checkpoint.h"
#include "schedule/schedules.h"
#include "simulator/clock/contention.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
constexpr int kMostRounds = 200;
constexpr double kSettled = 1e-9;

/// Work done by one lane of a device while it is busy: the integral of its speed. The speed depends on how many lanes
/// are busy at once.
class DeviceWorkClock {
public:
    /// `slices`: all lanes of the device. `speeds`: with one lane busy, two, ...
    DeviceWorkClock(const std::vector<Slice>& slices, const std::vector<double>& speeds) {
        std::vector<std::pair<std::int64_t, int>> changes;
        for (const Slice& slice : slices) {
            changes.emplace_back(slice.start.count(), 1);
            changes.emplace_back(slice.end.count(), -1);
        }
        std::ranges::sort(changes);
        std::size_t busy = 0;
        double work = 0;
        for (const auto& [time, change] : changes) {
            if (!times_.empty() && busy > 0) {
                work += static_cast<double>(time - times_.back()) * speeds[std::min(busy, speeds.size()) - 1];
            }
            busy += static_cast<std::size_t>(change);
            times_.push_back(time);
            works_.push_back(work);
        }
    }

    double work(const Slice& slice) const { return at(slice.end.count()) - at(slice.start.count()); }

private:
    /// Precondition: some slice starts or ends at `time`.
    double at(std::int64_t time) const {
        return works_[static_cast<std::size_t>(std::ranges::lower_bound(times_, time) - times_.begin())];
    }

    std::vector<std::int64_t> times_;
    std::vector<double> works_;
};

bool occupies_lane(TaskKind kind) {
    return is_compute(kind) || kind == TaskKind::loss || kind == TaskKind::optimizer;
}

/// Measured tasks that cost the same: equal kind, partition and micro-batch; -1 if the kind has none.
struct MeasuredTask {
    double work = 0;  ///< sum over these tasks, in ns
    double count = 0;
};
using TaskName = std::tuple<TaskKind, std::int32_t, std::int32_t>;  // kind, partition, micro-batch

/// The measured work of one run. It does not depend on the times of a profile.
struct RunWork {
    const PipelineOptions* options = nullptr;
    std::map<TaskName, MeasuredTask> tasks;  ///< without optimizer
    std::map<TaskName, LaneId> lanes;
    double optimizer_ns = 0;  ///< sum over the lanes, mean over the steps
    double steps = 0;
    std::size_t size = 0;  ///< index of the profile's size nearest to the run's micro-batches
};

/// The index of the profile's size nearest to the run's mean micro-batch, by their ratio.
std::size_t nearest_size(const Profile& profile, const PipelineOptions& options) {
    const double mean = static_cast<double>(options.batch) / static_cast<double>(micro_batch_sizes(options).size());
    const auto distance = [mean](std::int64_t size) { return std::abs(std::log(static_cast<double>(size) / mean)); };
    return static_cast<std::size_t>(std::ranges::min_element(profile.samples, {}, distance) - profile.samples.begin());
}

/// Adds the hand-off before each task to the task, since it delays everything that follows just as the task does. An
/// approximation: a hand-off counts as work that keeps the core. Skips steps in which a task was not recorded, and
/// schedules that never drain.
void add_hand_offs(RunWork& work, const Profile& earlier, const CalibrationRun& run) {
    const PipelineOptions& options = run.options;
    if (!is_synchronous(options.schedule) || options.update == Update::staggered) {
        return;
    }
    const TaskCosts costs(earlier, options);
    const TaskGraph graph = pipeline_graph(options, costs);
    std::vector<bool> is_instant;
    for (const Task& task : graph.tasks()) {
        is_instant.push_back(is_copy(task.key.kind) && costs.duration(task) == 0);
    }
    const std::vector<MeasuredTasks> steps = complete_steps(run.measured, run.steps, graph);
    const double share =
        static_cast<double>(run.steps.size()) / static_cast<double>(std::max<std::size_t>(1, steps.size()));
    for (const MeasuredTasks& each : steps) {
        const std::vector<std::int64_t> delays = start_delays(graph, each, is_instant, cores_in_turn(options));
        for (TaskIndex task = 0; task < delays.size(); ++task) {
            const TaskKey& key = graph.tasks()[task].key;
            if (const auto found = work.tasks.find({key.kind, key.partition, key.micro_batch});
                found != work.tasks.end()) {
                found->second.work += share * static_cast<double>(delays[task]);
            }
        }
    }
}

RunWork work_of(const Profile& earlier, const CalibrationRun& run) {
    for (const LaneInfo& lane : run.measured.lanes) {
        if (!lane.device.empty() && lane.device != kHost) {
            throw Error(fmt::format(
                "has a lane on {}, where a task's range is its launching and not its work; a profile is measured of "
                "lanes on the CPU; use the profile in the trace, or profile the model",
                lane.device));
        }
    }
    const int lanes = num_lanes(run.options);
    // By lane: the first lane on the same device.
    std::vector<int> device_of_lane;
    for (int lane = 0; lane < lanes; ++lane) {
        int first = 0;
        while (first < lane && !share_device(run.options.hardware, LaneId{first}, LaneId{lane}, lanes)) {
            ++first;
        }
        device_of_lane.push_back(first);
    }
    std::map<int, std::vector<Slice>> slices;
    for (const Slice& slice : run.measured.slices) {
        if (occupies_lane(slice.key.kind) && slice.lane.value() >= 0 && slice.lane.value() < lanes) {
            slices[device_of_lane[slice.lane.index()]].push_back(slice);
        }
    }
    const auto partitions = static_cast<std::int32_t>(run.options.balance.num_partitions());
    const auto micro_batches = static_cast<std::int32_t>(micro_batch_sizes(run.options).size());
    const std::set<std::int32_t> steps(run.steps.begin(), run.steps.end());
    RunWork found;
    found.options = &run.options;
    found.size = nearest_size(earlier, run.options);
    for (const auto& [first, own] : slices) {
        std::vector<double> speeds = speeds_when_busy(earlier, run.options, LaneId{first});
        std::ranges::for_each(speeds, [&](double& speed) { speed *= speed_alone(earlier); });  // of the profile's times
        const DeviceWorkClock clock(own, speeds);
        for (const Slice& slice : own) {
            if (!steps.contains(slice.key.step)) {
                continue;
            }
            if (slice.key.partition >= partitions || slice.key.micro_batch >= micro_batches) {
                throw Error(
                    fmt::format("holds {}, but its configuration has {} and {}; the file is damaged; record it again",
                                to_string(slice.key), counted(partitions, "partition", "partitions"),
                                counted(micro_batches, "micro-batch", "micro-batches")));
            }
            const double work = clock.work(slice);
            if (slice.key.kind == TaskKind::optimizer) {
                found.optimizer_ns += work;
                continue;
            }
            const TaskName name{slice.key.kind, slice.key.partition, slice.key.micro_batch};
            MeasuredTask& task = found.tasks[name];
            task.work += work;
            ++task.count;
            found.lanes.emplace(name, slice.lane);
        }
    }
    found.steps = static_cast<double>(steps.size());
    found.optimizer_ns /= std::max(1.0, found.steps);
    add_hand_offs(found, earlier, run);
    return found;
}

/// Measured work divided by predicted work. Empty if no such task was measured or predicted.
using Factor = std::optional<double>;
/// `graph`: recomputes, and forwards that keep a graph. A profile has separate times for these.
struct PartitionFactors {
    Factor forward, graph, backward, weight;
};

/// How much longer the tasks of a run take than a profile says.
class RunFactors {
public:
    RunFactors(const Profile& profile, const RunWork& run)
        : run_(run),
          costs_(profile, *run.options),
          alone_(speed_alone(profile)),
          kept_forwards_differ_(std::ranges::any_of(
              profile.layers, [](const LayerProfile& layer) { return !layer.graph_forward_ns.empty(); })) {}

    Factor of_loss() const {
        Work work;
        add(work, TaskKind::loss, static_cast<std::int32_t>(run_.options->balance.num_partitions()) - 1);
        return work.factor();
    }

    PartitionFactors of_partition(std::int32_t partition) const {
        const auto micro_batches = static_cast<int>(micro_batch_sizes(*run_.options).size());
        const auto keeps_graph = [&](std::int32_t micro_batch) {
            return kept_forwards_differ_ &&
                   !is_checkpointed(run_.options->checkpoint, MicroBatchId{micro_batch}, micro_batches);
        };
        Work forward, graph, backward, weight;
        add(forward, TaskKind::forward, partition, [&](std::int32_t i) { return !keeps_graph(i); });
        add(graph, TaskKind::forward, partition, keeps_graph);
        add(graph, TaskKind::recompute, partition);
        add(backward, TaskKind::backward, partition);
        add(weight, TaskKind::backward_weight, partition);
        PartitionFactors factors{forward.factor(), graph.factor(), backward.factor(), weight.factor()};
        if (!splits_backward(run_.options->schedule)) {
            factors.weight = factors.backward;
        }
        return factors;
    }

private:
    struct Work {
        double measured = 0;
        double predicted = 0;
        Factor factor() const { return measured > 0 && predicted > 0 ? Factor(measured / predicted) : std::nullopt; }
    };

    /// Adds the tasks whose micro-batch passes the test.
    template <typename Test>
    void add(Work& work, TaskKind kind, std::int32_t partition, const Test& is_meant) const {
        for (auto at = run_.tasks.lower_bound({kind, partition, -1}); at != run_.tasks.end(); ++at) {
            const auto& [of_kind, of_partition, micro_batch] = at->first;
            if (of_kind != kind || of_partition != partition) {
                break;
            }
            if (is_meant(micro_batch)) {
                const LaneId lane = run_.lanes.at(at->first);
                work.measured += at->second.work;
                work.predicted +=
                    at->second.count * alone_ *
                    static_cast<double>(costs_.duration({TaskKey{0, kind, partition, micro_batch, -1}, lane, lane}));
            }
        }
    }
    void add(Work& work, TaskKind kind, std::int32_t partition) const {
        add(work, kind, partition, [](std::int32_t) { return true; });
    }

    const RunWork& run_;
    TaskCosts costs_;
    double alone_;
    bool kept_forwards_differ_;
};

/// Geometric mean with weights.
class MeanFactor {
public:
    void add(const Factor& factor, double weight) {
        if (factor) {
            sum_ += weight * std::log(*factor);
            weights_ += weight;
        }
    }
    Factor value() const { return weights_ > 0 ? Factor(std::exp(sum_ / weights_)) : std::nullopt; }

private:
    double sum_ = 0;
    double weights_ = 0;
};

/// The factors of one task kind of a layer, by the profile's sizes.
class FactorsBySize {
public:
    explicit FactorsBySize(std::size_t sizes) : means_(sizes) {}

    void add(const Factor& factor, const RunWork& run) { means_[run.size].add(factor, run.steps); }

    /// A factor for each size. Between two sizes that ran, interpolated over the logarithm of the size; outside them,
    /// the nearest factor. Empty if none ran.
    std::vector<double> values(const std::vector<std::int64_t>& sizes) const {
        std::vector<std::pair<double, double>> known;  // logarithms of size and factor
        for (std::size_t k = 0; k < means_.size(); ++k) {
            if (const Factor mean = means_[k].value()) {
                known.emplace_back(std::log(static_cast<double>(sizes[k])), std::log(*mean));
            }
        }
        std::vector<double> factors;
        for (std::size_t k = 0; k < sizes.size() && !known.empty(); ++k) {
            const double at = std::log(static_cast<double>(sizes[k]));
            const auto above = std::ranges::lower_bound(known, at, {}, &std::pair<double, double>::first);
            if (above == known.begin() || above == known.end()) {
                factors.push_back(std::exp(above == known.end() ? known.back().second : above->second));
                continue;
            }
            const auto below = above - 1;
            factors.push_back(
                std::exp(std::lerp(below->second, above->second, (at - below->first) / (above->first - below->first))));
        }
        return factors;
    }

private:
    std::vector<MeanFactor> means_;
};

void scale(PerSize& values, double factor) {
    std::ranges::for_each(values, [factor](double& value) { value *= factor; });
}

/// `factors` has one element for each size. `values` may be empty.
void scale(PerSize& values, const std::vector<double>& factors) {
    for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] *= factors[k];
    }
}

/// Writes out the times that have defaults and may get separate factors.
void make_explicit(Profile& profile, bool recomputes, bool splits) {
    for (LayerProfile& layer : profile.layers) {
        if (recomputes && layer.recompute_ns.empty()) {
            layer.recompute_ns = layer.forward_ns;
        }
        if (splits && layer.backward_weight_ns.empty() && has_weight_half(layer)) {
            layer.backward_weight_ns = layer.backward_ns;
            scale(layer.backward_weight_ns, 0.5);
        }
    }
}

/// A factor for each size.
struct LayerFactors {
    std::vector<double> forward, graph, backward, weight;
};

void scale_layer(LayerProfile& layer, const LayerFactors& factors) {
    scale(layer.forward_ns, factors.forward);
    scale(layer.recompute_ns, factors.graph);
    scale(layer.graph_forward_ns, factors.graph);
    for (std::size_t k = 0; k < layer.backward_ns.size(); ++k) {
        const double weight = layer.backward_weight_ns.empty() ? 0 : layer.backward_weight_ns[k];
        layer.backward_ns[k] = (layer.backward_ns[k] - weight) * factors.backward[k] + weight * factors.weight[k];
    }
    scale(layer.backward_weight_ns, factors.weight);
}

bool has_any(const std::vector<RunWork>& runs, TaskKind kind) {
    return std::ranges::any_of(runs, [kind](const RunWork& run) {
        return std::ranges::any_of(run.tasks, [kind](const auto& task) { return std::get<0>(task.first) == kind; });
    });
}

/// Scales every layer by the mean of its partitions' factors. Returns the largest change, as a logarithm.
double scale_layers(Profile& profile, const std::vector<RunWork>& runs) {
    const std::size_t sizes = profile.samples.size();
    struct BySize {
        FactorsBySize forward, graph, backward, weight;
    };
    std::vector<BySize> layers(profile.layers.size(), {FactorsBySize(sizes), FactorsBySize(sizes), FactorsBySize(sizes),
                                                       FactorsBySize(sizes)});
    for (const RunWork& run : runs) {
        const RunFactors factors(profile, run);
        const Balance& balance = run.options->balance;
        for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
            const PartitionFactors of = factors.of_partition(static_cast<std::int32_t>(j));
            const LayerRange range = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
            for (std::size_t l = range.first.index(); l < range.end.index(); ++l) {
                layers[l].forward.add(of.forward, run);
                layers[l].graph.add(of.graph, run);
                layers[l].backward.add(of.backward, run);
                layers[l].weight.add(of.weight, run);
            }
        }
    }
    const auto first_that_ran = [&profile, sizes](std::initializer_list<const FactorsBySize*> kinds) {
        for (const FactorsBySize* kind : kinds) {
            if (std::vector<double> values = kind->values(profile.samples); !values.empty()) {
                return values;
            }
        }
        return std::vector<double>(sizes, 1);
    };
    double change = 0;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const BySize& by = layers[l];
        const LayerFactors factors{first_that_ran({&by.forward, &by.graph}), first_that_ran({&by.graph, &by.forward}),
                                   first_that_ran({&by.backward}), first_that_ran({&by.weight, &by.backward})};
        scale_layer(profile.layers[l], factors);
        for (const auto* each : {&factors.forward, &factors.graph, &factors.backward, &factors.weight}) {
            for (const double factor : *each) {
                change = std::max(change, std::abs(std::log(factor)));
            }
        }
    }
    return change;
}

/// Scales the loss by size. The loss of a whole mini-batch gets the mean factor of all runs.
void scale_loss(Profile& profile, const std::vector<RunWork>& runs) {
    FactorsBySize by_size(profile.samples.size());
    MeanFactor mean;
    for (const RunWork& run : runs) {
        const Factor factor = RunFactors(profile, run).of_loss();
        by_size.add(factor, run);
        mean.add(factor, run.steps);
    }
    if (!mean.value()) {
        return;
    }
    scale(profile.loss_ns, by_size.values(profile.samples));
    scale(profile.loss_batch.ns, *mean.value());
}

void check_partitions(const RunWork& run) {
    for (std::size_t j = 0; j < run.options->balance.num_partitions(); ++j) {
        for (const TaskKind kind : {TaskKind::forward, TaskKind::backward}) {
            const auto partition = static_cast<std::int32_t>(j);
            const auto found = run.tasks.lower_bound({kind, partition, -1});
            if (found == run.tasks.end() || std::get<0>(found->first) != kind ||
                std::get<1>(found->first) != partition) {
                throw Error(fmt::format("holds no {} of partition {}; each partition needs one; record whole steps",
                                        to_string(kind), j));
            }
        }
    }
}

/// The number of lanes that were busy at once when the tasks were measured.
int busy_lanes(const PipelineOptions& options) {
    const int lanes = num_lanes(options);
    int beside = 1;
    for (int one = 0; one < lanes; ++one) {
        int sharing = 0;
        for (int other = 0; other < lanes; ++other) {
            sharing += share_device(options.hardware, LaneId{one}, LaneId{other}, lanes) ? 1 : 0;
        }
        beside = std::max(beside, sharing);
    }
    const int cores = options.hardware.host_cores;
    return cores > 0 && runs_on_host(options.hardware, LaneId{0}) ? std::min(beside, cores) : beside;
}
}  // namespace

CalibrationRun calibration_run(const RecordedRun& run, const OpenedTrace& trace) {
    if (run.of_another_program) {
        throw Error(
            "was recorded by another program and holds no layers; a calibration needs a run of PipeScope's engine; "
            "record one with 'pipescope run --trace', or use --from-trace");
    }
    if (!run.profile || !run.options) {
        throw Error(run.why_not_simulated);
    }
    if (trace.measured.slices.empty()) {
        throw Error("holds no measured task; a calibration needs the tasks of a run; record one with 'pipescope run'");
    }
    if (const std::string why = why_no_costs(run); !why.empty()) {
        throw Error(why);
    }
    const MeasuredSteps steps = whole_steps(run, trace.measured);
    if (!steps.why_none.empty()) {
        throw Error(steps.why_none);
    }
    return {*run.options, trace.measured, steps.numbers(), run.load};
}

std::string why_not_of_one_model(const Profile& earlier, const Profile& of_run) {
    if (!earlier.model.empty() && !of_run.model.empty() && earlier.model != of_run.model) {
        return fmt::format("is of the model {}, and the earlier profile of {}", printable(of_run.model),
                           printable(earlier.model));
    }
    if (earlier.dtype != of_run.dtype) {
        return fmt::format("is of {}, and the earlier profile of {}", of_run.dtype, earlier.dtype);
    }
    if (earlier.layers.size() != of_run.layers.size()) {
        return fmt::format("has {}, and the earlier profile {}", counted(of_run.layers.size(), "layer", "layers"),
                           earlier.layers.size());
    }
    for (std::size_t l = 0; l < earlier.layers.size(); ++l) {
        if (earlier.layers[l].name != of_run.layers[l].name) {
            return fmt::format("has a layer {} named {}, and the earlier profile {}", l,
                               printable(of_run.layers[l].name), printable(earlier.layers[l].name));
        }
    }
    return {};
}

CheckedProfile calibrated_profile(const CheckedProfile& earlier, std::span<const CalibrationRun> runs) {
    std::vector<RunWork> work;
    for (const CalibrationRun& run : runs) {
        work.push_back(work_of(earlier, run));
        check_partitions(work.back());
    }
    Profile profile = earlier;
    make_explicit(profile, has_any(work, TaskKind::recompute), has_any(work, TaskKind::backward_weight));
    for (int round = 0; round < kMostRounds && scale_layers(profile, work) > kSettled; ++round) {
    }
    scale_loss(profile, work);
    double optimizer = 0;
    double steps = 0;
    for (const RunWork& run : work) {
        optimizer += run.optimizer_ns > 0 ? run.optimizer_ns * run.steps : 0;
        steps += run.optimizer_ns > 0 ? run.steps : 0;
    }
    profile.optimizer_ns = steps > 0 ? optimizer / steps : profile.optimizer_ns;
    if (profile.co_running_slowdown.empty()) {
        profile.co_running_lanes = busy_lanes(runs.front().options);
    }
    if (runs.front().options.hardware.host_cores > 0) {
        profile.host_cores = runs.front().options.hardware.host_cores;
    }
    profile.from_trace = true;
    profile.estimated = false;
    profile.load = runs.back().load;
    profile.command_options.clear();
    return profile;
}
}  // namespace pipescope
