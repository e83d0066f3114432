#include "profiler/memory/memory_account.h"

#include <algorithm>
#include <chrono>
#include <mutex>

namespace pipescope {
namespace {
constexpr auto kRelaxed = std::memory_order_relaxed;

void raise_to(std::atomic<Bytes>& peak, Bytes value) {
    Bytes seen = peak.load(kRelaxed);
    while (seen < value && !peak.compare_exchange_weak(seen, value, kRelaxed)) {
    }
}

std::size_t index_of(MemoryCategory category) {
    return static_cast<std::size_t>(category);
}

/// A spin lock: it guards a few loads, and is contended only if two lanes exceed a peak at the same time.
class PictureLock {
public:
    explicit PictureLock(std::atomic_flag& flag) : flag_(flag) {
        while (flag_.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~PictureLock() { flag_.clear(std::memory_order_release); }
    PictureLock(const PictureLock&) = delete;
    PictureLock& operator=(const PictureLock&) = delete;

private:
    std::atomic_flag& flag_;
};
}  // namespace

Nanoseconds steady_now() {
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

MemoryAccount::Count& MemoryAccount::counted(Place place) {
    const bool in_its_task = place.task != 0 && place.task == task();
    return categories_[index_of(in_its_task ? MemoryCategory::transient : place.later)];
}

void MemoryAccount::add(Bytes bytes, Place place) {
    counted(place).fetch_add(bytes, kRelaxed);
    const Bytes now = allocated_.fetch_add(bytes, kRelaxed) + bytes;
    raise_to(peak_, now);
    raise_to(window_peak_, now);
    if (pictured_peak_.load(kRelaxed) < now) {
        picture(now);
    }
}

void MemoryAccount::subtract(Bytes bytes, Place place) {
    counted(place).fetch_sub(bytes, kRelaxed);
    allocated_.fetch_sub(bytes, kRelaxed);
}

void MemoryAccount::recount(Bytes bytes, Place from, Place to) {
    counted(from).fetch_sub(bytes, kRelaxed);
    counted(to).fetch_add(bytes, kRelaxed);
}

void MemoryAccount::end_task(MemoryCategory later) {
    const Bytes left = categories_[index_of(MemoryCategory::transient)].exchange(0, kRelaxed);
    categories_[index_of(later)].fetch_add(left, kRelaxed);
    std::uint32_t next = task() + 1;
    task_.store(next == 0 ? 1 : next, kRelaxed);
}

MemoryBreakdown MemoryAccount::composition() const {
    MemoryBreakdown breakdown;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        breakdown[static_cast<MemoryCategory>(k)] = std::max<Bytes>(0, categories_[k].load(kRelaxed));
    }
    return breakdown;
}

void MemoryAccount::picture(Bytes peak) {
    const PictureLock lock(picturing_);
    if (pictured_peak_.load(kRelaxed) >= peak) {
        return;
    }
    pictured_peak_.store(peak, kRelaxed);
    picture_time_ = steady_now();
    picture_ = composition();
}

// The returned value includes any allocation that raised `which` before the exchange; the following load sees any that
// is still held. So none is lost.
Bytes MemoryAccount::restart(Count& which) {
    const Bytes before = which.exchange(allocated(), kRelaxed);
    const Bytes held = allocated();
    raise_to(which, held);
    return std::max(before, held);
}

MemoryAccount::Peak MemoryAccount::take_peak() {
    const PictureLock lock(picturing_);
    Peak peak{pictured_peak_.load(kRelaxed), picture_time_, picture_};
    pictured_peak_.store(allocated(), kRelaxed);
    picture_time_ = Nanoseconds{0};
    // Other threads counted during the snapshot: assigns the difference to short-lived bytes.
    Bytes sum = 0;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        sum += std::max<Bytes>(0, peak.composition[static_cast<MemoryCategory>(k)]);
    }
    Bytes& transient = peak.composition[MemoryCategory::transient];
    transient += peak.bytes - sum;
    for (std::size_t k = 0; transient < 0 && k < kNumMemoryCategories; ++k) {
        Bytes& other = peak.composition[static_cast<MemoryCategory>(k)];
        const Bytes taken = std::min(-transient, std::max<Bytes>(other, 0));
        other -= taken;
        transient += taken;
    }
    return peak;
}
}  // namespace pipescope
