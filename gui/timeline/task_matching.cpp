#include "gui/timeline/task_matching.h"

#include "gui/timeline/step_tasks.h"

#include <QCoreApplication>

#include <algorithm>

namespace pipescope {
namespace {
bool outsideStep(TaskKind kind) {
    return kind == TaskKind::optimizer || kind == TaskKind::all_reduce;
}
}  // namespace

QString describe(UnmatchedReason reason) {
    const auto text = [](const char* source) { return QCoreApplication::translate("TaskMatching", source); };
    switch (reason) {
        case UnmatchedReason::repeated:
            return text(QT_TRANSLATE_NOOP("TaskMatching", "it ran in this step before; the first one is compared"));
        case UnmatchedReason::outside_the_step:
            return text(QT_TRANSLATE_NOOP("TaskMatching",
                                          "it is outside the simulated step, which ends with the last "
                                          "backward"));
        case UnmatchedReason::not_in_the_schedule:
            return text(QT_TRANSLATE_NOOP("TaskMatching", "the simulated schedule has no such task"));
        case UnmatchedReason::not_recorded:
            return text(QT_TRANSLATE_NOOP("TaskMatching", "it was not recorded in this step"));
    }
    return {};
}

TaskMatching matchTasks(const TimelineStore& measured, std::int32_t step, const TimelineStore& simulated) {
    TaskMatching matching;
    if (simulated.steps().empty()) {
        return matching;
    }
    const StepTasks ours(measured, step);
    const StepTasks theirs(simulated, simulated.steps().front().step);
    std::vector<bool> taken(theirs.tasks().size(), false);
    for (StepTaskIndex i = 0; i < ours.tasks().size(); ++i) {
        const StepTask& task = ours.task(i);
        const StepTaskIndex twin = theirs.find(task.key);
        if (ours.find(task.key) != i) {
            matching.unmatched.push_back({Source::measured, task.slice, task.key, UnmatchedReason::repeated});
        } else if (twin == kNoTask) {
            const UnmatchedReason reason =
                outsideStep(task.key.kind) ? UnmatchedReason::outside_the_step : UnmatchedReason::not_in_the_schedule;
            matching.unmatched.push_back({Source::measured, task.slice, task.key, reason});
        } else {
            const StepTask& other = theirs.task(twin);
            taken[twin] = true;
            const std::int64_t start = (task.start - ours.range().start) - (other.start - theirs.range().start);
            const std::int64_t change = task.duration() - other.duration();
            matching.pairs.push_back({task.slice, other.slice, task.key, start, start + change, change});
        }
    }
    for (StepTaskIndex i = 0; i < theirs.tasks().size(); ++i) {
        const StepTask& task = theirs.task(i);
        if (!taken[i]) {
            const bool repeated = theirs.find(task.key) != i;
            matching.unmatched.push_back({Source::simulated, task.slice, task.key,
                                          repeated ? UnmatchedReason::repeated : UnmatchedReason::not_recorded});
        }
    }
    return matching;
}
}  // namespace pipescope
