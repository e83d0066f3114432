#include "profiler/memory/device_listening.h"

#include "engine/tsan_annotations.h"
#include "profiler/memory/charged_block.h"
#include "profiler/memory/device_blocks.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
using c10::DebugInfoKind;
using c10::ThreadLocalDebugInfo;
using namespace torch::profiler::impl;

thread_local int inputs_owner = 0;

Charge charge_of_this_thread() {
    Charge charge = host_charge();
    charge.log = nullptr;  // the log is for the host
    if (charge.owner == 0 && inputs_owner != 0) {
        charge = {.owner = inputs_owner, .later = MemoryCategory::boundary, .in_task = false};
    }
    return charge;
}

/// Looks like a disabled profiler to torch, which casts any object in the slot to its own type to query it.
class Listener final : public ProfilerStateBase {
public:
    explicit Listener(std::optional<Charge> charge)
        : ProfilerStateBase(ProfilerConfig(ProfilerState::Disabled)), charge_(charge) {}

    ActiveProfilerType profilerType() override { return ActiveProfilerType::NONE; }

    /// Called under the lock of the device's allocator, which must not be called from here.
    void reportMemoryUsage(void* data, std::int64_t bytes, std::size_t /*total_allocated*/, std::size_t total_reserved,
                           c10::Device device) override {
        if (device.is_cpu() || device.is_meta() || data == nullptr) {
            return;
        }
        tsan_acquire(this);  // on autograd's threads, their queue synchronises
        const Charge charge = charge_ ? *charge_ : charge_of_this_thread();
        if (bytes > 0) {
            device_blocks::taken(device, data, bytes, charge);
        } else {
            device_blocks::freed(device, data, charge.log);
        }
        device_blocks::set_reserved(device, static_cast<Bytes>(total_reserved));
    }

private:
    const std::optional<Charge> charge_;
};

const Listener* current_listener() {
    return dynamic_cast<const Listener*>(ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE));
}

/// One listener per owner and category, never destroyed: threads started by the slot's holder (autograd's) may release
/// it at any time. A log gets its own listener.
std::shared_ptr<Listener> listener_for(const std::optional<Charge>& charge) {
    if (charge && charge->log != nullptr) {
        return std::make_shared<Listener>(charge);
    }
    struct Kept {
        std::mutex mutex;
        std::map<std::pair<int, MemoryCategory>, std::shared_ptr<Listener>> listeners;
    };
    static auto* const kept = new Kept;
    constexpr int kOfThread = -1;
    const auto key =
        charge ? std::pair(charge->owner, charge->later) : std::pair(kOfThread, MemoryCategory::parameters);
    const std::lock_guard lock(kept->mutex);
    std::shared_ptr<Listener>& listener = kept->listeners[key];
    if (!listener) {
        listener = std::make_shared<Listener>(charge);
    }
    return listener;
}

const void* listen(std::optional<Charge> charge) {
    if (ThreadLocalDebugInfo::get(DebugInfoKind::PROFILER_STATE) != nullptr && current_listener() == nullptr) {
        return nullptr;
    }
    const std::shared_ptr<Listener> listener = listener_for(charge);
    tsan_release(listener.get());
    ThreadLocalDebugInfo::_push(DebugInfoKind::PROFILER_STATE, listener);
    return listener.get();
}
}  // namespace

DeviceListening::DeviceListening() : before_(ThreadLocalDebugInfo::current()), listener_(listen({})) {}

DeviceListening::DeviceListening(const Charge& charge)
    : before_(ThreadLocalDebugInfo::current()), listener_(listen(charge)) {}

DeviceListening::~DeviceListening() {
    // The thread's state may have changed meanwhile: autograd's threads take the state of each backward.
    if (listener_ != nullptr && current_listener() == listener_) {
        ThreadLocalDebugInfo::_forceCurrentDebugInfo(before_);
    }
}

bool DeviceListening::hears() {
    return current_listener() != nullptr;
}

void charge_inputs_to(int owner) {
    inputs_owner = owner;
}
}  // namespace pipescope
