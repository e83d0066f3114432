#include "profiler/recorder/recording_clock.h"

#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace pipescope {
namespace {
std::int64_t read_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::int64_t read_tsc() {
#if defined(__x86_64__)
    return static_cast<std::int64_t>(__rdtsc());
#else
    return 0;
#endif
}
}  // namespace

std::int64_t recording_clock_ns() {
    return read_ns(CLOCK_MONOTONIC);
}

ClockRecord read_clocks() {
    // Takes the tightest of a few tries, because an interrupt between two reads would look like drift.
    ClockRecord best;
    std::int64_t best_width = -1;
    for (int k = 0; k < 5; ++k) {
        const std::int64_t before = recording_clock_ns();
        ClockRecord clocks{read_ns(CLOCK_REALTIME), 0, read_ns(CLOCK_BOOTTIME), read_tsc()};
        const std::int64_t width = recording_clock_ns() - before;
        clocks.monotonic = before + width / 2;
        if (best_width < 0 || width < best_width) {
            best = clocks;
            best_width = width;
        }
    }
    return best;
}

std::int64_t thread_cpu_ns() {
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}
}  // namespace pipescope
