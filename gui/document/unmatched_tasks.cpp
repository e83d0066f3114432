#include "gui/document/unmatched_tasks.h"

#include "gui/timeline/step_spans.h"

#include <map>

namespace pipescope {
namespace {
constexpr std::size_t kMostExamples = 5;
}

std::vector<UnmatchedTasks> unmatchedTasks(const TraceDocument& document) {
    if (!document.measured || !document.simulated || document.simulated->steps().empty()) {
        return {};
    }
    std::map<UnmatchedReason, UnmatchedTasks> byReason;
    const StepGraph simulated = stepGraphOf(*document.simulated, document.simulated->steps().front().step);
    for (const StepSpan& step : document.measured->steps()) {
        const StepGraph measured = stepGraphOf(*document.measured, step.step);
        for (const UnmatchedTask& task : match_tasks(measured, simulated, document.run.lost.any()).unmatched) {
            UnmatchedTasks& tasks = byReason[task.reason];
            ++tasks.count;
            if (tasks.examples.size() < kMostExamples) {
                TaskKey key = task.key;
                key.step = step.step;  // for a simulated task: the step that lacks it
                tasks.examples.push_back(key);
            }
        }
    }
    std::vector<UnmatchedTasks> list;
    for (auto& [reason, tasks] : byReason) {
        tasks.reason = QString::fromUtf8(describe(reason).data());
        list.push_back(std::move(tasks));
    }
    return list;
}
}  // namespace pipescope
