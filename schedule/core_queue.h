#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace pipescope {
/// A lane change costs about 15 us, which is negligible against this.
inline constexpr std::chrono::microseconds kCoreSlice{500};

/// Assigns cores to lanes if lanes outnumber cores. Engine and simulator follow the same rule.
///
/// A lane with a ready task keeps its core for kCoreSlice before it asks again, so short tasks do not cause a lane
/// change each. A free core goes to the longest-waiting lane among those that used it last, because its cache may still
/// hold their weights. Otherwise it goes to the lane that has waited longest. No core is idle while a lane waits, and
/// lanes rarely move. Under plain first come, first served, each move made a task about 15 % longer.
/// Threading: one thread at a time. Cost: O(lanes) per call, no allocation after construction.
class CoreQueue {
public:
    struct Grant {
        std::size_t lane;
        std::size_t core;
        bool moves;  ///< the lane ran on another core before, or on none
    };

    /// Lanes and cores are counted from 0. Precondition: num_cores >= 1.
    CoreQueue(std::size_t num_lanes, std::size_t num_cores);

    /// Precondition: the lane is not waiting and holds no core.
    void ask(std::size_t lane);
    bool asks(std::size_t lane) const;
    bool holds_core(std::size_t lane) const { return held_[lane] != kNone; }
    /// True if the lane has not used up its slice of the core it holds. `now`: ns on any fixed clock.
    bool may_keep(std::size_t lane, double now) const;
    /// Frees the lane's core, if it holds one.
    void give_back(std::size_t lane);
    /// Grants a core to the next lane. Empty if no core is free or no lane waits.
    std::optional<Grant> grant(double now);
    /// Restores the state after construction.
    void reset();

private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    bool is_free(std::size_t core) const;

    std::size_t num_cores_;
    std::vector<std::size_t> asking_;  ///< waiting lanes, longest first
    std::vector<std::size_t> free_;    ///< free cores, most recently freed last
    std::vector<std::size_t> held_;    ///< core held, by lane; kNone if none
    std::vector<std::size_t> last_;    ///< core used last, by lane; kNone if none
    std::vector<double> granted_;      ///< time of the last grant, by lane
};
}  // namespace pipescope
