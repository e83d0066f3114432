// Started with this library in LD_PRELOAD, a program has a monotonic clock that goes 50 ppm too fast, as a poor crystal
// does.

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

namespace {
constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t true_time() {
    timespec time{};
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return time.tv_sec * kSecond + time.tv_nsec;
}
}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) {
    if (clock != CLOCK_MONOTONIC) {
        return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
    }
    static const std::int64_t first = true_time();
    const std::int64_t now = true_time();
    const std::int64_t shown = now + (now - first) / 20'000;
    *time = {shown / kSecond, shown % kSecond};
    return 0;
}
