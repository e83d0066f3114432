#include "base/stop_check.h"

#include <utility>

namespace pipescope {
namespace {
constexpr int kRoundsPerLook = 16;  // between looks at the clock, which costs ten times as much as a round
constexpr std::chrono::milliseconds kPause{20};

thread_local StopCheck* running = nullptr;
}  // namespace

StopCheck::StopCheck(std::function<bool()> goes_on)
    : goes_on_(std::move(goes_on)),
      outer_(std::exchange(running, this)),
      rounds_left_(kRoundsPerLook),
      last_asked_(std::chrono::steady_clock::now()) {}

StopCheck::~StopCheck() {
    running = outer_;
}

void StopCheck::count_round() {
    if (--rounds_left_ > 0) {
        return;
    }
    rounds_left_ = kRoundsPerLook;
    const auto now = std::chrono::steady_clock::now();
    if (now - last_asked_ < kPause) {
        return;
    }
    last_asked_ = now;
    if (!goes_on_()) {
        throw ComputationStopped();
    }
}

void check_stop() {
    if (running != nullptr) {
        running->count_round();
    }
}
}  // namespace pipescope
