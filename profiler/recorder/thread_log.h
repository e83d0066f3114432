#pragma once

#include "profiler/recorder/range_event.h"
#include "profiler/recorder/ring_memory.h"

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

// Ranges that one thread has emitted and the drain thread has not yet read.
//
// A range is recorded when it ends. The thread keeps its open ranges on its own stack and writes one finished record to
// a ring, so a full ring loses whole ranges, never only one end. Losses are counted where they occur.
//
// Both sides run without locks:
// - ring: single producer, single consumer. `head_` is stored with release after the record, so a consumer that
//   acquires it sees the record; `tail_` is stored with release after the record was read, so a producer that acquires
//   it may overwrite the slot.
// - stack and counts: written by the thread only, read by the drain thread when the recording stops, guarded by a
//   sequence number that is odd during a change. Every store inside a change is a release and every load of a reader an
//   acquire: a reader that sees any value of a change therefore also sees its odd number, and tries again. On x86 these
//   are plain moves, which is why this is cheaper than any lock.

namespace pipescope {
class ThreadLog {
public:
    /// `ring_entries` is rounded up to a power of two.
    ThreadLog(std::uint32_t tid, std::string thread_name, std::size_t ring_entries);

    // For the thread itself.

    /// Opens a range. Returns its level; 0 is the outermost of its domain.
    int push(const RangeEvent& range);
    /// Ends the innermost open range of the domain. Returns its level, or -1 if none is open.
    int pop(std::uint32_t domain, std::int64_t end);
    void add_mark(const RangeEvent& mark);
    /// Records the range returned by `take`. Calls `take` inside the change, so that whoever stops the recording sees
    /// the range either in its old place or here.
    template <class Take>
    void add_ended(Take&& take) {
        const Change change(*this);
        if (const std::optional<RangeEvent> range = take()) {
            record(*range);
        }
    }
    /// Number of a text passed as characters. Cached per thread, because the registry is shared and locked; `intern`
    /// resolves texts that are not cached.
    std::uint32_t text_number(std::string_view text, std::uint32_t (*intern)(std::string_view));
    /// Notes that the thread is gone. Its open ranges stay open.
    void set_ended() { ended_.store(true, std::memory_order_release); }

    // For the drain thread.

    std::uint32_t tid() const { return tid_; }
    const std::string& thread_name() const { return thread_name_; }
    std::size_t ring_entries() const { return mask_ + 1; }
    bool ended() const { return ended_.load(std::memory_order_acquire); }
    std::uint64_t head() const { return head_.load(std::memory_order_acquire); }
    std::uint64_t dropped() const { return dropped_.load(std::memory_order_acquire); }

    /// Passes the records before position `up_to` (a head) to `each`, oldest first.
    template <class Each>
    void drain(std::uint64_t up_to, Each&& each) {
        for (std::uint64_t tail = tail_.load(std::memory_order_relaxed); tail != up_to; ++tail) {
            each(slots_[tail & mask_]);
            tail_.store(tail + 1, std::memory_order_release);
        }
    }

    /// The state between two changes of the thread. Lacks the open ranges if the thread stays inside a change.
    struct Snapshot {
        std::uint64_t head = 0;
        std::uint64_t dropped = 0;
        std::int64_t first_drop = 0;  ///< start of the first lost range
        std::int64_t last_drop = 0;   ///< end of the last lost range
        std::vector<RangeEvent> open;
        bool is_stuck = false;  ///< stayed inside a change: the number of its open ranges is unknown
    };
    /// Waits at most `patience` for a change to end: a thread never leaves its change if a signal handler interrupts it
    /// and ends the process.
    Snapshot snapshot(std::chrono::nanoseconds patience = std::chrono::seconds{2}) const;

private:
    static constexpr std::size_t kMaxDepth = 128;
    static constexpr std::size_t kWords = sizeof(RangeEvent) / sizeof(std::uint64_t);
    using Words = std::array<std::uint64_t, kWords>;
    using Slot = std::array<std::atomic<std::uint64_t>, kWords>;

    /// Makes the sequence number odd during its lifetime.
    class Change {
    public:
        explicit Change(ThreadLog& log) : log_(log) { bump(std::memory_order_relaxed); }
        ~Change() { bump(std::memory_order_release); }
        Change(const Change&) = delete;
        Change& operator=(const Change&) = delete;

    private:
        void bump(std::memory_order order) {
            log_.sequence_.store(log_.sequence_.load(std::memory_order_relaxed) + 1, order);
        }
        ThreadLog& log_;
    };

    static void store(Slot& slot, const RangeEvent& range);
    static RangeEvent load(const Slot& slot);
    static std::uint32_t domain_of(const Slot& slot);
    int level_below(std::uint64_t depth, std::uint32_t domain) const;
    /// Open ranges of the domain that did not fit on the stack.
    int too_deep_of(std::uint32_t domain) const;
    void add_too_deep(std::uint32_t domain, int number);

    void record(const RangeEvent& range);
    void count_drop(std::int64_t start, std::int64_t end);

    const std::uint32_t tid_;
    const std::string thread_name_;
    const std::uint64_t mask_;
    const RingMemory slots_;

    // Written by the thread. On a different cache line from the drain thread's data.
    alignas(64) std::atomic<std::uint64_t> sequence_{0};
    std::atomic<std::uint64_t> head_{0};
    std::uint64_t tail_seen_ = 0;  // a private copy: the shared one is read only if the ring seems full
    std::atomic<std::uint64_t> depth_{0};
    std::atomic<std::uint64_t> too_deep_{0};  // open ranges that did not fit on the stack
    // The same by domain. These are the innermost ranges of their domain: until they end, the domain's next ranges join
    // them.
    std::unordered_map<std::uint32_t, int> too_deep_by_domain_;
    std::atomic<std::uint64_t> dropped_{0};
    std::atomic<std::int64_t> first_drop_{0};
    std::atomic<std::int64_t> last_drop_{0};
    std::array<Slot, kMaxDepth> stack_{};
    std::unordered_map<std::string, std::uint32_t> text_numbers_;
    std::string text_key_;  // reused for its memory
    std::atomic<bool> ended_{false};

    // Written by the drain thread.
    alignas(64) std::atomic<std::uint64_t> tail_{0};
};
}  // namespace pipescope
