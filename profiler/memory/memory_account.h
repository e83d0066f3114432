#pragma once

#include "schedule/memory_category.h"
#include "schedule/timeline.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace pipescope {
/// The steady clock, in ns since its own epoch.
Nanoseconds steady_now();

/// Bytes of one owner, by category.
///
/// Problem: the category of a block is known only after its task: some of a forward's allocations are freed, the rest
/// is what autograd saved. A walk over a task's blocks at its end would cost as much as the task.
///
/// Idea: a block records its task and its `later` category. While the task runs, it counts as transient. At the end of
/// the task, a single addition moves all remaining transient bytes to the later category. The number of its task tells
/// where a freed block is counted. Cost: two atomic additions per allocation.
///
/// Threading: any thread may call any function, without a lock; only a new peak takes one, for its snapshot. Blocks
/// freed at the instant a task ends may be subtracted from the wrong one of two categories until the next task's end.
/// All atomics are relaxed: each is correct by itself, and none publishes other data.
class alignas(64) MemoryAccount {  // a separate cache line, since lanes count concurrently
public:
    /// A block's place in the account, stored in the block.
    struct Place {
        MemoryCategory later = MemoryCategory::saved;
        std::uint32_t task = 0;  ///< 0: counted under `later` from the start
    };

    /// The running task; never 0.
    std::uint32_t task() const { return task_.load(std::memory_order_relaxed); }
    void add(Bytes bytes, Place place);
    void subtract(Bytes bytes, Place place);
    /// Moves bytes to a category that is now known.
    void recount(Bytes bytes, Place from, Place to);
    /// Ends the task: its remaining bytes count as `later` from now on.
    void end_task(MemoryCategory later);

    Bytes allocated() const { return allocated_.load(std::memory_order_relaxed); }
    Bytes peak() const { return peak_.load(std::memory_order_relaxed); }
    void reset_peak() { restart(peak_); }
    /// Highest value since the last call. Independent of peak(). No allocation is lost between two windows, even with
    /// concurrent threads.
    Bytes take_window() { return restart(window_peak_); }

    /// The current composition; no category is unknown or negative.
    MemoryBreakdown composition() const;

    struct Peak {
        Bytes bytes = 0;
        Nanoseconds time{0};  ///< on the host's steady clock; 0: nothing was allocated in the window
        MemoryBreakdown composition;
    };
    /// The highest value since the last call, with its time and composition, which sums to it. Independent of peak()
    /// and take_window(): neither ends the other's window.
    Peak take_peak();

private:
    using Count = std::atomic<Bytes>;

    Count& counted(Place place);
    void picture(Bytes peak);
    Bytes restart(Count& which);

    Count allocated_{0};
    Count peak_{0};
    Count window_peak_{0};
    Count pictured_peak_{0};
    std::array<Count, kNumMemoryCategories> categories_{};
    std::atomic<std::uint32_t> task_{1};
    std::atomic_flag picturing_;
    Nanoseconds picture_time_{0};  // these two are guarded by picturing_
    MemoryBreakdown picture_;
};
}  // namespace pipescope
