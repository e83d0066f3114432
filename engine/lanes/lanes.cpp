#include "engine/lanes/lanes.h"

#include "engine/engine_error.h"
#include "engine/lanes/process_end.h"

#include <exception>
#include <string>
#include <utility>

namespace pipescope {
namespace {
PIPESCOPE_THREAD_LOCAL(const Lanes*, lanes_of_this_thread);
}  // namespace

Lanes::Lanes(const std::vector<LaneId>& lanes, std::function<void()> at_start) : at_start_(std::move(at_start)) {
    for (const LaneId lane : lanes) {
        workers_[lane] = make_worker(lane);
    }
    prepare_process_end();
}

std::unique_ptr<Worker> Lanes::make_worker(LaneId lane) {
    return std::make_unique<Worker>("lane " + std::to_string(lane.value()), [this] {
        lanes_of_this_thread = this;
        at_start_();
    });
}

void Lanes::renew(LaneId lane) {
    const std::lock_guard lock(turn_);
    workers_[lane]->end_thread();
    workers_[lane] = make_worker(lane);
}

void Lanes::run(const std::function<void(LaneId)>& job, const std::function<void()>& while_waiting) {
    Jobs jobs(*this);
    jobs.post(job);
    jobs.wait_for_oldest(while_waiting);
}

/// Holds the lock while it notifies: the waiting thread destroys this as soon as it wakes.
void Lanes::Jobs::Ended::count_down(std::exception_ptr thrown) {
    const std::lock_guard lock(mutex_);
    if (thrown && !thrown_) {
        thrown_ = std::move(thrown);
    }
    if (--lanes_ == 0) {
        all_ended_.notify_one();
    }
}

void Lanes::Jobs::Ended::wait(const std::function<void()>& while_waiting) {
    std::unique_lock lock(mutex_);
    const auto all_have_ended = [this] { return lanes_ == 0; };
    if (!while_waiting) {
        all_ended_.wait(lock, all_have_ended);
        return;
    }
    while (!all_ended_.wait_for(lock, kPatience, all_have_ended)) {
        lock.unlock();
        {
            const AtWork at_work;
            while_waiting();
        }
        lock.lock();
    }
}

Lanes::Jobs::Jobs(Lanes& lanes) : lanes_(lanes), turn_(lanes.take_turn()) {}

Lanes::Jobs::~Jobs() {
    while (!jobs_.empty()) {
        try {
            wait_for_oldest();
        } catch (...) {
            // Nobody asks for it.
        }
    }
}

void Lanes::Jobs::post(std::function<void(LaneId)> job) {
    Job& posted = jobs_.emplace_back(std::move(job), lanes_.workers_.size());
    for (const auto& [lane, worker] : lanes_.workers_) {
        worker->post([&posted, lane = lane, in_exit = is_thread_in_exit()] {
            const OnBehalf of_exit(in_exit);
            std::exception_ptr thrown;
            try {
                posted.run(lane);
            } catch (...) {
                thrown = std::current_exception();
            }
            posted.ended.count_down(std::move(thrown));
        });
    }
}

void Lanes::Jobs::wait_for_oldest(const std::function<void()>& while_waiting) {
    {
        const AtRest until_lanes_are_done;
        jobs_.front().ended.wait(while_waiting);
        prepare_process_end();
    }
    const std::exception_ptr thrown = jobs_.front().ended.thrown();
    jobs_.pop_front();
    if (thrown) {
        std::rethrow_exception(thrown);
    }
}

std::unique_lock<Mutex> Lanes::take_turn() {
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
    const AtRest until_it_comes;
    std::unique_lock lock(turn_, std::defer_lock);
    if (!is_thread_in_exit()) {
        lock.lock();
    } else if (!lock.try_lock()) {
        throw EngineError(
            "the model is run while the process ends, and another thread was stopped in the midst of a run; end the "
            "training threads before exit()");
    }
    return lock;
}
}  // namespace pipescope
