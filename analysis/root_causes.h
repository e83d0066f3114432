#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/comparison.h"
#include "analysis/recorded_run.h"

#include <array>
#include <memory>
#include <optional>
#include <string_view>

namespace pipescope {
/// Why a whole run idles, where BubbleCause says what each lane waited for.
enum class RootCause {
    ramp,        ///< the schedule: balanced lanes without messages would wait too
    imbalance,   ///< partitions of unequal length
    slow_lane,   ///< one lane takes longer for the same work
    network,     ///< messages take time
    launch,      ///< the host launches work too late
    other,       ///< durations that vary, and what nothing explains
    late_rank,   ///< a collective waits for a rank
    collective,  ///< a collective takes time for its size
};
inline constexpr int kNumRootCauses = 8;
/// The key in JSON: slow_lane.
std::string_view to_string(RootCause cause);
/// For people: "one lane is slower".
std::string_view describe(RootCause cause);

struct RootCauses {
    struct Part {
        Nanoseconds time{0};  ///< over all lanes, mean of the steps
        double share = 0;     ///< of step time x lanes, mean of the steps
    };
    std::array<Part, kNumRootCauses> parts;
    RootCause main = RootCause::ramp;  ///< the largest besides the ramp, or the ramp if none costs 3 % of the step
    std::optional<LaneId> slow_lane;   ///< set if `main` is slow_lane

    const Part& of(RootCause cause) const { return parts[static_cast<std::size_t>(cause)]; }
};

/// Finds root causes by replaying the recorded steps with one cause after the other: first with the mean duration of
/// each kind of task, then with each partition's, with messages, with late launches, and as recorded. Each step's
/// growth in idle time belongs to the cause that was added. A part may be negative, if the cause hides another one.
///
/// Then collectives are added that ran before a task once its device could have started it. Other lanes wait for them
/// too, so what they add to the idle time is divided by their own parts: the wait for another rank, the time beyond the
/// shortest of their kind, which belongs to the network, and the rest, which belongs to their size. Collectives that
/// ran after a lane's last task take their time from the rest. At last, a device's messages wait until others of their
/// stream have moved, which belongs to the network.
///
/// Idle time here is the bubbles, and on devices also the gaps between a task's kernels, which a bubble does not count.
///
/// A lane is slow if all its tasks take at least a twentieth longer than those of the other lanes, with equally many
/// kernels. If the number of kernels is unknown, a longer first or last partition counts as imbalance, since models put
/// more work there.
///
/// Empty if a forward, backward or recompute of a compared step was not recorded, and with staggered updates. Cost:
/// O(tasks) for each step.
std::optional<RootCauses> root_causes(const Measured& measured, const TaskGraph& graph,
                                      const TaskLaunches& launches = {});
/// The graph whose tasks are replayed: the one that the run recorded, or else that of its options. Null without both.
std::shared_ptr<const TaskGraph> replayed_graph(const RecordedRun& run);
/// Takes replayed_graph(). Also empty for a simulation, and if
/// the pipeline is not known.
std::optional<RootCauses> root_causes(const Measured& measured, const RecordedRun& run);
}  // namespace pipescope
