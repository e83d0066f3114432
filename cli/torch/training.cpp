#include "cli/torch/training.h"

#include "analysis/step_peaks.h"
#include "analysis/trace_warnings.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "base/sample_statistics.h"
#include "cli/output_file.h"
#include "cli/stop_signals.h"
#include "cli/temporary_trace.h"
#include "cli/torch/environment.h"
#include "cli/torch/gpipe_options.h"
#include "cli/torch/lane_optimizers.h"
#include "cli/torch/process_results.h"
#include "cli/torch/training_saves.h"
#include "cli/torch/unsplit_layers.h"
#include "engine/cores/usable_cores.h"
#include "engine/gpipe.h"
#include "engine/processes/lane_channels.h"
#include "profiler/memory/device_listening.h"
#include "profiler/memory/lane_memory.h"
#include "profiler/memory/step_timer.h"
#include "profiler/profile/profile_file.h"
#include "profiler/recorder/load_meter.h"
#include "profiler/recorder/recorder.h"
#include "schedule/schedules.h"
#include "trace/merge/clock_alignment.h"
#include "trace/store/pipeline_json.h"
#include "trace/store/process_json.h"
#include "trace/store/trace_reader.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

GPipeOptions engine_options(const TrainingOptions& options, TaskObserver* observer) {
    GPipeOptions engine = gpipe_options(options.pipeline);
    engine.driver = options.driver;
    engine.autograd = options.autograd;
    engine.seed = options.seed;
    engine.observer = observer;
    engine.processes = options.processes;
    engine.device_messages = options.device_messages;
    engine.split = options.split;
    engine.weight = options.weight;
    engine.on_exception = options.on_exception;
    engine.shared = options.shared;
    return engine;
}

double learning_rate_of(const TrainingOptions& options) {
    return options.learning_rate.value_or(default_learning_rate(options.pipeline.optimizer));
}

void describe(Recorder& recorder, const ModelSpec& model, const TrainingOptions& options) {
    recorder.set_run("model", nlohmann::json(model.name).dump());
    recorder.set_run("configuration", to_json(options.pipeline));
    recorder.set_run("training",
                     nlohmann::json({{"seed", options.seed}, {"learning_rate", learning_rate_of(options)}}).dump());
    recorder.set_run("environment", environment_json());
    if (options.profile) {
        recorder.set_profile(to_json(*options.profile));
    }
}

/// The samples of this process's replica.
void keep_part(Tensors& tensors, const std::vector<TensorSplit>& rules, std::int64_t first, std::int64_t count) {
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        const TensorSplit rule = k < rules.size() ? rules[k] : TensorSplit{};
        if (rule.make) {
            tensors[k] = rule.make(tensors[k], first, first + count);
        } else if (rule.dimension) {
            tensors[k] = tensors[k].narrow(*rule.dimension, first, count);
        }
    }
}

/// A step's data, each part on the device that uses it. With replicas, the samples of this process's replica.
Batch batch_for(const GPipe& pipeline, const ModelSpec& model, const TrainingOptions& options, std::uint64_t seed) {
    const bool takes_input = pipeline.partitions().front().is_here;
    const bool takes_target = pipeline.partitions().back().is_here;
    Batch batch = takes_input || takes_target ? model.make_batch(options.pipeline.batch, seed) : Batch{};
    if (options.pipeline.replicas > 1) {
        const std::int64_t samples = replica_batch(options.pipeline);
        keep_part(batch.input, options.split.input, pipeline.replica() * samples, samples);
        keep_part(batch.target, options.split.target, pipeline.replica() * samples, samples);
    }
    if (!takes_input) {
        batch.input.clear();
    }
    if (!takes_target) {
        batch.target.clear();
    }
    return batch;
}

/// True if training ends after the step that has just run. All processes stop after the same step.
bool is_to_stop(const TrainingOptions& options) {
    if (!options.processes) {
        return stop_signal() != 0;
    }
    return options.processes->is_to_stop();
}

/// Describes the lanes and placement of the model as it runs, including skips.
void describe_lanes(Recorder& recorder, const GPipe& model, std::int64_t batch) {
    std::vector<LaneInfo> lanes;
    for (const std::string& device : model.devices()) {
        lanes.push_back({fmt::format("lane {}", lanes.size()), device});
    }
    const std::shared_ptr<const TaskGraph> graph = model.task_graph(batch);
    recorder.set_pipeline(lanes, graph->shape());
    recorder.set_run("pipeline", pipeline_json(*graph));
}

/// Records in the trace which process this is, and compares its clock with rank 0's before and after the steps, which
/// also gives the drift.
class ProcessRecord {
public:
    ProcessRecord(const TrainingOptions& options, const std::vector<LaneId>& lanes_here, Recorder& recorder)
        : processes_(options.processes.get()), recorder_(recorder), clock_(process_clock(recorder.origin_ns())) {
        if (processes_ != nullptr) {
            facts_ = process_facts(*processes_, lanes_here, clock_);
        }
    }

    /// Collective.
    void read_clock() {
        if (processes_ != nullptr) {
            facts_.clock.push_back(measure_clock(*processes_, clock_));
            recorder_.set_run("process", to_json(facts_));
        }
    }
    RankClock clock() const { return RankClock(facts_.clock); }

private:
    Processes* const processes_;  // null: there is only this process
    Recorder& recorder_;
    const ProcessClock clock_;
    ProcessFacts facts_;
};

struct Trained {
    std::vector<StepRecord> steps;
    std::vector<LaneId> lanes_here;  ///< one for each partition of this process
    RankClock clock;
    std::optional<std::vector<UnsplitLayer>> unsplit_layers = {};  ///< as in TrainingResult
};

/// The training loop. All measurements go into the recording; the steps are also returned.
class TrainingLoop {
public:
    TrainingLoop(const ModelSpec& model, const TrainingOptions& options, Recorder& recorder)
        : model_(model),
          options_(options),
          recorder_(recorder),
          memory_([this] { return recorder_.now(); },
                  [this](const MemorySample& sample) { recorder_.add_memory(sample); }),
          timer_(&memory_, options.pipeline.update, [this] { return recorder_.now(); }),
          pipeline_(model, engine_options(options, &timer_)),
          optimizers_(options.make_optimizer
                          ? LaneOptimizers(pipeline_, options.make_optimizer)
                          : LaneOptimizers(pipeline_, options.pipeline.optimizer, learning_rate_of(options))) {
        if (!options.update_parameters) {
            emulated_.emplace(pipeline_, options.pipeline.optimizer, options.profile ? &*options.profile : nullptr);
        }
    }

    GPipe& pipeline() { return pipeline_; }

    std::vector<StepRecord> run() {
        if (options_.saves != nullptr) {
            options_.saves->restore(pipeline_, optimizers_);
        }
        first_ = pipeline_.next_step();
        if (options_.update_parameters) {
            load_.emplace(usable_core_numbers());
        }
        if (options_.pipeline.update == Update::staggered) {
            run_staggered();
        } else {
            while (is_more(pipeline_.next_step())) {
                run_step();
            }
        }
        return std::move(steps_);
    }
    void finish() {
        if (options_.saves != nullptr) {
            options_.saves->finish(pipeline_, optimizers_);
        }
    }

private:
    bool is_more(std::int64_t step) const { return step < options_.steps && (step == first_ || !is_to_stop(options_)); }

    Batch begin_step(std::int64_t step) {
        if (options_.processes && stop_signal() != 0) {
            options_.processes->ask_to_stop();
        }
        if (options_.before_step) {
            options_.before_step();
        }
        return batch_for(pipeline_, model_, options_, options_.seed + static_cast<std::uint64_t>(step));
    }

    void run_step() {
        const std::int32_t step = pipeline_.next_step();
        const Batch batch = begin_step(step);
        const Nanoseconds wall_start = recorder_.now();
        if (options_.update_parameters) {
            optimizers_.zero_grad();
        }
        const double loss = pipeline_.step(batch.input, batch.target, model_.loss).item<double>();
        if (options_.update_parameters) {
            optimizers_.step(step);
        } else {
            emulated_->hold();
        }
        end_step(step, loss, wall_start);
        if (options_.saves != nullptr) {
            options_.saves->after_step(pipeline_, optimizers_);
        }
    }

    /// A save needs complete steps: overlapping steps drain before it.
    void run_staggered() {
        while (is_more(pipeline_.next_step())) {
            std::int32_t done = pipeline_.next_step();
            std::int32_t begun = done;
            Nanoseconds wall_start = recorder_.now();
            const auto next = [&]() -> std::optional<MiniBatch> {
                const bool drains = begun > done && options_.saves != nullptr && options_.saves->is_due(begun);
                if (drains || !is_more(begun)) {
                    return std::nullopt;
                }
                Batch batch = begin_step(begun++);
                return MiniBatch{std::move(batch.input), std::move(batch.target)};
            };
            const auto update = [&](LaneId lane) {
                if (options_.update_parameters) {
                    optimizers_.update(lane);
                } else {
                    emulated_->update(lane);
                }
            };
            const auto end = [&](const at::Tensor& loss) {
                const bool is_last = done + 1 == begun && !is_more(begun);
                end_step(done++, loss.item<double>(), wall_start, is_last);
                wall_start = recorder_.now();
            };
            pipeline_.train_staggered({.next = next, .loss = model_.loss, .update = update, .done = end});
            if (options_.saves != nullptr) {
                options_.saves->after_step(pipeline_, optimizers_);
            }
        }
    }

    /// `drains`: no step follows, so lanes wait after their last task. Such a step counts only if there is no other.
    void end_step(std::int32_t step, double loss, Nanoseconds wall_start, bool drains = false) {
        const Nanoseconds before = steps_.empty() ? Nanoseconds::min() : steps_.back().end;
        StepRecord record;
        record.step = step;
        record.warmup = step - first_ < options_.warmup || (drains && !steps_.empty() && !steps_.back().warmup);
        record.training_loss = loss;
        record.samples = options_.pipeline.batch;
        record.wall_start = wall_start;
        record.wall_end = recorder_.now();
        const StepTimer::Bounds bounds = timer_.take(step);
        record.start = std::max(bounds.start.value_or(record.wall_start), before);
        record.end = bounds.end.value_or(record.wall_end);
        record.load = load_ ? load_->end_step(record.wall_end) : std::nullopt;
        recorder_.add_step(record);
        steps_.push_back(record);
        if (options_.progress) {
            options_.progress(static_cast<double>(step + 1) / static_cast<double>(options_.steps));
        }
    }

    const ModelSpec& model_;
    const TrainingOptions& options_;
    Recorder& recorder_;
    const DeviceListening listening_;
    LaneMemory memory_;
    StepTimer timer_;
    GPipe pipeline_;
    LaneOptimizers optimizers_;
    std::optional<EmulatedOptimizer> emulated_;  // of an emulated model
    std::int64_t first_ = 0;
    std::optional<StepLoadMeter> load_;  // emulated lanes only wait, and need no core
    std::vector<StepRecord> steps_;
};

Trained train(const ModelSpec& model, const TrainingOptions& options, Recorder& recorder) {
    at::manual_seed(options.seed);
    TrainingLoop loop(model, options, recorder);
    GPipe& pipeline = loop.pipeline();
    describe_lanes(recorder, pipeline, replica_batch(options.pipeline));
    Trained trained;
    for (const PartitionInfo& partition : pipeline.partitions()) {
        if (partition.is_here) {
            trained.lanes_here.push_back(partition.lane);
        }
    }
    ProcessRecord process(options, trained.lanes_here, recorder);
    process.read_clock();
    trained.steps = loop.run();
    process.read_clock();
    if (splits_backward(options.pipeline.schedule)) {
        trained.unsplit_layers = pipeline.unsplit_layers();
        recorder.set_run("unsplit_layers", unsplit_json(*trained.unsplit_layers));
    }
    loop.finish();
    trained.clock = process.clock();
    return trained;
}

TrainingResult result_without_trace(const std::vector<StepRecord>& steps) {
    TrainingResult result;
    for (const StepRecord& record : steps) {
        result.steps.push_back({record.step, record.training_loss, record.start, record.end,
                                record.wall_end - record.wall_start, record.warmup});
    }
    return result;
}

/// Peaks in the steps after the warm-up; in all steps if every step was a warm-up.
void read_peaks(const std::vector<MemorySample>& samples, TrainingResult& result) {
    const bool any = std::ranges::any_of(result.steps, [](const TrainedStep& step) { return !step.warmup; });
    std::vector<TimeRange> steps;
    for (const TrainedStep& step : result.steps) {
        if (!step.warmup || !any) {
            steps.push_back({step.start.count(), step.end.count()});
        }
    }
    const auto peaks = measured_peaks(samples, std::move(steps), result.lanes.size());
    for (std::size_t lane = 0; lane < peaks.size(); ++lane) {
        if (peaks[lane]) {
            result.lanes[lane].peak_bytes = peaks[lane]->bytes;
            result.lanes[lane].peak = peaks[lane]->composition;
        }
    }
}

/// Why the recording lacks tasks of the steps; otherwise empty. Another tool may have received the ranges.
std::string what_is_missing(const TraceReader& reader, const Timeline& timeline, std::span<const StepRecord> steps) {
    if (std::string loss = loss_warning(reader.drops()); !loss.empty()) {
        return loss;
    }
    const std::vector<std::int32_t> heard = steps_of(timeline);
    const auto silent = std::count_if(steps.begin(), steps.end(), [&](const StepRecord& step) {
        return !std::binary_search(heard.begin(), heard.end(), step.step);
    });
    if (silent == 0) {
        return {};
    }
    std::string text = fmt::format("no task of {} of {} was recorded: busy times and the bubble fraction are not known",
                                   silent, counted(steps.size(), "step", "steps"));
    for (const std::string& warning : diagnostic_warnings(reader.diagnostics())) {
        text += "; " + warning;
    }
    return text;
}

TrainingResult read_result(const fs::path& path, std::size_t num_lanes, Update update) {
    const TraceReader reader(path);
    const Timeline timeline = reader.timeline(Source::measured);
    std::map<std::int32_t, StepStatistics> by_step = statistics_by_step(timeline, update);
    TrainingResult result;
    const std::vector<StepRecord> steps = reader.steps();
    result.loss = what_is_missing(reader, timeline, steps);
    const bool whole = result.loss.empty();
    result.lanes.resize(num_lanes);
    for (const StepRecord& record : steps) {
        StepStatistics& statistics = by_step[record.step];
        statistics.lanes.resize(num_lanes);
        result.steps.push_back({record.step, record.training_loss, whole ? statistics.start : record.start,
                                whole ? statistics.end : record.end, record.wall_end - record.wall_start,
                                record.warmup});
        if (record.warmup) {
            continue;
        }
        for (std::size_t lane = 0; whole && lane < num_lanes; ++lane) {
            result.lanes[lane].busy.push_back(statistics.lanes.at(lane).busy);
        }
    }
    read_peaks(reader.memory(), result);
    return result;
}

/// Checks the lanes and number of micro-batches against the schedule, before anything is profiled or written.
void check_schedule(const PipelineOptions& pipeline) {
    const Schedule schedule = pipeline.schedule;
    if (schedule == Schedule::automatic) {
        throw UsageError(
            "--schedule is auto, whose order depends on a profile; write it with 'pipescope simulate "
            "PROFILE .. --schedule auto --schedule-output s.csv', then run with --schedule s.csv");
    }
    if (is_for_comparison_only(schedule)) {
        throw UsageError(
            fmt::format("--schedule is '{}', which only the simulator runs; a run can use {} or a file; "
                        "use one of them{}, or 'pipescope simulate'",
                        to_string(schedule), runnable_schedule_names(", "), nearest_runnable_text(schedule)));
    }
    check_schedule(schedule, {.num_partitions = static_cast<int>(pipeline.balance.num_partitions()),
                              .num_micro_batches = static_cast<int>(micro_batch_sizes(pipeline).size()),
                              .checkpoint = pipeline.checkpoint,
                              .placement = pipeline.placement});
}

/// The recording to read figures from, even if the trace itself cannot be created.
class RecordedFile {
public:
    explicit RecordedFile(const TrainingOptions& options) : options_(options) {}

    Recorder open() {
        if (options_.trace.empty()) {
            return open_temporary();
        }
        check_trace_name(options_.trace, options_.force);
        try {
            path_ = options_.trace;
            return Recorder({.path = path_, .if_exists = options_.force ? IfExists::replace : IfExists::refuse});
        } catch (const TraceError& error) {
            if (!options_.survive_trace_failure) {
                throw;
            }
            has_trace_ = false;
            failure_ = fmt::format("there is no trace of it: {}", error.what());
            return open_temporary();
        }
    }
    const fs::path& path() const { return path_; }
    const std::string& failure() const { return failure_; }
    fs::path trace() const { return has_trace_ ? options_.trace : fs::path(); }

private:
    Recorder open_temporary() {
        path_ = temporary_.emplace().path();
        return Recorder({.path = path_});
    }

    const TrainingOptions& options_;
    std::optional<TemporaryTrace> temporary_;
    fs::path path_;
    std::string failure_;
    bool has_trace_ = true;
};

/// Refuses updates that GPipe::train_staggered() refuses, before anything is profiled or written.
void check_update_runs(const TrainingOptions& options) {
    if (options.pipeline.update == Update::synchronous) {
        return;
    }
    check_update(options.pipeline);
    const auto refuse = [](const std::string& why) {
        throw UsageError("--update is staggered " + why + "; leave it out");
    };
    if (options.driver == Driver::autograd) {
        refuse("with driver autograd, whose graph joins all lanes of a step");
    }
    if (options.processes && options.processes->size() > 1) {
        refuse("in several processes, which agree on the start and end of each step");
    }
    for (const std::string& device : options.pipeline.hardware.devices) {
        if (device != "cpu") {
            refuse("with a lane on " + printable(device) + "; lanes of accelerators update after the whole step");
        }
    }
}

/// Checks only the devices of this process's lanes.
void check_devices_here(const TrainingOptions& options) {
    const std::vector<std::string>& devices = options.pipeline.hardware.devices;
    std::optional<ReplicaRanks> ranks;
    if (options.processes) {
        ranks = replica_ranks(*options.processes, options.pipeline.replicas, static_cast<int>(devices.size()));
    }
    for (std::size_t k = 0; k < devices.size(); ++k) {
        if (!ranks || ranks->rank_of(LaneId{k}) == options.processes->rank()) {
            device_of_flag(devices[k]);
        }
    }
}
}  // namespace

std::vector<Nanoseconds> measured_step_times(const TrainingResult& result) {
    std::vector<Nanoseconds> times;
    for (const TrainedStep& step : result.steps) {
        if (!step.warmup) {
            times.push_back(step.step_time());
        }
    }
    return times;
}

std::optional<Nanoseconds> TrainedLane::median_busy() const {
    return busy.empty() ? std::nullopt : std::optional(median(busy));
}

std::optional<double> median_bubble_fraction(const TrainingResult& result) {
    const std::vector<Nanoseconds> steps = measured_step_times(result);
    std::vector<double> bubbles(steps.size(), 0);
    for (const TrainedLane& lane : result.lanes) {
        if (lane.busy.size() != steps.size()) {
            return std::nullopt;
        }
        for (std::size_t k = 0; k < steps.size(); ++k) {
            const double busy = static_cast<double>(lane.busy[k].count()) / static_cast<double>(steps[k].count());
            bubbles[k] += (1 - busy) / static_cast<double>(result.lanes.size());
        }
    }
    return bubbles.empty() || result.lanes.empty() ? std::nullopt : std::optional(median(bubbles));
}

void check_training(const ModelSpec& model, const TrainingOptions& options) {
    const PipelineOptions& pipeline = options.pipeline;
    pipeline.balance.check_covers(model.layers.size());
    if (!runs_one_partition_a_lane(pipeline.schedule)) {
        check_schedule(pipeline);  // reports how many devices it needs
    }
    const auto lanes = static_cast<std::size_t>(num_lanes(pipeline));
    if (pipeline.hardware.devices.size() != lanes) {
        throw UsageError(pipeline.placement.empty()
                             ? fmt::format("--devices names {}; balance {} has {}; give one device for each",
                                           counted(pipeline.hardware.devices.size(), "lane", "lanes"),
                                           to_string(pipeline.balance), counted(lanes, "partition", "partitions"))
                             : fmt::format("--devices names {}; the placement has {}; give one device for each lane",
                                           counted(pipeline.hardware.devices.size(), "lane", "lanes"), lanes));
    }
    check_schedule(pipeline);
    if (options.steps < 1) {
        throw UsageError(fmt::format("--steps is {}; a run has at least 1; use 1 or more", options.steps));
    }
    if (options.warmup < 0 || options.warmup >= options.steps) {
        throw UsageError(fmt::format("--warmup is {}; of {} at least one must count; use 0 to {}", options.warmup,
                                     counted(options.steps, "step", "steps"), options.steps - 1));
    }
    if (!options.make_optimizer) {
        check_optimizer(pipeline.optimizer);
    }
    check_update_runs(options);
    check_devices_here(options);
    if (options.profile && options.profile->layers.size() != model.layers.size()) {
        throw UsageError(fmt::format("the profile has {}; the model {} has {}; profile this model",
                                     counted(options.profile->layers.size(), "layer", "layers"), model.name,
                                     model.layers.size()));
    }
}

TrainingResult train_recorded(const ModelSpec& model, const TrainingOptions& options) {
    check_training(model, options);
    RecordedFile file(options);
    std::optional<MachineLoad> load;
    Trained trained;
    {
        Recorder recorder = file.open();
        describe(recorder, model, options);
        const LoadMeter meter(usable_core_numbers());
        trained = train(model, options, recorder);
        load = options.update_parameters ? meter.load() : std::nullopt;  // emulated lanes only wait
        if (load) {
            recorder.set_run("load", to_json(*load));
        }
        if (const auto profile = options.profile_afterwards ? options.profile_afterwards() : std::nullopt) {
            recorder.set_profile(to_json(*profile));
        }
        try {
            recorder.stop();
        } catch (const TraceError& error) {
            if (!options.survive_trace_failure) {
                throw;
            }
            TrainingResult result = result_without_trace(trained.steps);
            result.interrupted = stop_signal() != 0;
            result.load = load;
            result.unsplit_layers = std::move(trained.unsplit_layers);
            result.trace = file.trace();
            result.trace_failure = fmt::format("its trace is incomplete: {}", error.what());
            return result;
        }
    }
    TrainingResult result = read_result(file.path(), options.pipeline.hardware.devices.size(), options.pipeline.update);
    result.unsplit_layers = std::move(trained.unsplit_layers);
    if (options.processes) {
        share_lanes(result, trained.lanes_here, trained.clock, *options.processes, options.pipeline.replicas);
    }
    result.bubble_fraction = median_bubble_fraction(result);
    result.interrupted = is_to_stop(options) && static_cast<std::int64_t>(result.steps.size()) < options.steps;
    result.load = load;
    result.trace = file.trace();
    result.trace_failure = file.failure();
    return result;
}
}  // namespace pipescope
