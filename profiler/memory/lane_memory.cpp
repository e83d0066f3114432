#include "profiler/memory/tracking_allocator.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
int owner_of(LaneId lane) {
    return lane.value() + 1;
}

// The owner this thread had before its task: the caller's thread runs the loss, and goes on to other things after it.
thread_local int owner_outside = 0;
}  // namespace

LaneMemory::LaneMemory(std::function<Nanoseconds()> now, std::function<void(const MemorySample&)> record)
    : now_(std::move(now)), record_(std::move(record)) {
    for (int lane = 0; lane < kMostPartitions;
         ++lane) {  // another model of this process may have used the lanes before
        tracking_allocator::take_window(owner_of(LaneId{lane}));
    }
}

void LaneMemory::placed(const at::Tensor& tensor, LaneId lane) {
    tracking_allocator::recharge(tensor, owner_of(lane));
}

void LaneMemory::task_started(const TaskKey&, LaneId lane) {
    owner_outside = tracking_allocator::set_owner(owner_of(lane));
}

void LaneMemory::task_ended(const TaskKey& key, LaneId lane) {
    tracking_allocator::set_owner(owner_outside);
    const int owner = owner_of(lane);
    MemorySample sample;
    sample.lane = lane;
    sample.time = now_();
    sample.allocated = tracking_allocator::allocated(owner);
    sample.peak = std::max(tracking_allocator::take_window(owner), sample.allocated);
    sample.task = static_cast<std::int64_t>(pack(key));
    record_(sample);
}

void LaneMemory::moved(const at::Tensor& tensor, LaneId to) {
    tracking_allocator::recharge(tensor, owner_of(to));
}
}  // namespace pipescope
