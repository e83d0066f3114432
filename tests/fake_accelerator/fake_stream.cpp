#include "tests/fake_accelerator/fake_stream.h"

#include "tests/fake_accelerator/fake_memory.h"

#include <thread>
#include <utility>

namespace pipescope::fake_accelerator {
namespace {
std::atomic<std::int64_t> num_copy_waits = 0;
std::atomic<std::int64_t> num_host_waits = 0;

bool is_left_out(Role waits, Role waited_for) {
    const bool is_of_copy =
        (waits == Role::copies && waited_for == Role::lane) || (waits == Role::lane && waited_for == Role::copies);
    return is_of_copy && num_copy_waits++ == behaviour().left_out_copy_wait;
}
}  // namespace

void Behaviour::reset() {
    kernel_delay_us = 0;
    copy_delay_us = 0;
    copies_late = false;
    release();
    ignores_waits = false;
    ranks_share_devices = false;
    left_out_copy_wait = -1;
    left_out_host_wait = -1;
    num_copy_waits = 0;
    num_host_waits = 0;
}

Behaviour& behaviour() {
    static Behaviour one;
    return one;
}

void release() {
    for (std::atomic<bool>* const holds : {&behaviour().holds_kernels, &behaviour().holds_copies}) {
        *holds = false;
        holds->notify_all();
    }
}

std::int64_t copy_waits() {
    return num_copy_waits;
}

std::int64_t host_waits() {
    return num_host_waits;
}

void Moment::pass() {
    {
        const std::lock_guard lock(mutex_);
        passed_ = true;
        time_ = std::chrono::steady_clock::now();
    }
    rung_.notify_all();
}

bool Moment::passed() {
    {
        const std::lock_guard lock(mutex_);
        if (!passed_) {
            return false;
        }
    }
    see(clock_);
    return true;
}

std::chrono::steady_clock::time_point Moment::time() {
    const std::lock_guard lock(mutex_);
    return time_;
}

void Moment::wait() {
    for (const Demand& demand : late_) {
        *demand = true;
        demand->notify_all();
    }
    {
        std::unique_lock lock(mutex_);
        rung_.wait(lock, [this] { return passed_; });
    }
    see(clock_);
}

void wait_on_host(Moment& moment) {
    if (moment.role() != Role::copies || num_host_waits++ != behaviour().left_out_host_wait) {
        moment.wait();
    }
}

Stream::Stream()
    : number_([] {
          static std::atomic<std::size_t> count = 0;
          return count++;
      }()) {
    std::thread([this] { run(); }).detach();
}

void Stream::enqueue(Kernel kernel) {
    {
        const std::lock_guard lock(mutex_);
        kernels_.push_back(std::move(kernel));
    }
    enqueued_.notify_one();
}

void Stream::launch(const std::string& name, const Uses& uses, Kernel kernel, const Clock& knows_too) {
    Clock knows;
    {
        const std::lock_guard lock(mutex_);
        knows_.merge(known_to_thread());
        ++knows_.counts.at(number_);
        knows = knows_;
    }
    knows.merge(knows_too);
    const std::string who = name + " of stream " + std::to_string(number_);
    for (void* const memory : uses.reads) {
        use_memory(memory, [&](MemoryUses& last) { last.read(who, number_, knows); });
    }
    for (void* const memory : uses.writes) {
        use_memory(memory, [&](MemoryUses& last) { last.write(who, number_, knows); });
    }
    enqueue(std::move(kernel));
}

void Stream::launch_late(const std::string& name, const Uses& uses, Kernel kernel) {
    const auto demand = std::make_shared<std::atomic<bool>>(false);
    {
        const std::lock_guard lock(mutex_);
        late_.push_back(demand);
    }
    launch(name, uses, [demand, kernel = std::move(kernel)] {
        demand->wait(false);
        kernel();
    });
}

std::shared_ptr<Moment> Stream::record() {
    std::shared_ptr<Moment> moment;
    {
        const std::lock_guard lock(mutex_);
        knows_.merge(known_to_thread());
        std::erase_if(late_, [](const Demand& demand) { return demand->load(); });
        moment = std::make_shared<Moment>(role_, knows_, late_);
    }
    enqueue([moment] { moment->pass(); });
    return moment;
}

void Stream::wait_for(const std::shared_ptr<Moment>& moment) {
    if (behaviour().ignores_waits || is_left_out(role_, moment->role())) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        knows_.merge(moment->clock());
    }
    enqueue([moment] { moment->wait(); });
}

void Stream::synchronize() {
    const std::shared_ptr<Moment> end = record();
    end->wait();
    known_to_thread().merge(end->clock());
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
