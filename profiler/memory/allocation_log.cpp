#include "profiler/memory/allocation_log.h"

#include "base/error.h"
#include "profiler/memory/charged_block.h"
#include "profiler/memory/device_blocks.h"
#include "profiler/memory/tracking_allocator.h"

#include <atomic>

namespace pipescope {
AllocationLog::AllocationLog(c10::Device device) {
    static std::atomic<std::uint64_t> last{0};
    serial_ = ++last;
    if (device.is_cpu() || device.is_meta()) {
        tracking_allocator::set_log(this);
        return;
    }
    const Charge host = host_charge();
    listening_.emplace(Charge{host.owner, host.later, this});
    if (!DeviceListening::hears()) {
        throw Error("allocations on " + device.str() +
                    " go to a torch profiler of this thread; only one listener at a time can log them; "
                    "end that profiler first");
    }
}

AllocationLog::~AllocationLog() {
    if (listening_) {
        device_blocks::forget(serial_);  // later frees need not be logged
    } else {
        tracking_allocator::set_log(nullptr);
    }
}

std::int64_t AllocationLog::taken(Bytes bytes) {
    events_.push_back({++blocks_, bytes});
    return blocks_;
}

std::int64_t AllocationLog::block_of(const at::Tensor& tensor) {
    ChargedBlock* const block = tracking_allocator::block_of(tensor);
    if (block == nullptr) {
        return 0;
    }
    if (block->log != serial_) {
        block->log = serial_;
        block->block = ++blocks_;
    }
    return block->block;
}
}  // namespace pipescope
