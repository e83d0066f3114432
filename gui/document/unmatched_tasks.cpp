#include "gui/document/unmatched_tasks.h"

#include "gui/style/task_style.h"

#include <QCoreApplication>

#include <map>
#include <unordered_set>

namespace pipescope {
namespace {
constexpr std::size_t kMostExamples = 5;
constexpr std::uint64_t kWithoutStep = (std::uint64_t{1} << 40) - 1;
constexpr std::uint64_t kStepBits = 40;

QString tr(const char* text) {
    return QCoreApplication::translate("UnmatchedTasks", text);
}

class Reasons {
public:
    void add(const QString& reason, const TaskKey& task) {
        UnmatchedTasks& tasks = byReason_[reason];
        tasks.reason = reason;
        ++tasks.count;
        if (tasks.examples.size() < kMostExamples) {
            tasks.examples.push_back(task);
        }
    }
    std::vector<UnmatchedTasks> all() && {
        std::vector<UnmatchedTasks> list;
        for (auto& [reason, tasks] : byReason_) {
            list.push_back(std::move(tasks));
        }
        return list;
    }

private:
    std::map<QString, UnmatchedTasks> byReason_;
};

QString whyNotSimulated(TaskKind kind, const TraceDocument& document) {
    if (kind == TaskKind::optimizer) {
        return tr("the optimizer lies outside the simulated step");
    }
    if (is_copy(kind) && document.simulation && document.simulation->options.link == Link{}) {
        return tr("a copy, but the simulation has no link: lanes of one device, or none given");
    }
    if (is_copy(kind)) {
        return tr("a copy that the simulated schedule does not make: its lanes share a device there");
    }
    return tr(
        "the simulated schedule has no such task: it has another balance, another number of micro-batches or "
        "another checkpoint mode");
}

/// Packed keys without their step, and how often each ran.
std::unordered_set<std::uint64_t> tasksOf(const TimelineStore& store) {
    std::unordered_set<std::uint64_t> tasks;
    for (const StoredRow& row : store.rows()) {
        for (const std::uint64_t key : row.key) {
            tasks.insert(key & kWithoutStep);
        }
    }
    return tasks;
}
}  // namespace

std::vector<UnmatchedTasks> unmatchedTasks(const TraceDocument& document) {
    if (!document.measured || !document.simulated) {
        return {};
    }
    Reasons reasons;
    const std::unordered_set<std::uint64_t> simulated = tasksOf(*document.simulated);
    std::unordered_set<std::uint64_t> seen;
    for (const StoredRow& row : document.measured->rows()) {
        for (const std::uint64_t key : row.key) {
            const TaskKey task = unpack(key).value_or(TaskKey{});
            if (!simulated.contains(key & kWithoutStep)) {
                reasons.add(whyNotSimulated(task.kind, document), task);
            } else if (!seen.insert(key).second) {
                reasons.add(tr("it ran a second time in its step"), task);
            }
        }
    }
    for (const StepSpan& step : document.measured->steps()) {
        const std::uint64_t bits = pack({step.step, TaskKind::forward, 0, 0, 0}) >> kStepBits << kStepBits;
        for (const std::uint64_t task : simulated) {
            if (!seen.contains(bits | task)) {
                TaskKey key = unpack(bits | task).value_or(TaskKey{});
                reasons.add(document.droppedRanges > 0 ? tr("simulated, but not recorded: ranges were lost")
                                                       : tr("simulated, but not recorded in that step"),
                            key);
            }
        }
    }
    return std::move(reasons).all();
}
}  // namespace pipescope
