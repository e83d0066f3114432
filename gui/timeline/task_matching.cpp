#include "gui/timeline/task_matching.h"

#include <QCoreApplication>

#include <algorithm>

namespace pipescope {
namespace {
UnmatchedReason whyNotSimulated(TaskKind kind) {
    if (kind == TaskKind::optimizer || kind == TaskKind::all_reduce) {
        return UnmatchedReason::outside_the_step;
    }
    return is_copy(kind) ? UnmatchedReason::copy_not_simulated : UnmatchedReason::not_in_the_schedule;
}
}  // namespace

QString describe(UnmatchedReason reason) {
    const auto text = [](const char* source) { return QCoreApplication::translate("TaskMatching", source); };
    switch (reason) {
        case UnmatchedReason::repeated:
            return text(QT_TRANSLATE_NOOP("TaskMatching", "it ran twice in this step; the first run is compared"));
        case UnmatchedReason::outside_the_step:
            return text(QT_TRANSLATE_NOOP("TaskMatching",
                                          "it is outside the simulated step, which ends with the last "
                                          "backward"));
        case UnmatchedReason::copy_not_simulated:
            return text(QT_TRANSLATE_NOOP("TaskMatching",
                                          "a copy that is not simulated: there its lanes share a device, or no link "
                                          "is given"));
        case UnmatchedReason::not_in_the_schedule:
            return text(QT_TRANSLATE_NOOP("TaskMatching",
                                          "the simulated schedule has no such task: it has another balance, another "
                                          "number of micro-batches or another checkpoint mode"));
        case UnmatchedReason::not_recorded:
            return text(QT_TRANSLATE_NOOP("TaskMatching", "it was not recorded in this step"));
        case UnmatchedReason::lost:
            return text(QT_TRANSLATE_NOOP("TaskMatching", "it was not recorded: ranges were lost"));
    }
    return {};
}

TaskMatching matchTasks(const StepGraph& measured, const StepGraph& simulated, bool lossy) {
    TaskMatching matching;
    std::vector<bool> taken(simulated.tasks().size(), false);
    for (StepTaskIndex i = 0; i < measured.tasks().size(); ++i) {
        const StepTask& task = measured.task(i);
        const StepTaskIndex twin = simulated.find(task.key);
        if (measured.find(task.key) != i) {
            matching.unmatched.push_back({Source::measured, task.slice, task.key, UnmatchedReason::repeated});
        } else if (twin == kNoTask) {
            matching.unmatched.push_back({Source::measured, task.slice, task.key, whyNotSimulated(task.key.kind)});
        } else {
            const StepTask& other = simulated.task(twin);
            taken[twin] = true;
            const std::int64_t start = (task.start - measured.range().start) - (other.start - simulated.range().start);
            const std::int64_t change = task.duration() - other.duration();
            matching.pairs.push_back({task.slice, other.slice, task.key, start, start + change, change});
        }
    }
    const UnmatchedReason missing = lossy ? UnmatchedReason::lost : UnmatchedReason::not_recorded;
    for (StepTaskIndex i = 0; i < simulated.tasks().size(); ++i) {
        const StepTask& task = simulated.task(i);
        if (!taken[i]) {
            const bool repeated = simulated.find(task.key) != i;
            matching.unmatched.push_back(
                {Source::simulated, task.slice, task.key, repeated ? UnmatchedReason::repeated : missing});
        }
    }
    return matching;
}
}  // namespace pipescope
