#include "profiler/memory/lane_memory.h"

#include "engine/device_memory.h"
#include "profiler/memory/tracking_allocator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
int owner_of(LaneId lane) {
    return lane.value() + 1;
}

MemoryCategory left_by(TaskKind kind) {
    switch (kind) {
        case TaskKind::forward:
        case TaskKind::recompute: return MemoryCategory::saved;
        case TaskKind::loss: return MemoryCategory::output;
        case TaskKind::optimizer: return MemoryCategory::optimizer;
        case TaskKind::copy_forward: return MemoryCategory::boundary;
        case TaskKind::skip_forward:
        case TaskKind::skip_backward: return MemoryCategory::skip;
        default: return MemoryCategory::copy;
    }
}

// What this thread was before its task: the caller's thread runs the loss, and goes on to other things after it.
struct Outside {
    int owner = 0;
    MemoryCategory later = MemoryCategory::saved;
};
thread_local Outside outside;

Nanoseconds steady_now() {
    return std::chrono::duration_cast<Nanoseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

Bytes sum_of(const MemoryBreakdown& composition) {
    Bytes sum = 0;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        sum += composition[static_cast<MemoryCategory>(k)];
    }
    return sum;
}
}  // namespace

LaneMemory::LaneMemory(std::function<Nanoseconds()> now, std::function<void(const MemorySample&)> record)
    : now_(std::move(now)), record_(std::move(record)) {
    for (int lane = 0; lane < kMostPartitions; ++lane) {
        // Another model of this process may have used the lanes before.
        MemoryAccount& account = tracking_allocator::account(owner_of(LaneId{lane}));
        account.take_window();
        account.take_peak();
    }
}

void LaneMemory::placed(const at::Tensor& tensor, LaneId lane) {
    if (!tensor.defined()) {
        return;
    }
    tracking_allocator::recharge(tensor, owner_of(lane), MemoryCategory::parameters);
    placed_.resize(std::max(placed_.size(), lane.index() + 1));
    placed_[lane.index()].push_back(tensor);
}

void LaneMemory::task_started(const TaskKey& key, LaneId lane) {
    outside = {tracking_allocator::set_owner(owner_of(lane)), tracking_allocator::set_later(left_by(key.kind))};
}

void LaneMemory::task_ended(const TaskKey& key, LaneId lane) {
    tracking_allocator::set_owner(outside.owner);
    tracking_allocator::set_later(outside.later);
    if (key.kind == TaskKind::backward || key.kind == TaskKind::backward_weight) {
        categorize_gradients(lane);
    }
    MemorySample sample;
    sample.lane = lane;
    sample.time = now_();
    sample.task = static_cast<std::int64_t>(pack(key));
    if (record_accelerator(sample)) {
        return;
    }
    record_host(sample, left_by(key.kind));
}

void LaneMemory::record_host(MemorySample& sample, MemoryCategory left) {
    MemoryAccount& account = tracking_allocator::account(owner_of(sample.lane));
    account.end_task(left);
    sample.composition = account.composition();
    sample.allocated = sum_of(sample.composition);
    const Bytes window = account.take_window();
    const MemoryAccount::Peak peak = account.take_peak();
    if (peak.time.count() == 0 || peak.bytes <= sample.allocated) {
        sample.peak = std::max(window, sample.allocated);
        record_(sample);
        return;
    }
    MemorySample at_peak = sample;
    at_peak.time = std::max(Nanoseconds{0}, sample.time - (steady_now() - peak.time));
    at_peak.allocated = peak.bytes;
    at_peak.peak = std::max(window, peak.bytes);
    at_peak.composition = peak.composition;
    record_(at_peak);
    sample.peak = sample.allocated;
    record_(sample);
}

// The device's own allocator counts there, lanes that share a device together.
bool LaneMemory::record_accelerator(MemorySample& sample) const {
    const std::size_t lane = sample.lane.index();
    if (lane >= placed_.size() || placed_[lane].empty() || placed_[lane].front().is_cpu()) {
        return false;
    }
    const c10::Device device = placed_[lane].front().device();
    const std::optional<DeviceMemory> memory = device_memory(device);
    if (!memory) {
        return false;
    }
    reset_device_peaks(device);
    sample.allocated = memory->allocated;
    sample.peak = std::max(memory->allocated_peak, memory->allocated);
    sample.reserved = memory->reserved;
    record_(sample);
    return true;
}

void LaneMemory::moved(const at::Tensor& tensor, LaneId to) {
    // The copy's task runs on this thread now, and said what it leaves behind.
    tracking_allocator::recharge(tensor, owner_of(to), tracking_allocator::later());
}

// Autograd makes a parameter's gradient inside a backward and keeps it: in steady state this finds nothing new.
void LaneMemory::categorize_gradients(LaneId lane) const {
    if (lane.index() >= placed_.size()) {
        return;
    }
    for (const at::Tensor& parameter : placed_[lane.index()]) {
        if (const at::Tensor& gradient = parameter.grad(); gradient.defined()) {
            tracking_allocator::recharge(gradient, owner_of(lane), MemoryCategory::gradients);
        }
    }
}
}  // namespace pipescope
