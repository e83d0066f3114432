#include "analysis/two_runs.h"

#include "analysis/task_contradictions.h"
#include "analysis/task_join.h"
#include "base/quantities.h"
#include "base/sample_statistics.h"
#include "trace/open_trace.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace pipescope {
namespace {
struct ReadRun {
    LoadedRun loaded;  ///< without tracks
    ComparedRun compared;
    KernelSums kernels;

    const Timeline& tasks() const { return loaded.timeline(); }
};

void caution(std::vector<TraceWarning>& warnings, std::string text) {
    warnings.push_back({Severity::caution, std::move(text)});
}

ReadRun read_run(const std::filesystem::path& path) {
    const std::optional<TraceReader> reader = TraceReader::open(path);
    ReadRun read{load_run(path, {.tracks = !reader}), {}, {}};  // which another program's file is read for anyway
    read.kernels = reader ? kernel_sums(*reader) : kernel_sums(read.loaded.trace);
    read.loaded.trace.tracks.clear();
    read.compared = compared_run(read.loaded.tasks());
    read.compared.name = path.filename().string();
    if (read.compared.figures) {
        const RecordedRun& run = read.loaded.run;
        read.compared.bubbles = bubble_report(read.loaded.tasks().measured(), run.graph, sends_of(run), run.launches);
        read.compared.bubbles.roots = root_causes(read.loaded.tasks().measured(), run);
    }
    return read;
}

std::vector<double> numbers_of(const std::vector<Nanoseconds>& times) {
    std::vector<double> numbers;
    for (const Nanoseconds time : times) {
        numbers.push_back(static_cast<double>(time.count()));
    }
    return numbers;
}

std::vector<TaskKey> keys_of_tasks(const Timeline& timeline) {
    std::vector<TaskKey> keys;
    for (const Slice& slice : timeline.slices) {
        keys.push_back(slice.key);
    }
    return keys;
}

std::optional<LayerRange> layers_of(const RecordedRun& run, const TaskKey& key) {
    if (!run.options || run.of_another_program || is_copy(key.kind) || key.partition < 0 ||
        static_cast<std::size_t>(key.partition) >= run.options->balance.num_partitions()) {
        return std::nullopt;
    }
    return run.options->balance.layers_of(PartitionId{key.partition});
}

/// Notes which half of a backward the group's next task is, before it is counted.
void note_half(TaskGroup& group, std::optional<BackwardHalf> half) {
    if (group.tasks_before + group.tasks_after == 0) {
        group.half = half;
    } else if (group.half != half) {
        group.half.reset();
    }
}

void join_typical(const Timeline& before, const Timeline& after, TwoRuns& runs) {
    const SplitBackwards split(after.slices);
    const TaskJoin join = join_tasks(keys_of_tasks(after), keys_of_tasks(before));
    runs.tasks_matched = static_cast<std::int64_t>(join.pairs.size());
    runs.tasks_only_after = static_cast<std::int64_t>(join.measured.size());
    runs.tasks_only_before = static_cast<std::int64_t>(join.simulated.size());
    std::map<std::pair<TaskKind, std::int32_t>, TaskGroup> groups;
    for (const TaskJoin::Pair& pair : join.pairs) {
        const Slice& now = after.slices[pair.measured];
        const Slice& then = before.slices[pair.simulated];
        const std::optional<BackwardHalf> half = split.half_of(now.key);
        runs.worst.push_back({now.key, now.duration(), then.duration(), half});
        TaskGroup& group = groups[{now.key.kind, now.key.partition}];
        group.kind = now.key.kind;
        group.partition = now.key.partition;
        group.layers = layers_of(runs.after.run, now.key);
        note_half(group, half);
        ++group.tasks_before;
        ++group.tasks_after;
        group.before += then.duration();
        group.after += now.duration();
    }
    keep_worst(runs.worst);
    for (const auto& [place, group] : groups) {
        runs.groups.push_back(group);
    }
    std::stable_sort(runs.groups.begin(), runs.groups.end(), [](const TaskGroup& a, const TaskGroup& b) {
        return std::chrono::abs(a.after - a.before) > std::chrono::abs(b.after - b.before);
    });
}

/// `joins_backward`: one run splits its backwards, so both parts count as one kind.
void add_kinds(const Timeline& before, const Timeline& after, bool joins_backward, TwoRuns& runs) {
    std::map<TaskKind, TaskGroup> kinds;
    const auto group_of = [&](TaskKind kind) -> TaskGroup& {
        kind = joins_backward && kind == TaskKind::backward_weight ? TaskKind::backward : kind;
        TaskGroup& group = kinds[kind];
        group.kind = kind;
        return group;
    };
    const auto sum = [&](const std::vector<Slice>& slices, Nanoseconds TaskGroup::*time,
                         std::int64_t TaskGroup::*tasks) {
        const SplitBackwards split(slices);
        for (const Slice& slice : slices) {
            TaskGroup& group = group_of(slice.key.kind);
            note_half(group, split.half_of(slice.key));
            group.*time += slice.duration();
            ++(group.*tasks);
        }
    };
    sum(before.slices, &TaskGroup::before, &TaskGroup::tasks_before);
    sum(after.slices, &TaskGroup::after, &TaskGroup::tasks_after);
    for (const auto& [kind, group] : kinds) {
        runs.kinds.push_back(group);
    }
}

void compare_tasks_of(const ReadRun& before, const ReadRun& after, TwoRuns& runs) {
    runs.why_no_kinds = why_work_differs(runs.before.run, runs.after.run);
    runs.why_no_tasks = why_tasks_differ(runs.before, runs.after);
    if (!runs.why_no_kinds.empty()) {
        caution(runs.warnings, "the steps do not hold the same work: " + runs.why_no_kinds);
        return;
    }
    const Timeline typical_before = typical_step(before.loaded.tasks().measured());
    const Timeline typical_after = typical_step(after.loaded.tasks().measured());
    const bool joins_backward = runs.before.shape.splits_backward != runs.after.shape.splits_backward;
    add_kinds(typical_before, typical_after, joins_backward, runs);
    if (runs.why_no_tasks.empty()) {
        join_typical(typical_before, typical_after, runs);
    } else {
        caution(runs.warnings, fmt::format("tasks are not compared one by one: {}; steps, bubbles, memory and sums by "
                                           "kind are",
                                           runs.why_no_tasks));
    }
}

std::optional<LossComparison> compare_losses(const RecordedRun& before, const RecordedRun& after) {
    if (!knows_losses(before) || !knows_losses(after)) {
        return std::nullopt;
    }
    LossComparison losses;
    for (const StepRecord& now : after.steps) {
        const StepRecord* then = before.record_of(now.step);
        if (then == nullptr) {
            continue;
        }
        ++losses.steps;
        if (std::isnan(now.training_loss) && std::isnan(then->training_loss)) {
            ++losses.without_number;
        } else if (now.training_loss == then->training_loss) {
            ++losses.equal;
        } else if (!losses.first || now.step < losses.first->step) {
            losses.first = DifferentLoss{now.step, then->training_loss, now.training_loss};
        }
    }
    return losses.steps > losses.without_number ? std::optional(losses) : std::nullopt;
}

using Properties = std::map<std::string, std::string>;

/// {"machine": {"cpu": "x"}} as "machine.cpu": "x".
void flatten_into(const std::string& name, const nlohmann::json& value, Properties& properties) {
    if (!value.is_object()) {
        properties[name] = value.is_string() ? value.get<std::string>() : value.dump();
        return;
    }
    for (const auto& [key, each] : value.items()) {
        flatten_into(name.empty() ? key : name + "." + key, each, properties);
    }
}

/// Shows whether two schedules are the same (FNV-1a), since their cells are too many to print.
std::string digest_of(const std::string& text) {
    std::uint64_t hash = 14695981039346656037U;
    for (const char each : text) {
        hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211U;
    }
    return fmt::format("{}, checksum {:016x}", counted(text.size(), "byte", "bytes"), hash);
}

/// Adds the part of the configuration that the tasks of another program's run show. Leaves out the link, because it is
/// measured and so differs from run to run.
void add_seen(const RecordedRun& run, Properties& properties) {
    if (const std::optional<std::int64_t> batch = known_batch(run)) {
        properties["batch"] = std::to_string(*batch);
    }
    properties["chunks"] = std::to_string(run.options->chunks);
    properties["checkpoint"] = to_string(run.options->checkpoint);
    if (run.graph && !run.recorded_order) {
        properties["schedule"] = to_string(run.options->schedule);
    }
}

Properties properties_of(const ReadRun& read) {
    const RecordedRun& run = read.compared.run;
    Properties properties;
    const auto add_entry = [&](const char* key, const std::string& prefix) {
        if (const auto found = read.loaded.trace.run.find(key); found != read.loaded.trace.run.end()) {
            const nlohmann::json value = nlohmann::json::parse(found->second, nullptr, false);
            if (!value.is_discarded()) {
                flatten_into(prefix, value, properties);
            }
        }
    };
    properties["file"] = to_string(run.origin);
    add_entry("model", "model");
    add_entry("training", "");
    add_entry("environment", "environment");
    if (run.options && run.of_another_program) {
        add_seen(run, properties);
    } else if (run.options) {
        flatten_into("", nlohmann::json::parse(to_json(*run.options)), properties);  // with defaults
    } else {
        add_entry("configuration", "");
    }
    if (const auto cells = properties.find("schedule_csv"); cells != properties.end()) {
        cells->second = digest_of(cells->second);
    }
    if (run.profile && !run.of_another_program) {
        properties["profile.device"] = (*run.profile)->device;
        properties["profile.dtype"] = (*run.profile)->dtype;
        properties["profile.threads"] = std::to_string((*run.profile)->threads);
    }
    std::vector<std::string> devices;
    for (const LaneInfo& lane : read.tasks().lanes) {
        devices.push_back(lane.device);
    }
    properties["lanes"] = std::to_string(devices.size());
    properties["lane devices"] = fmt::format("{}", fmt::join(devices, ","));
    std::vector<std::string> hosts;
    for (const MergedProcess& process : run.processes) {
        hosts.push_back(process.host);
    }
    if (std::ranges::all_of(hosts, &std::string::empty)) {
        hosts.clear();  // not recorded
    }
    properties["processes"] = std::to_string(number_of_processes(read.loaded));
    properties["hosts"] = fmt::format("{}", fmt::join(hosts, ","));
    return properties;
}

std::vector<ConfigurationDifference> differences_of(const ReadRun& before, const ReadRun& after) {
    const Properties then = properties_of(before);
    const Properties now = properties_of(after);
    Properties names = then;
    names.insert(now.begin(), now.end());
    const auto value_of = [](const Properties& properties, const std::string& name) {
        const auto found = properties.find(name);
        return found != properties.end() ? found->second : std::string();
    };
    std::vector<ConfigurationDifference> differences;
    for (const auto& [name, value] : names) {
        if (value_of(then, name) != value_of(now, name)) {
            differences.push_back({name, value_of(then, name), value_of(now, name)});
        }
    }
    return differences;
}

void warn_of_load(TwoRuns& runs) {
    const auto taken = [](const ComparedRun& run) { return run.run.load->others + run.run.load->stolen; };
    if (!runs.before.run.load || !runs.after.run.load) {
        return;
    }
    if (std::abs(taken(runs.before) - taken(runs.after)) > kNotableLoad) {
        caution(runs.warnings, fmt::format("other load took {:.1f} % of the cores' time before and {:.1f} % after: a "
                                           "part of the change is that load; repeat both runs on a quiet machine",
                                           100 * taken(runs.before), 100 * taken(runs.after)));
    }
}

/// Joins ranges by name, since a run has no steps to compare. Throws TraceFormatError if one has no ranges either.
void compare_names(const std::filesystem::path& before, const std::filesystem::path& after, TwoRuns& runs) {
    const auto read = [](const std::filesystem::path& path) {
        OpenedTrace trace = open_trace(path);
        if (trace.tracks.empty()) {
            throw TraceFormatError(fmt::format(
                "{} holds neither a step with tasks nor ranges that could be compared by name; a step has forwards "
                "and backwards; record a run with 'pipescope run --trace'",
                path.string()));
        }
        return trace;
    };
    const OpenedTrace then = read(before);
    const OpenedTrace now = read(after);
    runs.why_no_tasks = runs.why_no_kinds = "a run has no step with tasks";
    caution(runs.warnings,
            "a run has no step with tasks of a pipeline, so ranges are compared, by their names and order on each "
            "thread and stream; there are no step times and no bubbles");
    runs.names = join_by_name(then, now);
}
}  // namespace

int number_of_processes(const LoadedRun& loaded) {
    const std::optional<ProcessFacts> alone = recording_process(loaded.trace.run);
    return std::max(alone ? alone->size : 1, static_cast<int>(loaded.run.processes.size()));
}

bool knows_losses(const RecordedRun& run) {
    return std::any_of(run.steps.begin(), run.steps.end(), [](const StepRecord& step) {
        return step.training_loss != 0 && !std::isnan(step.training_loss);
    });
}

void TaskShape::add(const TaskKey& key) {
    if (is_compute(key.kind)) {
        partitions = std::max(partitions, key.partition + 1);
        micro_batches = std::max(micro_batches, key.micro_batch + 1);
    }
    splits_backward = splits_backward || key.kind == TaskKind::backward_weight;
}

TaskShape task_shape(const Timeline& timeline) {
    TaskShape shape;
    for (const Slice& slice : timeline.slices) {
        shape.add(slice.key);
    }
    return shape;
}

namespace {
/// An emulated run does the work of its profile's model. The model is unknown without a profile, as in a later rank's
/// run: the emulated profile's file may have any name.
std::string model_of(const RecordedRun& run) {
    return !run.model.starts_with(kEmulatedPrefix) ? run.model : run.profile ? (*run.profile)->model : std::string();
}
}  // namespace

std::string why_work_differs(const RecordedRun& before, const RecordedRun& after) {
    const std::string then = model_of(before);
    const std::string now = model_of(after);
    if (!then.empty() && !now.empty() && then != now) {
        return fmt::format("the model was {} and is {}", then, now);
    }
    const std::optional<std::int64_t> batch_then = known_batch(before);
    const std::optional<std::int64_t> batch_now = known_batch(after);
    if (batch_then && batch_now && *batch_then != *batch_now) {
        return fmt::format("the batch was {} and is {}; compare samples per second", *batch_then,
                           counted(*batch_now, "sample", "samples"));
    }
    return {};
}

std::string why_tasks_differ(const ComparedRun& before, const ComparedRun& after) {
    if (std::string why = why_work_differs(before.run, after.run); !why.empty()) {
        return why;
    }
    const bool are_known = before.run.options && after.run.options;  // a trace may hold the tasks of only one rank
    if (are_known) {
        const PipelineOptions& then = *before.run.options;
        const PipelineOptions& now = *after.run.options;
        if (then.balance != now.balance) {
            return fmt::format("the balance was {} and is {}, so that partitions hold other layers",
                               to_string(then.balance), to_string(now.balance));
        }
        if (then.replicas != now.replicas || then.chunks != now.chunks) {
            return fmt::format("the mini-batch was cut into {} x {} micro-batches and is cut into {} x {}",
                               then.replicas, then.chunks, now.replicas, now.chunks);
        }
    }
    if (!are_known && before.shape.partitions != after.shape.partitions) {
        return fmt::format("the number of partitions was {} and is {}", before.shape.partitions,
                           after.shape.partitions);
    }
    if (!are_known && before.shape.micro_batches != after.shape.micro_batches) {
        return fmt::format("the number of micro-batches was {} and is {}", before.shape.micro_batches,
                           after.shape.micro_batches);
    }
    if (before.shape.splits_backward != after.shape.splits_backward) {
        return "one run splits its backwards in two, so that a backward is not the same work";
    }
    return {};
}

std::string update_warning(const RecordedRun& before, const RecordedRun& after) {
    if (update_of(before) == update_of(after)) {
        return {};
    }
    return fmt::format(
        "steps of the run {} include the update of the parameters, since updates are staggered; those of the run {} do "
        "not: a part of the change of the step time is that update; compare the wall step times, which include it in "
        "both",
        update_of(before) == Update::staggered ? "before" : "after",
        update_of(before) == Update::staggered ? "after" : "before");
}

RunFigures figures_of(const RecordedRun& run, const Measured& measured) {
    RunFigures figures = run_figures(measured);
    if (run.on_cluster) {
        figures.pipeline_time = figures.step_time;
        for (Nanoseconds& time : figures.step_times) {
            time += after_pipeline(run);
        }
        figures.step_time += after_pipeline(run);
        figures.step_mean += after_pipeline(run);
    }
    return figures;
}

ComparedRun compared_run(const RunTasks& tasks) {
    const bool is_simulated = tasks.timeline.source == Source::simulated;
    ComparedRun compared;
    compared.run = tasks.run;
    compared.shape = task_shape(tasks.timeline);
    compared.warnings = about_run(tasks.run.warnings);
    for (std::vector<std::string>& texts :
         std::array{load_warnings(tasks.run.load, "the run was recorded"), left_out_warnings(tasks.steps)}) {
        for (std::string& text : texts) {
            caution(compared.warnings, std::move(text));
        }
    }
    std::ranges::move(idle_time_warnings(tasks), std::back_inserter(compared.warnings));
    compared.why_none = tasks.timeline.slices.empty() ? "holds no task of a pipeline" : tasks.steps.why_none;
    if (!compared.why_none.empty()) {
        caution(compared.warnings, fmt::format("no step is compared, since this file {}", compared.why_none));
        return compared;
    }
    if (is_simulated) {
        caution(compared.warnings, "this is a simulation, not a recording: one step without noise");
    }
    const RunFigures& figures = compared.figures.emplace(figures_of(tasks.run, tasks.measured()));
    if (compared.why_no_step_times().empty()) {
        if (figures.step_times.size() > 1) {
            compared.step_deviation = Nanoseconds{std::llround(standard_deviation(numbers_of(figures.step_times)))};
        }
        if (const std::optional<std::int64_t> batch = known_batch(tasks.run); batch && figures.step_mean.count() > 0) {
            compared.samples_per_second =
                static_cast<double>(*batch) * 1e9 / static_cast<double>(figures.step_mean.count());
        }
    }
    return compared;
}

StepChanges step_changes(const ComparedRun& before, const ComparedRun& after) {
    StepChanges changes;
    if (!before.figures || !after.figures) {
        return changes;
    }
    if (before.why_no_step_times().empty() && after.why_no_step_times().empty()) {
        changes.step = mean_difference(numbers_of(before.figures->step_times), numbers_of(after.figures->step_times));
    }
    if (!before.lossy() && !after.lossy()) {
        changes.bubble = mean_difference(before.figures->bubbles, after.figures->bubbles);
    }
    return changes;
}

TwoRuns compare_two_runs(const std::filesystem::path& before, const std::filesystem::path& after) {
    const ReadRun then = read_run(before);
    const ReadRun now = read_run(after);
    TwoRuns runs;
    runs.differences = differences_of(then, now);
    runs.before = then.compared;
    runs.after = now.compared;
    runs.losses = compare_losses(runs.before.run, runs.after.run);
    if (runs.before.figures && runs.after.figures) {
        runs.changes = step_changes(runs.before, runs.after);
        if (std::string text = update_warning(runs.before.run, runs.after.run); !text.empty()) {
            caution(runs.warnings, std::move(text));
        }
        compare_tasks_of(then, now, runs);
    } else {
        compare_names(before, after, runs);
    }
    runs.kernels = compare_kernels(then.kernels, now.kernels);
    warn_of_load(runs);
    return runs;
}
}  // namespace pipescope
