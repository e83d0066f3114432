#include "analysis/recorded_run.h"

#include "base/error.h"
#include "base/json_reader.h"
#include "base/quantities.h"
#include "profiler/profile/profile_file.h"
#include "schedule/checkpoint.h"
#include "schedule/schedules.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/search/automatic_schedule.h"
#include "trace/store/pipeline_json.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
constexpr JsonKind kEntryJson{"an entry of a trace", "the trace is damaged", "the trace is damaged",
                              throw_error<TraceFormatError>};
using Value = JsonValue<Json>;
using Object = JsonObject<Json>;

/// Null if there is no such entry, discarded if it is not JSON.
Json entry_of(const OpenedTrace& trace, std::string_view key) {
    const auto found = trace.run.find(std::string(key));
    try {
        return found == trace.run.end() ? Json() : parse_json(found->second, kEntryJson);
    } catch (const TraceFormatError&) {
        return Json::value_t::discarded;
    }
}

/// A text entry; empty if there is no such entry or it is not a text.
std::string text_of(const OpenedTrace& trace, const char* key) {
    const Json value = entry_of(trace, key);
    return value.is_string() ? value.get<std::string>() : std::string();
}

/// Reads the samples of micro-batches from the messages of another program's run.
void read_samples(const OpenedTrace& trace, RecordedRun& run) {
    const Json entry = entry_of(trace, kMicroBatchKey);
    if (!entry.is_object()) {
        return;
    }
    const auto samples_of = [](Object& object) {
        const std::optional<Value> samples = object.find("samples");
        return samples ? std::max<std::int64_t>(0, samples->integer()) : 0;
    };
    try {
        Object object = Value(entry, "", kEntryJson).object();
        if (const std::int64_t samples = samples_of(object); samples > 0) {
            run.micro_batch_samples = samples;
        }
        if (const std::optional<Value> others = object.find("others")) {
            others->list("a list of other sizes", [&](const Value& value) {
                Object other = value.object();
                const std::int64_t samples = samples_of(other);
                other.at("steps").list("a list of steps", [&](const Value& step) {
                    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
                    return run.other_samples[static_cast<std::int32_t>(step.integer(0, kMost))] = samples;
                });
                return samples;
            });
        }
    } catch (const TraceFormatError&) {
        return;  // what is not readable is not known
    }
}

std::optional<Nanoseconds> bound_of(const Json& simulation) {
    const Json bound = simulation.is_object() ? simulation.value("lower_bound_ns", Json()) : Json();
    const std::int64_t ns = bound.is_number_integer() ? bound.get<std::int64_t>() : 0;
    return ns > 0 ? std::optional(Nanoseconds{ns}) : std::nullopt;
}

/// Empty if a number is impossible.
std::optional<StepOnCluster> step_on_cluster_of(const Json& simulation) {
    try {
        constexpr std::int64_t kMost = std::int64_t{1} << 53;
        Object entry = Value(simulation, "", kEntryJson).object();
        Object object = entry.at("cluster").object();
        StepOnCluster step;
        step.layout = object.at("layout").text();
        step.pipeline = Nanoseconds{object.at("pipeline_ns").integer()};
        step.whole = Nanoseconds{object.at("step_ns").integer()};
        step.batch = object.at("batch").integer();
        step.model_flops = object.at("model_flops").number();
        step.lane_devices = object.at("lane_devices").integer();
        step.checkpoint = to_string(parse_checkpoint(object.at("checkpoint").text()));
        step.optimizer = object.at("optimizer").text();
        const bool is_true = step.pipeline.count() > 0 && step.whole >= step.pipeline && step.whole.count() < kMost &&
                             step.batch > 0 && step.model_flops >= 0 && step.lane_devices > 0;
        return is_true ? std::optional(step) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// From the first start to the last end of the simulated tasks; 0 without any.
std::int64_t simulated_span(const OpenedTrace& trace) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = 0;
    for (const Slice& slice : trace.simulated.slices) {
        first = std::min(first, slice.start.count());
        last = std::max(last, slice.end.count());
    }
    return trace.simulated.slices.empty() ? 0 : last - first;
}

/// The layout that the trace claims to hold. Drops a description that is impossible or belongs to another timeline,
/// with a warning.
std::optional<StepOnCluster> layout_of(const OpenedTrace& trace, const Json& simulation,
                                       std::vector<TraceWarning>& warnings) {
    if (!simulation.is_discarded() && !(simulation.is_object() && simulation.contains("cluster"))) {
        return std::nullopt;
    }
    std::optional<StepOnCluster> step = step_on_cluster_of(simulation);
    const std::int64_t span = simulated_span(trace);
    constexpr std::int64_t kRounding = 1000;  // part of a step by which the two may differ
    if (step && span > 0 && std::abs(span - step->pipeline.count()) > step->pipeline.count() / kRounding) {
        step.reset();
    }
    if (!step) {
        warnings.push_back({Severity::caution,
                            "the description of its layout on a cluster does not fit the trace: figures are those of "
                            "the traced pipeline alone; write the trace again with simulate --cluster"});
    }
    return step;
}

TraceWarning remark_on(const StepOnCluster& step) {
    return {Severity::remark,
            fmt::format("a layout on a cluster, {}: the timeline is {}; samples a second and the model's operations "
                        "are those of the whole step on all devices; what-if figures are of whole steps, of which "
                        "what follows the pipeline stays as it is here",
                        step.layout, part_text(step))};
}

std::string cannot_be_simulated(const Error& error) {
    return std::string("holds a run that cannot be simulated: ") + error.what();
}

void read_pipeline(const OpenedTrace& trace, RecordedRun& run) {
    const auto configuration = trace.run.find("configuration");
    try {
        if (configuration != trace.run.end()) {  // known even if the profile cannot be read
            run.options = parse_pipeline_options(configuration->second);
        }
        if (trace.profile_json) {
            run.profile = parse_profile(*trace.profile_json);
        }
        if (const auto load = trace.run.find("load"); load != trace.run.end()) {
            run.load = parse_load(load->second);
        }
    } catch (const Error& error) {
        run.why_not_simulated = cannot_be_simulated(error);
        return;
    }
    const std::optional<ProcessFacts> process = recording_process(trace.run);
    if (!run.profile && process && process->rank > 0) {
        run.why_not_simulated =
            "is the trace of rank " + std::to_string(process->rank) + " of " + std::to_string(process->size) +
            ", and that of rank 0 holds the profile; give the traces of all ranks, or join them with 'pipescope merge'";
    } else if (!run.profile && run.of_another_program) {
        run.why_not_simulated =
            "holds no profile, because another program recorded it, and no task from which one can be measured; "
            "write task rules (docs/task-rules.md)";
    } else if (!run.profile) {
        run.why_not_simulated =
            "holds no profile; comparing needs the layers' costs; record it with 'pipescope run --trace'";
    } else if (!run.options) {
        run.why_not_simulated =
            "does not say what was run; comparing needs the configuration; record it with 'pipescope run --trace'";
    }
}

/// Throws Error unless the configuration makes the recorded pipeline.
void require_fit(const PipelineShape& recorded, const PipelineOptions& options) {
    const auto require = [](const char* what, std::size_t found, std::size_t wanted, const std::string& by = "") {
        if (found != wanted) {
            throw Error("the recorded pipeline has " + std::to_string(found) + " " + what + "; its configuration has " +
                        std::to_string(wanted) + by + ", and both describe one run; record it again");
        }
    };
    require("partitions", static_cast<std::size_t>(recorded.num_partitions), options.balance.num_partitions());
    require("micro-batches", static_cast<std::size_t>(recorded.num_micro_batches), micro_batch_sizes(options).size(),
            " (chunks " + std::to_string(options.chunks) + " of batch " + std::to_string(options.batch) + ")");
    require("lanes", static_cast<std::size_t>(recorded.num_lanes()), static_cast<std::size_t>(num_lanes(options)));
}

/// A training loop in Python describes its run by the first mini-batch, which may differ in samples from the rest.
/// Takes the number of samples that most steps after the warm-up have; on a tie, the described number, or else the
/// larger. Returns true if it changed the described number.
bool take_usual_batch(RecordedRun& run) {
    if (!run.options) {
        return false;
    }
    std::map<std::int64_t, std::size_t> steps_by_samples;
    for (const StepRecord& step : run.steps) {
        if (!step.warmup && step.samples > 0) {
            ++steps_by_samples[step.samples];
        }
    }
    const std::int64_t described = run.options->batch;
    const auto usual = std::ranges::max_element(steps_by_samples, {}, [&](const auto& samples) {
        return std::tuple(samples.second, samples.first == described, samples.first);
    });
    if (usual == steps_by_samples.end() || usual->first == described) {
        return false;
    }
    run.options->batch = usual->first;
    run.warnings.push_back(
        {Severity::remark, fmt::format("the configuration names a mini-batch of {}; the steps that are compared and "
                                       "simulated have {}, as most do",
                                       counted(described, "sample", "samples"), usual->first)});
    return true;
}

/// False if the recorded pipeline comes from a mini-batch with another number of samples.
bool has_micro_batches_of(const TaskGraph& graph, const PipelineOptions& options) {
    return static_cast<std::size_t>(graph.shape().num_micro_batches) == micro_batch_sizes(options).size();
}

/// `other_batch`: the result of take_usual_batch().
void read_graph(const OpenedTrace& trace, bool other_batch, RecordedRun& run) {
    try {
        const auto pipeline = trace.run.find("pipeline");
        auto graph = pipeline != trace.run.end()
                         ? std::make_shared<const TaskGraph>(parse_pipeline_json(pipeline->second))
                         : nullptr;
        if (graph && (!other_batch || has_micro_batches_of(*graph, *run.options))) {
            if (run.options) {
                require_fit(graph->shape(), *run.options);
            }
            run.graph = std::move(graph);
            return;
        }
    } catch (const Error& error) {
        const std::string reason = error.what();
        run.warnings.push_back(
            {Severity::caution,
             (reason.starts_with("the recorded pipeline") ? "" : "the recorded pipeline is set aside: ") + reason +
                 "; dependencies are derived without it"});
    }
    if (run.profile && run.options) {
        run.graph = pipeline_graph_of(*run.profile, *run.options);
    }
}
}  // namespace

const StepRecord* RecordedRun::record_of(std::int32_t step) const {
    if (steps.empty()) {
        return nullptr;
    }
    // Training loops count their steps one by one, so the place is known. Otherwise it is searched.
    const std::int64_t place = std::int64_t{step} - steps.front().step;
    if (place >= 0 && place < std::ssize(steps) && steps[static_cast<std::size_t>(place)].step == step) {
        return &steps[static_cast<std::size_t>(place)];
    }
    const auto found =
        std::find_if(steps.begin(), steps.end(), [step](const StepRecord& record) { return record.step == step; });
    return found != steps.end() ? &*found : nullptr;
}

std::optional<std::int64_t> RecordedRun::samples_in(std::span<const std::int32_t> numbers) const {
    std::optional<std::int64_t> samples;
    for (const std::int32_t number : numbers) {
        const auto other = other_samples.find(number);
        const std::int64_t own = other != other_samples.end() ? other->second : micro_batch_samples.value_or(0);
        if (own <= 0 || samples.value_or(own) != own) {
            return std::nullopt;
        }
        samples = own;
    }
    return samples;
}

bool RecordedRun::is_whole(std::int32_t step, std::int32_t last) const {
    if (!cut_off) {
        return true;
    }
    return steps.empty() ? step != last : record_of(step) != nullptr;
}

RecordedRun recorded_run(const OpenedTrace& trace) {
    RecordedRun run;
    run.origin = trace.origin;
    run.source = text_of(trace, "source");
    run.source = run.source.empty() ? std::string(to_string(trace.origin)) : run.source;
    run.model = text_of(trace, "model");
    run.of_another_program = is_of_another_program(trace);
    run.only_launches = trace.run.contains(std::string(kLaunchesKey));
    read_samples(trace, run);
    run.missing = missing_ranks(trace);
    const Json simulation = entry_of(trace, kSimulationKey);  // the facts of write_simulation()
    run.lower_bound = bound_of(simulation);
    run.steps = trace.steps;
    run.launches = TaskLaunches(trace.on_device, trace.lane_work);
    run.processes = merged_processes(trace.run);
    const Json early = entry_of(trace, kEarlyMessagesKey);
    if (const auto most = early.is_object() ? early.find("most_ns") : early.end();
        most != early.end() && most->is_number_integer()) {
        run.early_messages = Nanoseconds{most->get<std::int64_t>()};
    }
    run.lost = lost_records(trace.drops);
    run.cut_off = trace.cut_off();
    run.warnings = trace_warnings(trace);
    run.on_cluster = layout_of(trace, simulation, run.warnings);
    if (run.on_cluster) {
        run.warnings.push_back(remark_on(*run.on_cluster));
    }
    read_pipeline(trace, run);
    const bool other_batch = take_usual_batch(run);
    read_graph(trace, other_batch, run);
    return run;
}

void warn_of_partition(RecordedRun& run, std::int32_t partition) {
    const std::int64_t partitions = run.graph     ? run.graph->shape().num_partitions
                                    : run.options ? static_cast<std::int64_t>(run.options->balance.num_partitions())
                                                  : kMostPartitions;
    if (partition >= partitions) {
        run.warnings.push_back(
            {Severity::caution, fmt::format("a task is of partition {}, but the run's pipeline has the "
                                            "partitions 0 to {}: the file is damaged; record it again",
                                            partition, partitions - 1)});
    }
}

PipelineOptions options_as_recorded(const RecordedRun& run) {
    PipelineOptions options = *run.options;
    if (run.recorded_order) {
        options.schedule = *run.recorded_order;
    }
    return options;
}

std::optional<Simulation> simulate_run(RecordedRun& run, bool noise) {
    if (!run.why_not_simulated.empty()) {
        return std::nullopt;
    }
    try {
        Simulation simulation = find_and_simulate(*run.profile, options_as_recorded(run), {.noise = noise});
        simulation.lower_bound = run.lower_bound;
        add_lower_bound(*run.profile, simulation);
        if (run.on_cluster) {
            add_rest_of_step(simulation, *run.on_cluster);
        }
        return simulation;
    } catch (const Error& error) {
        run.why_not_simulated = cannot_be_simulated(error);
        return std::nullopt;
    }
}

bool is_batch_unknown(const RecordedRun& run) {
    return run.of_another_program && !run.micro_batch_samples;
}

std::optional<std::int64_t> known_batch(const RecordedRun& run) {
    return run.options && !is_batch_unknown(run) ? std::optional(run.options->batch) : std::nullopt;
}

std::string why_no_costs(const RecordedRun& run) {
    return run.missing
               ? fmt::format(
                     "lacks {}: tasks there are not recorded, and those whose input comes from there would cost "
                     "the wait for it; costs are measured with all ranks of the pipeline; give the folder "
                     "with all their files",
                     run.missing->text())
               : std::string();
}

bool layers_recompute(const RecordedRun& run) {
    return run.on_cluster && run.options && layers_recompute(*run.on_cluster, *run.options);
}

PipelineOptions as_counted(const RecordedRun& run, PipelineOptions options) {
    if (run.on_cluster && run.options) {
        if (options.checkpoint == run.options->checkpoint) {
            options.checkpoint = parse_checkpoint(run.on_cluster->checkpoint);
        }
        if (options.optimizer == run.options->optimizer) {
            options.optimizer = run.on_cluster->optimizer;
        }
    }
    return options;
}

Nanoseconds after_pipeline(const RecordedRun& run) {
    return run.on_cluster ? run.on_cluster->after_pipeline() : Nanoseconds{0};
}

Update update_of(const RecordedRun& run) {
    return run.options ? run.options->update : Update::synchronous;
}

Sends sends_of(const RecordedRun& run) {
    return run.options ? run.options->hardware.link.sends : Sends::overlapped;
}

std::shared_ptr<const TaskGraph> pipeline_graph_of(const Profile& profile, const PipelineOptions& options) {
    try {
        check_options(options, profile.layers.size());
        if (!is_synchronous(options.schedule)) {
            return nullptr;
        }
        return std::make_shared<const TaskGraph>(pipeline_graph(options, TaskCosts(profile, options)));
    } catch (const Error&) {
        return nullptr;  // simulating it gives the reason
    }
}
}  // namespace pipescope
