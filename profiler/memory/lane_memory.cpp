#include "profiler/memory/lane_memory.h"

#include "engine/device_memory.h"
#include "profiler/memory/charged_block.h"
#include "profiler/memory/device_blocks.h"
#include "profiler/memory/device_listening.h"
#include "profiler/memory/memory_account.h"
#include "profiler/memory/tracking_allocator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
constexpr int kCaller = 0;

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
        case TaskKind::shared_forward: return MemoryCategory::parameters;
        case TaskKind::shared_backward:
        case TaskKind::shared_sum: return MemoryCategory::gradients;
        default: return MemoryCategory::copy;
    }
}

// The thread's state before its task. With driver autograd, the caller's thread runs the loss and continues with other
// work.
struct Outside {
    int owner = 0;
    MemoryCategory later = MemoryCategory::saved;
    std::optional<DeviceListening> listening = {};  // during a task on an accelerator
};
thread_local Outside outside;

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
    device_blocks::sweep();
    for (int lane = 0; lane < kMostPartitions; ++lane) {
        // Another model of this process may have used the lanes before.
        MemoryAccount& account = tracking_allocator::account(owner_of(LaneId{lane}));
        account.take_window();
        account.take_peak();
    }
}

LaneMemory::~LaneMemory() {
    const DeviceListening listening;  // this may be the last holder of a parameter
    placed_.clear();
}

LaneMemory::Placed* LaneMemory::placed_on(LaneId lane) {
    const bool has_any = lane.index() < placed_.size() && !placed_[lane.index()].tensors.empty();
    return has_any ? &placed_[lane.index()] : nullptr;
}

/// Also true if the lane holds no tensors and its device is unknown; listening on the host is harmless.
bool LaneMemory::may_be_on_accelerator(LaneId lane) {
    const Placed* const placed = placed_on(lane);
    return placed != nullptr ? placed->on_accelerator() : has_accelerator_;
}

void LaneMemory::placed(const at::Tensor& tensor, LaneId lane) {
    if (!tensor.defined()) {
        return;
    }
    tracking_allocator::recharge(tensor, owner_of(lane), MemoryCategory::parameters);
    while (placed_.size() <= lane.index()) {
        placed_.emplace_back();
    }
    placed_[lane.index()].tensors.push_back(tensor);
    has_accelerator_ = has_accelerator_ || placed_[lane.index()].on_accelerator();
}

void LaneMemory::task_started(const TaskKey& key, LaneId lane) {
    begin_step(key.step);
    const Charge charge{.owner = owner_of(lane), .later = left_by(key.kind)};
    outside.owner = tracking_allocator::set_owner(charge.owner);
    outside.later = tracking_allocator::set_later(charge.later);
    if (may_be_on_accelerator(lane)) {
        outside.listening.emplace(charge);
    }
}

void LaneMemory::task_ended(const TaskKey& key, LaneId lane) {
    tracking_allocator::set_owner(outside.owner);
    tracking_allocator::set_later(outside.later);
    Placed* const placed = placed_on(lane);
    const bool is_backward = key.kind == TaskKind::backward || key.kind == TaskKind::backward_weight;
    if (placed != nullptr && is_backward) {
        categorize_gradients(*placed, lane);
    }
    const bool was_heard = DeviceListening::hears();
    outside.listening.reset();
    MemorySample sample;
    sample.lane = lane;
    sample.time = now_();
    sample.task = static_cast<std::int64_t>(pack(key));
    if (placed != nullptr && placed->on_accelerator()) {
        placed->is_heard = placed->is_heard && was_heard;
        if (key.kind == TaskKind::forward) {  // always runs on the lane's own thread
            charge_inputs_to(owner_of(lane));
        }
        const c10::Device device = placed->tensors.front().device();
        const std::optional<Bytes> reserved = device_blocks::reserved(device);
        if ((!placed->is_heard || !reserved) && record_device(sample, device)) {
            return;
        }
        sample.reserved = reserved.value_or(0);
    }
    record_account(sample, left_by(key.kind));
}

/// Once per step, accounts for frees that nobody heard.
void LaneMemory::begin_step(std::int32_t step) {
    if (step_.exchange(step) != step) {
        device_blocks::sweep();
    }
}

void LaneMemory::record_account(MemorySample& sample, MemoryCategory left) {
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

/// Records the statistics of the device's allocator, for lanes that share a device.
bool LaneMemory::record_device(MemorySample& sample, c10::Device device) const {
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
    // The tensor is part of the caller's mini-batch, passed on by a partition. The caller holds it before, during and
    // after the lane's use, so no lane is charged for it.
    const ChargedBlock* const block = tracking_allocator::block_of(tensor);
    if (block != nullptr && block->owner.load(std::memory_order_relaxed) == kCaller) {
        return;
    }
    // The copy's task runs on this thread now and has set its category.
    tracking_allocator::recharge(tensor, owner_of(to), tracking_allocator::later());
}

/// A gradient that came from elsewhere keeps its category.
void LaneMemory::kept(const at::Tensor& gradient, LaneId lane) {
    const ChargedBlock* const block = tracking_allocator::block_of(gradient);
    if (block != nullptr && block->owner.load(std::memory_order_relaxed) == owner_of(lane) &&
        block->task.load(std::memory_order_relaxed) == tracking_allocator::account(owner_of(lane)).task()) {
        tracking_allocator::recharge(gradient, owner_of(lane), MemoryCategory::saved);
    }
}

void LaneMemory::received(const at::Tensor& tensor, const TaskKey& copy, LaneId to) {
    tracking_allocator::recharge(tensor, owner_of(to), left_by(copy.kind));
}

// Autograd creates a parameter's gradient in a backward and keeps it, so in steady state this finds nothing new.
void LaneMemory::categorize_gradients(const Placed& placed, LaneId lane) {
    for (const at::Tensor& parameter : placed.tensors) {
        if (const at::Tensor& gradient = parameter.grad(); gradient.defined()) {
            tracking_allocator::recharge(gradient, owner_of(lane), MemoryCategory::gradients);
        }
    }
}
}  // namespace pipescope
