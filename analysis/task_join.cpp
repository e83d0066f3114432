#include "analysis/task_join.h"

#include <tuple>
#include <unordered_map>

namespace pipescope {
namespace {
std::uint64_t packed(TaskKey key) {
    key.step = 0;
    return pack(key);
}

/// Indices by key. A repeated task has the index of its first run.
std::unordered_map<std::uint64_t, std::size_t> positions_of(std::span<const TaskKey> tasks) {
    std::unordered_map<std::uint64_t, std::size_t> positions;
    positions.reserve(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        positions.emplace(packed(tasks[i]), i);
    }
    return positions;
}

bool is_outside_the_step(TaskKind kind) {
    return kind == TaskKind::optimizer || kind == TaskKind::all_reduce;
}

UnmatchedReason why_not_simulated(TaskKind kind) {
    return is_outside_the_step(kind) ? UnmatchedReason::outside_the_step
           : is_copy(kind)           ? UnmatchedReason::copy_not_simulated
                                     : UnmatchedReason::not_in_the_schedule;
}

/// The tasks for which StepGraph::is_own() is true.
std::vector<StepTaskIndex> own_tasks(const StepGraph& tasks) {
    std::vector<StepTaskIndex> own;
    for (StepTaskIndex i = 0; i < tasks.tasks().size(); ++i) {
        if (tasks.is_own(tasks.task(i))) {
            own.push_back(i);
        }
    }
    return own;
}

std::vector<TaskKey> keys_of(const StepGraph& tasks, const std::vector<StepTaskIndex>& own) {
    std::vector<TaskKey> keys;
    keys.reserve(own.size());
    for (const StepTaskIndex index : own) {
        keys.push_back(tasks.task(index).key);
    }
    return keys;
}
}  // namespace

std::string_view describe(UnmatchedReason reason, Opposite opposite) {
    if (opposite == Opposite::run_before) {
        switch (reason) {
            case UnmatchedReason::outside_the_step: return "only one run recorded it; it is outside the step";
            case UnmatchedReason::copy_not_simulated: return "a copy that the earlier run did not record";
            case UnmatchedReason::not_in_the_schedule:
                return "the earlier run has no such task: it had another checkpoint mode or schedule";
            case UnmatchedReason::not_recorded: return "the later run has no such task in this step";
            case UnmatchedReason::repeated:
            case UnmatchedReason::lost: break;
        }
    }
    switch (reason) {
        case UnmatchedReason::repeated: return "it ran in this step before; the first one is compared";
        case UnmatchedReason::outside_the_step:
            return "it is outside the simulated step, which ends with the last backward";
        case UnmatchedReason::copy_not_simulated:
            return "a copy that is not simulated: there its lanes share a device, or no link is given";
        case UnmatchedReason::not_in_the_schedule:
            return "the simulated schedule has no such task: it has another balance, another number of micro-batches "
                   "or another checkpoint mode";
        case UnmatchedReason::not_recorded: return "it was not recorded in this step";
        case UnmatchedReason::lost: return "it was not recorded: ranges were lost";
    }
    return {};
}

TaskJoin join_tasks(std::span<const TaskKey> measured, std::span<const TaskKey> simulated, bool lossy) {
    const auto measured_at = positions_of(measured);
    const auto simulated_at = positions_of(simulated);
    TaskJoin join;
    for (std::size_t i = 0; i < measured.size(); ++i) {
        const auto twin = simulated_at.find(packed(measured[i]));
        if (measured_at.at(packed(measured[i])) != i) {
            join.measured.push_back({i, UnmatchedReason::repeated});
        } else if (twin == simulated_at.end()) {
            join.measured.push_back({i, why_not_simulated(measured[i].kind)});
        } else {
            join.pairs.push_back({i, twin->second});
        }
    }
    const UnmatchedReason missing = lossy ? UnmatchedReason::lost : UnmatchedReason::not_recorded;
    for (std::size_t i = 0; i < simulated.size(); ++i) {
        if (simulated_at.at(packed(simulated[i])) != i) {
            join.simulated.push_back({i, UnmatchedReason::repeated});
        } else if (!measured_at.contains(packed(simulated[i]))) {
            join.simulated.push_back(
                {i, is_outside_the_step(simulated[i].kind) ? UnmatchedReason::outside_the_step : missing});
        }
    }
    return join;
}

TaskMatching match_tasks(const StepGraph& measured, const StepGraph& simulated, bool lossy, Opposite opposite,
                         RecordedKinds recorded) {
    for (const StepTask& task : measured.tasks()) {
        recorded.add(task.key.kind);
    }
    const std::vector<StepTaskIndex> own = own_tasks(measured);
    const std::vector<StepTaskIndex> other_own = own_tasks(simulated);
    const TaskJoin join = join_tasks(keys_of(measured, own), keys_of(simulated, other_own), lossy);
    TaskMatching matching;
    for (const TaskJoin::Pair& pair : join.pairs) {
        const StepTask& task = measured.task(own[pair.measured]);
        const StepTask& other = simulated.task(other_own[pair.simulated]);
        const std::int64_t start = (task.start - measured.range().start) - (other.start - simulated.range().start);
        const std::int64_t change = task.duration() - other.duration();
        matching.pairs.push_back({task.slice, other.slice, task.key, start, start + change});
    }
    for (const auto& [source, tasks, indices, singles] :
         {std::tuple(Source::measured, &measured, &own, &join.measured),
          {Source::simulated, &simulated, &other_own, &join.simulated}}) {
        for (const TaskJoin::Single& single : *singles) {
            const StepTask& task = tasks->task((*indices)[single.task]);
            if (source == Source::measured || opposite == Opposite::run_before ||
                !recorded.lacks(task.key.kind, task.duration())) {
                matching.unmatched.push_back({source, task.slice, task.key, single.reason});
            }
        }
    }
    return matching;
}
}  // namespace pipescope
