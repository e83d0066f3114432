#pragma once

#include "schedule/memory_category.h"
#include "schedule/timeline.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace pipescope {
/// What one owner holds, by what holds it.
///
/// Problem: what a block is for is known only when its task has ended: of what a forward allocates, some is let go
/// again, the rest is what autograd saved. Walking a task's blocks then would cost as much as the task. Idea: a block
/// remembers in which task it was taken and what it is `later`. While that task runs it counts as transient; at the
/// task's end all that is left of the transients moves to its later category in one addition, and a block that is let
/// go tells from its task's number where it is counted by now. Cost: two atomic additions an allocation.
///
/// Threading: any thread may call anything, without a lock; only a new peak takes one, for its picture. Blocks freed at
/// the instant a task ends may be counted out of the wrong one of two categories until the next task's end.
/// Every number is relaxed: each is right by itself, and no other data is published through them.
class alignas(64) MemoryAccount {  // a cache line of its own, since lanes count at the same time
public:
    /// A block's place in the account; the account's own words, for the block to carry.
    struct Place {
        MemoryCategory later = MemoryCategory::saved;
        std::uint32_t task = 0;  ///< 0: counted under `later` from the start
    };

    /// The task that runs now; never 0.
    std::uint32_t task() const { return task_.load(std::memory_order_relaxed); }
    void add(Bytes bytes, Place place);
    void subtract(Bytes bytes, Place place);
    /// What bytes counted at one place hold is known better now.
    void recount(Bytes bytes, Place from, Place to);
    /// What the task left counts as `later` from now on.
    void end_task(MemoryCategory later);

    Bytes allocated() const { return allocated_.load(std::memory_order_relaxed); }
    Bytes peak() const { return peak_.load(std::memory_order_relaxed); }
    void reset_peak() { restart(peak_); }
    Bytes take_window() { return restart(window_peak_); }

    /// What the bytes consist of now; no category is unknown or negative.
    MemoryBreakdown composition() const;

    struct Peak {
        Bytes bytes = 0;
        Nanoseconds time{0};  ///< of the host's steady clock; 0: nothing was allocated in the window
        MemoryBreakdown composition;
    };
    /// The highest since the last call, with its time and what it consisted of (they sum to it). Apart from peak() and
    /// take_window(): calling one of them does not end the other's window.
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
    Nanoseconds picture_time_{0};  // these two under picturing_
    MemoryBreakdown picture_;
};
}  // namespace pipescope
