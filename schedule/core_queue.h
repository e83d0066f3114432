#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

namespace pipescope {
/// Longer than it takes to change lanes, some 15 us, by so much that it does not count.
inline constexpr std::chrono::microseconds kCoreSlice{500};

/// Which lane gets which core where there are more lanes than cores: the rule of the engine and of the simulator.
///
/// A lane whose next task is there keeps its core for kCoreSlice before it asks again, so that lanes do not change with
/// every task where tasks are short. A core that is free goes to the lane that asked first of those that had it last,
/// whose weights its cache may hold; else to the lane that asked first of all. So no core is idle while a lane asks,
/// and lanes seldom move: every move made a task some 15 % longer where the rule was first come first served alone.
/// Threading: one thread at a time. Cost: O(lanes) a call; no allocation behind the constructor.
class CoreQueue {
public:
    struct Grant {
        std::size_t lane;
        std::size_t core;
        bool moves;  ///< the lane had another core last, or none
    };

    /// Lanes and cores are counted from 0. Precondition: there is a core.
    CoreQueue(std::size_t num_lanes, std::size_t num_cores);

    /// Precondition: the lane does not ask already, and holds no core.
    void ask(std::size_t lane);
    bool asks(std::size_t lane) const;
    bool holds_core(std::size_t lane) const { return held_[lane] != kNone; }
    /// Whether a lane that has work holds a core that it need not give back yet. `now`: ns from any one moment.
    bool may_keep(std::size_t lane, double now) const;
    /// The lane's core is free, if it holds one.
    void give_back(std::size_t lane);
    /// The next lane to get a core, which it holds from then on; nothing where no core is free or no lane asks.
    std::optional<Grant> grant(double now);
    /// As new.
    void reset();

private:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    bool is_free(std::size_t core) const;

    std::size_t num_cores_;
    std::vector<std::size_t> asking_;  ///< lanes, the first in front
    std::vector<std::size_t> free_;    ///< cores, the one freed last at the back
    std::vector<std::size_t> held_;    ///< core, by lane; kNone
    std::vector<std::size_t> last_;    ///< likewise
    std::vector<double> granted_;      ///< when, by lane; of held_
};
}  // namespace pipescope
