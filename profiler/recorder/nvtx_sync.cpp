// Synchronization objects of the program (nvToolsExtSync.h): a wait of a thread is a range "acquire NAME", a release is
// a mark "release NAME".

#include "profiler/recorder/fork_lock.h"
#include "profiler/recorder/name_registry.h"
#include "profiler/recorder/nvtx_events.h"

#include <nvtx3/nvToolsExtSync.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// Texts are numbers of the registry.
struct SyncObject {
    std::uint32_t domain = 0;
    std::uint32_t acquire = 0;
    std::uint32_t refused = 0;
    std::uint32_t release = 0;
};

/// Handles are positions from 1. Never destroyed, since static destructors may still use them.
class SyncObjects {
public:
    SyncObjects() { hold_across_forks(mutex_, LockRank::inner); }
    static SyncObjects& of_process() {
        static auto* const one = new SyncObjects;
        return *one;
    }
    std::uint32_t add(const SyncObject& object) {
        const std::scoped_lock lock(mutex_);
        objects_.push_back(object);
        return static_cast<std::uint32_t>(objects_.size());
    }
    SyncObject of(std::uint32_t number) const {
        const std::scoped_lock lock(mutex_);
        return number >= 1 && number <= objects_.size() ? objects_[number - 1] : SyncObject{};
    }

private:
    mutable std::mutex mutex_;
    std::deque<SyncObject> objects_;
};

/// The objects that this thread waits for, with their ranges.
thread_local std::vector<std::pair<std::uint32_t, std::uint64_t>> waiting;

nvtxSyncUser_t create(nvtxDomainHandle_t domain, const nvtxSyncUserAttributes_t* attributes) {
    const std::string name = attributes == nullptr ? std::string{} : message_of(*attributes);
    NameRegistry& names = NameRegistry::of_process();
    const auto text = [&](const char* what) { return names.text(cut_text(what + name)); };
    const std::uint32_t number = SyncObjects::of_process().add(
        {from_handle(domain), text("acquire "), text("not acquired: "), text("release ")});
    names.name_resource({"user synchronization", from_handle(domain), number, name, std::nullopt});
    return to_handle<nvtxSyncUser_t>(number);
}

void destroy(nvtxSyncUser_t) {}  // its name stays in the trace

void acquire_start(nvtxSyncUser_t handle) {
    const SyncObject object = SyncObjects::of_process().of(from_handle(handle));
    if (const std::uint64_t range = emit_start(object.domain, object.acquire); range != 0) {
        waiting.emplace_back(from_handle(handle), range);
    }
}

void end_wait(nvtxSyncUser_t handle) {
    const auto last = std::find_if(waiting.rbegin(), waiting.rend(),
                                   [&](const auto& each) { return each.first == from_handle(handle); });
    if (last != waiting.rend()) {
        emit_end(last->second);
        waiting.erase(std::next(last).base());
    }
}

void acquire_failed(nvtxSyncUser_t handle) {
    end_wait(handle);
    const SyncObject object = SyncObjects::of_process().of(from_handle(handle));
    emit_mark(object.domain, object.refused);
}

void acquire_success(nvtxSyncUser_t handle) {
    end_wait(handle);
}

void releasing(nvtxSyncUser_t handle) {
    const SyncObject object = SyncObjects::of_process().of(from_handle(handle));
    emit_mark(object.domain, object.release);
}
}  // namespace

void attach_nvtx_sync(const NvtxExportTableCallbacks& callbacks) {
    const NvtxTable table(callbacks, NVTX_CB_MODULE_SYNC);
    table.set(NVTX_CBID_SYNC_DomainSyncUserCreate, create);
    table.set(NVTX_CBID_SYNC_DomainSyncUserDestroy, destroy);
    table.set(NVTX_CBID_SYNC_DomainSyncUserAcquireStart, acquire_start);
    table.set(NVTX_CBID_SYNC_DomainSyncUserAcquireFailed, acquire_failed);
    table.set(NVTX_CBID_SYNC_DomainSyncUserAcquireSuccess, acquire_success);
    table.set(NVTX_CBID_SYNC_DomainSyncUserReleasing, releasing);
}
}  // namespace pipescope
