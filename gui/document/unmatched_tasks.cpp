#include "gui/document/unmatched_tasks.h"

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
    const StepGraph simulated(*document.simulated, document.simulated->steps().front().step);
    for (const StepSpan& step : document.measured->steps()) {
        const StepGraph measured(*document.measured, step.step);
        for (const UnmatchedTask& task : matchTasks(measured, simulated, document.run.lost.any()).unmatched) {
            UnmatchedTasks& tasks = byReason[task.reason];
            ++tasks.count;
            if (tasks.examples.size() < kMostExamples) {
                TaskKey key = task.key;
                key.step = step.step;  // of a simulated one: the step that lacks it
                tasks.examples.push_back(key);
            }
        }
    }
    std::vector<UnmatchedTasks> list;
    for (auto& [reason, tasks] : byReason) {
        tasks.reason = describe(reason);
        list.push_back(std::move(tasks));
    }
    return list;
}
}  // namespace pipescope
