#include "engine/lanes.h"

#include "engine/engine_error.h"

#include <latch>
#include <string>

namespace pipescope {
namespace {
thread_local const Lanes* lanes_of_this_thread = nullptr;
}  // namespace

Lanes::Lanes(int count, const std::function<void()>& at_start) {
    std::latch started(count);
    for (int lane = 0; lane < count; ++lane) {
        workers_.push_back(std::make_unique<Worker>("lane " + std::to_string(lane), [this, &at_start, &started] {
            lanes_of_this_thread = this;
            at_start();
            started.count_down();
        }));
    }
    started.wait();
}

void Lanes::run(const std::function<void(LaneId)>& job) {
    if (lanes_of_this_thread == this) {
        throw EngineError(
            "a layer or a loss runs the model it is part of; a lane cannot wait for itself; "
            "call another model, or call this one from outside");
    }
    const std::lock_guard lock(turn_);
    std::latch ended(count());
    for (int lane = 0; lane < count(); ++lane) {
        workers_[static_cast<std::size_t>(lane)]->post([&job, &ended, lane] {
            job(LaneId{lane});
            ended.count_down();
        });
    }
    ended.wait();
}
}  // namespace pipescope
