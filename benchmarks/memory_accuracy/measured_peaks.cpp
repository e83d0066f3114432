#include "benchmarks/memory_accuracy/measured_peaks.h"

#include "analysis/replay.h"
#include "cli/torch/gpipe_options.h"
#include "engine/engine_error.h"
#include "engine/gpipe.h"
#include "profiler/memory/lane_memory.h"
#include "schedule/micro_batches.h"
#include "schedule/schedules.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/memory/memory_model.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <set>

namespace pipescope {
namespace {
constexpr int kWarmUp = 1;  // creates the parameters' gradients
constexpr int kSteps = 2;

/// Collects the lanes' memory and the tasks' times of a run.
class RunLog final : public TaskObserver {
public:
    void placed(const at::Tensor& tensor, LaneId lane) override { memory_.placed(tensor, lane); }
    void moved(const at::Tensor& tensor, LaneId to) override { memory_.moved(tensor, to); }
    void kept(const at::Tensor& gradient, LaneId lane) override { memory_.kept(gradient, lane); }
    void task_started(const TaskKey& key, LaneId lane) override {
        {
            const std::lock_guard lock(mutex_);
            starts_[key] = now();
        }
        memory_.task_started(key, lane);
    }
    void task_ended(const TaskKey& key, LaneId lane) override {
        memory_.task_ended(key, lane);
        const std::lock_guard lock(mutex_);
        timeline_.slices.push_back({key, lane, starts_.at(key), now()});
    }

    /// Starts recording the peaks.
    void end_warm_up(int lanes) { peaks_.assign(static_cast<std::size_t>(lanes), {}); }
    std::vector<MemorySample> take_samples() { return std::move(samples_); }
    const std::vector<LanePeak>& peaks() const { return peaks_; }
    const Timeline& timeline() const { return timeline_; }

private:
    static Nanoseconds now() {
        return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch());
    }
    void record(const MemorySample& sample) {
        const std::lock_guard lock(mutex_);
        if (sample.lane.index() >= peaks_.size()) {
            return;
        }
        samples_.push_back(sample);
        if (sample.peak > peaks_[sample.lane.index()].counted) {
            LanePeak& peak = peaks_[sample.lane.index()];
            peak.counted = sample.peak;
            peak.counted_parts = sample.composition;
        }
    }

    std::mutex mutex_;
    std::map<TaskKey, Nanoseconds> starts_;
    Timeline timeline_;
    std::vector<LanePeak> peaks_;
    std::vector<MemorySample> samples_;
    LaneMemory memory_{[] { return now(); }, [this](const MemorySample& sample) { record(sample); }};
};

GPipeOptions engine_options(const PipelineOptions& options, TaskObserver& observer) {
    GPipeOptions engine = gpipe_options(options);
    engine.host_cores = 1;  // one task at a time: overlap within a task depends on microseconds
    engine.observer = &observer;
    return engine;
}

void append(std::vector<MemorySample> samples, std::int32_t step, std::vector<MemorySample>& to) {
    for (MemorySample& sample : samples) {
        if (auto key = unpack(static_cast<std::uint64_t>(sample.task)); sample.task >= 0 && key) {
            key->step = step;
            sample.task = static_cast<std::int64_t>(pack(*key));
            to.push_back(sample);
        }
    }
}

void add_modelled(const RunLog& log, std::span<const std::int32_t> steps, const Profile& profile,
                  const PipelineOptions& options, std::vector<LanePeak>& peaks, PeakTrace* trace) {
    const TaskCosts costs(profile, options);
    const TaskGraph graph = pipeline_graph(options, costs);
    Timeline timeline = log.timeline();
    sort_slices(timeline);
    const auto measured = measured_tasks(timeline, steps, graph);
    if (!measured) {
        throw Error("a task of the run was not recorded; the graph simulated is not the one that ran");
    }
    for (std::size_t s = 0; s < measured->size(); ++s) {
        const MeasuredTasks& step = (*measured)[s];
        const MemoryUse use = memory_use(profile, options, costs, graph, step.starts, step.ends);
        if (trace != nullptr) {
            append(use.samples, steps[s], trace->modelled);
        }
        for (std::size_t lane = 0; lane < peaks.size(); ++lane) {
            if (use.lanes[lane].peak_bytes > peaks[lane].modelled) {
                peaks[lane].modelled = use.lanes[lane].peak_bytes;
                peaks[lane].modelled_parts = use.lanes[lane].peak;
            }
        }
    }
}
}  // namespace

std::optional<std::vector<LanePeak>> lane_peaks(const ModelSpec& model, const Profile& profile,
                                                const PipelineOptions& options, PeakTrace* trace) {
    RunLog log;
    std::vector<std::int32_t> steps;
    torch::manual_seed(1);
    GPipe pipeline(model, engine_options(options, log));
    try {
        for (int step = 0; step < kWarmUp + kSteps; ++step) {
            if (step == kWarmUp) {
                log.end_warm_up(num_lanes(options));
            }
            if (step >= kWarmUp) {
                steps.push_back(pipeline.next_step());
            }
            const Batch batch = model.make_batch(options.batch, static_cast<std::uint64_t>(step));
            pipeline.step(batch.input, batch.target, model.loss);
        }
    } catch (const LayerError&) {
        return std::nullopt;
    }
    std::vector<LanePeak> peaks = log.peaks();
    add_modelled(log, steps, profile, options, peaks, trace);
    if (trace != nullptr) {
        trace->counted = log.take_samples();
    }
    return peaks;
}

namespace {
template <class Between>
Balance random_balance(std::int64_t layers, std::int64_t partitions, const Between& between) {
    std::set<std::int64_t> cuts;
    while (static_cast<std::int64_t>(cuts.size()) < partitions - 1) {
        cuts.insert(between(1, layers - 1));
    }
    std::vector<std::int64_t> counts;
    std::int64_t last = 0;
    for (const std::int64_t cut : cuts) {
        counts.push_back(cut - last);
        last = cut;
    }
    counts.push_back(layers - last);
    return Balance(counts);
}
}  // namespace

std::vector<PipelineOptions> random_pipelines(const RandomModel& model, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto between = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    const auto layers = static_cast<std::int64_t>(model.spec.layers.size());
    const bool needs_two = std::any_of(model.spec.layers.begin(), model.spec.layers.end(), [](const LayerSpec& layer) {
        return layer.name == "batch_norm" || layer.name == "residual";
    });
    const std::int64_t samples = needs_two ? 3 : between(1, 4);
    std::vector<PipelineOptions> pipelines;
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b,
                                    Schedule::zero_bubble_h1, Schedule::zero_bubble_v}) {
        const bool any_number = schedule == Schedule::gpipe || schedule == Schedule::one_f_one_b;
        for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
            const std::int64_t lanes = schedule == Schedule::interleaved_1f1b ? 2 : between(2, 3);
            const auto partitions =
                static_cast<std::int64_t>(usual_partitions(schedule, static_cast<std::size_t>(lanes)));
            if (partitions > layers) {
                continue;
            }
            PipelineOptions options;
            options.balance = random_balance(layers, partitions, between);
            options.schedule = schedule;
            options.checkpoint = mode;
            options.hardware.devices.assign(static_cast<std::size_t>(lanes), "cpu");
            options.chunks = any_number ? between(1, 6) : 2 * between(1, 3);
            const bool uneven = samples > 1 && options.chunks > 1 && between(0, 3) == 0;
            options.batch = options.chunks * samples - (uneven ? 1 : 0);
            options.placement =
                placement_of(schedule, static_cast<std::size_t>(partitions), static_cast<std::size_t>(lanes));
            pipelines.push_back(std::move(options));
        }
    }
    return pipelines;
}

std::vector<std::int64_t> micro_batches_of(const std::vector<PipelineOptions>& pipelines) {
    std::set<std::int64_t> sizes;
    for (const PipelineOptions& options : pipelines) {
        for (const std::int64_t size : micro_batch_sizes(options.batch, options.chunks)) {
            sizes.insert(size);
        }
    }
    return {sizes.begin(), sizes.end()};
}

std::string describe(const PipelineOptions& options) {
    return to_string(options.schedule) + " " + std::string(to_string(options.checkpoint)) + " " +
           to_string(options.balance) + " m " + std::to_string(options.chunks) + " batch " +
           std::to_string(options.batch);
}
}  // namespace pipescope
