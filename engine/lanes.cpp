#include "engine/lanes.h"

#include "engine/engine_error.h"

#include <latch>
#include <string>
#include <utility>

namespace pipescope {
namespace {
thread_local const Lanes* lanes_of_this_thread = nullptr;
}  // namespace

Lanes::Lanes(int count, std::function<void()> at_start) : at_start_(std::move(at_start)) {
    std::latch started(count);
    for (int lane = 0; lane < count; ++lane) {
        workers_.push_back(make_worker(lane, started));
    }
    started.wait();
}

std::unique_ptr<Worker> Lanes::make_worker(int lane, std::latch& started) {
    return std::make_unique<Worker>("lane " + std::to_string(lane), [this, &started] {
        lanes_of_this_thread = this;
        at_start_();
        started.count_down();
    });
}

void Lanes::renew(LaneId lane) {
    const std::lock_guard lock(turn_);
    std::latch started(1);
    workers_[lane.index()] = make_worker(static_cast<int>(lane.value()), started);
    started.wait();
}

void Lanes::run(const std::function<void(LaneId)>& job) {
    if (lanes_of_this_thread == this) {
        throw EngineError(
            "a layer or a loss runs the model it is part of; a lane cannot wait for itself; "
            "call another model, or call this one from outside");
    }
    if (!are_here()) {
        throw EngineError(
            "the model was built before this process was forked from another; a fork takes no lane's "
            "thread along; build the model after the fork");
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
