#include "tests/fake_accelerator/fake_stream.h"

#include <thread>
#include <utility>

namespace pipescope::fake_accelerator {
Behaviour& behaviour() {
    static Behaviour one;
    return one;
}

void Moment::pass() {
    {
        const std::lock_guard lock(mutex_);
        passed_ = true;
    }
    rung_.notify_all();
}

bool Moment::passed() {
    const std::lock_guard lock(mutex_);
    return passed_;
}

void Moment::wait() {
    std::unique_lock lock(mutex_);
    rung_.wait(lock, [this] { return passed_; });
}

Stream::Stream() {
    std::thread([this] { run(); }).detach();
}

void Stream::enqueue(Kernel kernel) {
    {
        const std::lock_guard lock(mutex_);
        kernels_.push_back(std::move(kernel));
    }
    enqueued_.notify_one();
}

std::shared_ptr<Moment> Stream::record() {
    auto moment = std::make_shared<Moment>();
    enqueue([moment] { moment->pass(); });
    return moment;
}

void Stream::wait_for(std::shared_ptr<Moment> moment) {
    if (!behaviour().ignores_waits) {
        enqueue([moment = std::move(moment)] { moment->wait(); });
    }
}

bool Stream::is_idle() {
    const std::lock_guard lock(mutex_);
    return kernels_.empty() && !running_;
}

void Stream::run() {
    while (true) {
        std::unique_lock lock(mutex_);
        enqueued_.wait(lock, [this] { return !kernels_.empty(); });
        {
            const Kernel kernel = std::move(kernels_.front());
            kernels_.pop_front();
            running_ = true;
            lock.unlock();
            kernel();
        }
        lock.lock();
        running_ = false;
    }
}
}  // namespace pipescope::fake_accelerator
