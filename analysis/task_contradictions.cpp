#include "analysis/task_contradictions.h"

#include "base/quantities.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
constexpr std::int64_t kNotable = 100;  // a hundredth of a step

std::string time_text(Nanoseconds time) {
    return fmt::format("{:.4g} ms", static_cast<double>(time.count()) / 1e6);
}

/// A task that runs too early, or at the same time as another one.
struct Contradiction {
    TaskKey task;
    TaskKey other;         ///< the task that it needs, or that runs at the same time
    Nanoseconds time{0};   ///< how much too early, or how long the overlap is
    bool notable = false;  ///< more than a hundredth of its step
};

/// The largest contradiction and their number.
struct Contradictions {
    std::optional<Contradiction> largest;
    std::int64_t count = 0;

    void add(const Contradiction& found) {
        ++count;
        if (!largest || found.time > largest->time) {
            largest = found;
        }
    }
};

using CellOfKind = std::tuple<TaskKind, std::int32_t, std::int32_t>;  // kind, partition, micro-batch

/// A step's forwards and backwards by cell, and its compute tasks by lane in order of start.
struct StepTasks {
    std::map<CellOfKind, const Slice*> cells;
    std::map<LaneId, std::vector<const Slice*>> lanes;
    Nanoseconds start = Nanoseconds::max();
    Nanoseconds end = Nanoseconds::min();

    void add(const Slice& slice) {
        start = std::min(start, slice.start);
        end = std::max(end, slice.end);
        lanes[slice.lane].push_back(&slice);
        if (slice.key.kind == TaskKind::forward || slice.key.kind == TaskKind::backward) {
            cells.emplace(CellOfKind{slice.key.kind, slice.key.partition, slice.key.micro_batch}, &slice);
        }
    }
    bool is_notable(Nanoseconds time) const { return time * kNotable > end - start; }
};

std::map<std::int32_t, StepTasks> tasks_by_step(const Timeline& measured, std::span<const std::int32_t> steps) {
    std::map<std::int32_t, StepTasks> found;
    for (const std::int32_t step : steps) {
        found.try_emplace(step);
    }
    for (const Slice& slice : measured.slices) {
        const auto step = is_compute(slice.key.kind) ? found.find(slice.key.step) : found.end();
        if (step != found.end()) {
            step->second.add(slice);
        }
    }
    return found;
}

/// True if a single PipeScope process recorded all lanes.
bool has_one_clock(const RecordedRun& run) {
    return !run.of_another_program && run.processes.size() <= 1;
}

/// `bound`: how far the clocks may differ. With one clock, only notable times count.
void find_early_tasks(const RecordedRun& run, const StepTasks& step, Nanoseconds bound, Contradictions& early) {
    for (const auto& [cell, slice] : step.cells) {
        const auto& [kind, partition, micro_batch] = cell;
        const auto needed = step.cells.find({kind, partition + (kind == TaskKind::forward ? -1 : 1), micro_batch});
        if (needed == step.cells.end() || needed->second->lane == slice->lane) {
            continue;
        }
        const Nanoseconds at = run.of_another_program ? slice->end : slice->start;
        if (const Nanoseconds time = needed->second->end - at;
            time > bound && (step.is_notable(time) || !has_one_clock(run))) {
            early.add({slice->key, needed->second->key, time, step.is_notable(time)});
        }
    }
}

void find_overlaps(const StepTasks& step, Contradictions& overlaps) {
    for (const auto& [lane, slices] : step.lanes) {
        const Slice* last = nullptr;  // the one that ends last, of those that started
        for (const Slice* slice : slices) {
            const Nanoseconds time = last == nullptr ? Nanoseconds{0} : std::min(last->end, slice->end) - slice->start;
            if (time.count() > 0 && step.is_notable(time)) {
                overlaps.add({slice->key, last->key, time, true});
            }
            last = last == nullptr || slice->end > last->end ? slice : last;
        }
    }
}

std::string rest_of(const Contradictions& found) {
    return found.count > 1 ? fmt::format(" ({} in all)", counted(found.count, "such pair", "such pairs")) : "";
}

TraceWarning warning_of_clocks(const RecordedRun& run, const Contradictions& early,
                               const std::optional<Nanoseconds>& bound) {
    const Contradiction& largest = *early.largest;
    const std::string known = has_one_clock(run) ? "all lanes have the same clock"
                              : bound && bound->count() > 0
                                  ? fmt::format("the clocks differ by at most {}", time_text(*bound))
                                  : "how far the clocks of its lanes differ is not known";
    const std::string consequence =
        largest.notable ? "waits across lanes, their causes and bubble fractions are not known and not shown, and step "
                          "times contain the difference"
                        : "waits across lanes are wrong by that much";
    const std::string remedy =
        run.of_another_program ? "record sends and receives too, by which clocks are aligned, or synchronize the "
                                 "clocks of the machines; if the ranges only launch work of a GPU, record its kernels"
        : has_one_clock(run)   ? "the file was changed since it was recorded; take the recorded one, or record again"
                               : "synchronize the clocks of the machines and record again";
    std::string text =
        fmt::format("{} {} {} before {} ends, which it needs{}; {}, so the lanes' times do not fit together: {}; {}",
                    to_string(largest.task), run.of_another_program ? "ends" : "starts", time_text(largest.time),
                    to_string(largest.other), rest_of(early), known, consequence, remedy);
    if (!largest.notable) {
        return {Severity::caution, std::move(text)};
    }
    TraceWarning warning = refusal("times of different lanes do not fit together", std::move(text));
    warning.of_clocks = true;
    return warning;
}
}  // namespace

std::vector<TraceWarning> contradiction_warnings(const RecordedRun& run, const Timeline& measured,
                                                 std::span<const std::int32_t> steps) {
    if (measured.source != Source::measured || refuse_bubbles(run.warnings)) {
        return {};
    }
    const std::optional<Nanoseconds> bound = clock_bound(run.processes);
    Contradictions early;
    Contradictions overlaps;
    for (const auto& [number, step] : tasks_by_step(measured, steps)) {
        find_early_tasks(run, step, bound.value_or(Nanoseconds{0}), early);
        find_overlaps(step, overlaps);
    }
    std::vector<TraceWarning> warnings;
    if (early.largest) {
        warnings.push_back(warning_of_clocks(run, early, bound));
    }
    const auto is_long_against = [&](const auto& step) {
        return !step.second.lanes.empty() && step.second.is_notable(run.early_messages);
    };
    const auto by_number = tasks_by_step(measured, steps);
    if (!refuse_bubbles(warnings) && std::ranges::any_of(by_number, is_long_against)) {
        warnings.push_back(refusal(
            "times of different lanes do not fit together",
            fmt::format("messages arrive up to {} before they were sent, which is more than 1 % of a step: waits "
                        "across lanes, their causes and bubble fractions are not known and not shown, and step times "
                        "contain the difference; synchronize the clocks of the machines, or give files of one run",
                        time_text(run.early_messages))));
        warnings.back().of_clocks = true;
    } else if (run.early_messages.count() > 0 && !early.largest) {
        warnings.push_back(
            {Severity::caution, fmt::format("messages arrive up to {} before they were sent, so the shares of messages "
                                            "among the causes, and their time in the simulation, are uncertain",
                                            time_text(run.early_messages))});
    }
    if (overlaps.largest) {
        warnings.push_back(
            {Severity::caution,
             fmt::format("{} and {} of one lane run at the same time, for {}{}: busy time counts that time once, and a "
                         "simulation runs a lane's tasks one after the other, so it is longer; give each lane one task "
                         "at a time, or correct the task rules",
                         to_string(overlaps.largest->other), to_string(overlaps.largest->task),
                         time_text(overlaps.largest->time), rest_of(overlaps))});
    }
    return warnings;
}

std::vector<TraceWarning> idle_time_warnings(const RunTasks& tasks) {
    std::vector<TraceWarning> warnings = idle_lane_warnings(tasks.run, tasks.check);
    for (TraceWarning& warning : contradiction_warnings(tasks.run, tasks.timeline, tasks.steps.numbers())) {
        warnings.push_back(std::move(warning));
    }
    if (tasks.steps.cut_off && !tasks.steps.steps.empty()) {
        warnings.push_back(only_step_cut_off());
    }
    return warnings;
}
}  // namespace pipescope
