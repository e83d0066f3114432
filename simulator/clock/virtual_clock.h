#pragma once

#include "simulator/clock/event_engine.h"
#include "simulator/clock/host_launches.h"
#include "simulator/clock/task_clock.h"

#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// Runs one step on the virtual clock: by the recurrence if tasks never slow each other down, otherwise by the event
/// engine. Threading: one thread at a time.
class VirtualClock {
public:
    /// Without shared resources it uses the recurrence. The graph is not needed afterwards. Throws UsageError if
    /// messages take turns while resources are shared.
    VirtualClock(const TaskGraph& graph, std::optional<SharedResources> shared,
                 std::optional<HostLaunches> hosts = std::nullopt, const MessageTurns& turns = {});

    std::size_t num_tasks() const { return clock_.num_tasks(); }
    bool shares() const { return engine_.has_value(); }
    /// Fills in each task's start and end, in ns from 0; all spans are num_tasks() long.
    void run(std::span<const double> durations, std::span<double> starts, std::span<double> ends);

private:
    TaskClock clock_;
    std::optional<EventEngine> engine_;
    std::optional<HostLaunches> hosts_;
    std::vector<double> released_;  ///< by task; empty without hosts
};
}  // namespace pipescope
