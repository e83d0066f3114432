#include "profiler/recorder/thread_log.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>

namespace pipescope {
namespace {
/// Maximum number of cached texts per thread. A program that keeps creating new texts must not exhaust memory.
constexpr std::size_t kMostCachedTexts = 4096;
}  // namespace

ThreadLog::ThreadLog(std::uint32_t tid, std::string thread_name, std::size_t ring_entries)
    : tid_(tid),
      thread_name_(std::move(thread_name)),
      mask_(std::bit_ceil(std::max<std::size_t>(ring_entries, 2)) - 1),
      slots_(mask_ + 1) {}

void ThreadLog::store(Slot& slot, const RangeEvent& range) {
    const auto words = std::bit_cast<Words>(range);
    for (std::size_t k = 0; k < kWords; ++k) {
        slot[k].store(words[k], std::memory_order_release);
    }
}

RangeEvent ThreadLog::load(const Slot& slot) {
    Words words;
    for (std::size_t k = 0; k < kWords; ++k) {
        words[k] = slot[k].load(std::memory_order_acquire);
    }
    return std::bit_cast<RangeEvent>(words);
}

std::uint32_t ThreadLog::domain_of(const Slot& slot) {
    constexpr std::size_t kOffset = offsetof(RangeEvent, domain);
    const std::uint64_t word = slot[kOffset / sizeof(word)].load(std::memory_order_relaxed);  // stored by this thread
    return std::bit_cast<std::array<std::uint32_t, 2>>(word)[kOffset % sizeof(word) / sizeof(std::uint32_t)];
}

int ThreadLog::level_below(std::uint64_t depth, std::uint32_t domain) const {
    int level = 0;
    for (std::uint64_t k = 0; k < depth; ++k) {
        level += domain_of(stack_[k]) == domain ? 1 : 0;
    }
    return level;
}

int ThreadLog::too_deep_of(std::uint32_t domain) const {
    if (too_deep_.load(std::memory_order_relaxed) == 0) {
        return 0;
    }
    const auto found = too_deep_by_domain_.find(domain);
    return found == too_deep_by_domain_.end() ? 0 : found->second;
}

void ThreadLog::add_too_deep(std::uint32_t domain, int number) {
    too_deep_by_domain_[domain] += number;
    too_deep_.store(too_deep_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(number),
                    std::memory_order_release);
}

int ThreadLog::push(const RangeEvent& range) {
    const Change change(*this);
    const std::uint64_t depth = depth_.load(std::memory_order_relaxed);
    const int too_deep = too_deep_of(range.domain);
    const int level = level_below(depth, range.domain) + too_deep;
    if (depth == kMaxDepth || too_deep > 0) {
        add_too_deep(range.domain, 1);
        return level;
    }
    store(stack_[depth], range);
    depth_.store(depth + 1, std::memory_order_release);
    return level;
}

int ThreadLog::pop(std::uint32_t domain, std::int64_t end) {
    const Change change(*this);
    const std::uint64_t depth = depth_.load(std::memory_order_relaxed);
    if (const int too_deep = too_deep_of(domain); too_deep > 0) {
        add_too_deep(domain, -1);
        count_drop(end, end);
        return level_below(depth, domain) + too_deep - 1;
    }
    std::uint64_t at = depth;
    while (at > 0 && domain_of(stack_[at - 1]) != domain) {
        --at;  // ranges of other domains may have opened since: each domain nests separately
    }
    if (at == 0) {
        return -1;
    }
    --at;
    RangeEvent range = load(stack_[at]);
    for (std::uint64_t k = at; k + 1 < depth; ++k) {
        store(stack_[k], load(stack_[k + 1]));
    }
    depth_.store(depth - 1, std::memory_order_release);
    range.end = end;
    record(range);
    return level_below(at, domain);
}

void ThreadLog::add_mark(const RangeEvent& mark) {
    const Change change(*this);
    record(mark);
}

void ThreadLog::record(const RangeEvent& range) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_seen_ > mask_) {
        tail_seen_ = tail_.load(std::memory_order_acquire);
        if (head - tail_seen_ > mask_) {
            count_drop(range.start, range.end == RangeEvent::kOpen ? range.start : range.end);
            return;
        }
    }
    slots_[head & mask_] = range;
    head_.store(head + 1, std::memory_order_release);
}

void ThreadLog::count_drop(std::int64_t start, std::int64_t end) {
    const std::uint64_t before = dropped_.load(std::memory_order_relaxed);
    if (before == 0) {
        first_drop_.store(start, std::memory_order_release);
    }
    last_drop_.store(end, std::memory_order_release);
    dropped_.store(before + 1, std::memory_order_release);
}

std::uint32_t ThreadLog::text_number(std::string_view text, std::uint32_t (*intern)(std::string_view)) {
    text_key_.assign(text);
    const auto found = text_numbers_.find(text_key_);
    if (found != text_numbers_.end()) {
        return found->second;
    }
    if (text_numbers_.size() >= kMostCachedTexts) {
        text_numbers_.clear();
    }
    return text_numbers_.emplace(text_key_, intern(text)).first->second;
}

ThreadLog::Snapshot ThreadLog::snapshot(std::chrono::nanoseconds patience) const {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> give_up;
    for (;;) {
        const std::uint64_t before = sequence_.load(std::memory_order_acquire);
        Snapshot taken;
        taken.head = head_.load(std::memory_order_acquire);
        // Ranges that did not fit on the stack are lost, whether they ended or not.
        taken.dropped = dropped_.load(std::memory_order_acquire) + too_deep_.load(std::memory_order_acquire);
        taken.first_drop = first_drop_.load(std::memory_order_acquire);
        taken.last_drop = last_drop_.load(std::memory_order_acquire);
        if (before % 2 == 0) {
            const std::uint64_t depth = depth_.load(std::memory_order_acquire);
            for (std::uint64_t k = 0; k < depth && k < kMaxDepth; ++k) {
                taken.open.push_back(load(stack_[k]));
            }
            // Relaxed: the loads above are acquires, so this one cannot move before them.
            if (sequence_.load(std::memory_order_relaxed) == before) {
                return taken;
            }
        }
        // The thread is inside a change, which takes some ns unless it was descheduled there.
        if (!give_up) {
            give_up = Clock::now() + patience;
        } else if (Clock::now() > *give_up) {
            taken.open.clear();
            taken.is_stuck = true;
            return taken;
        }
        std::this_thread::yield();
    }
}
}  // namespace pipescope
