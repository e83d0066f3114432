// A libcupti.so.13 without a GPU: it takes the records a test emits through the buffers its client hands out. Set in
// the environment: FAKE_CUPTI_VERSION; FAKE_CUPTI_SUBSCRIBE, what subscribing gives, with FAKE_CUPTI_HOLDER, who has
// it; FAKE_CUPTI_NO_CLOCK, which refuses a clock of the client's; FAKE_CUPTI_REFUSE, a kind that cannot be enabled;
// FAKE_CUPTI_DROPPED, so many records were lost inside.

#include "fake_cupti.h"

#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace {
struct Buffer {
    std::uint8_t* data = nullptr;
    std::size_t size = 0;
    std::size_t used = 0;
};

std::mutex mutex;
Buffer current;
std::set<CUpti_ActivityKind> enabled;
std::size_t dropped = 0;
bool dropped_inside_told = false;
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc hand_over = nullptr;
CUpti_TimestampCallbackFunc timestamp = nullptr;

const std::map<CUpti_ActivityKind, std::size_t>& sizes() {
    static const std::map<CUpti_ActivityKind, std::size_t> all = {
        {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof(CUpti_ActivityKernel10)},
        {CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(CUpti_ActivityMemcpy6)},
        {CUPTI_ACTIVITY_KIND_MEMCPY2, sizeof(CUpti_ActivityMemcpyPtoP4)},
        {CUPTI_ACTIVITY_KIND_MEMSET, sizeof(CUpti_ActivityMemset4)},
        {CUPTI_ACTIVITY_KIND_RUNTIME, sizeof(CUpti_ActivityAPI)},
        {CUPTI_ACTIVITY_KIND_DRIVER, sizeof(CUpti_ActivityAPI)},
        {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, sizeof(CUpti_ActivitySynchronization2)},
        {CUPTI_ACTIVITY_KIND_CUDA_EVENT, sizeof(CUpti_ActivityCudaEvent2)},
        {CUPTI_ACTIVITY_KIND_MEMORY2, sizeof(CUpti_ActivityMemory4)},
        {CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof(CUpti_ActivityOverhead3)},
        {CUPTI_ACTIVITY_KIND_DEVICE, sizeof(CUpti_ActivityDevice5)},
        {CUPTI_ACTIVITY_KIND_CONTEXT, sizeof(CUpti_ActivityContext3)},
        {CUPTI_ACTIVITY_KIND_STREAM, sizeof(CUpti_ActivityStream)},
        {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, sizeof(CUpti_ActivityGraphTrace2)},
        {CUPTI_ACTIVITY_KIND_NAME, sizeof(CUpti_ActivityName)},  // one that nobody asked for
    };
    return all;
}

std::size_t aligned(std::size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

std::uint64_t now() {
    if (timestamp != nullptr) {
        return timestamp();
    }
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

/// Without the lock, since the client may call back.
void complete() {
    Buffer full;
    {
        const std::scoped_lock lock(mutex);
        std::swap(full, current);
    }
    if (full.data != nullptr) {
        hand_over(nullptr, 0, full.data, full.size, full.used);
    }
}

void emit(const void* record, std::size_t bytes) {
    CUpti_ActivityKind kind{};
    std::memcpy(&kind, record, sizeof(kind));
    if (request == nullptr || (!enabled.contains(kind) && kind != CUPTI_ACTIVITY_KIND_NAME)) {
        return;
    }
    bool full = false;
    {
        const std::scoped_lock lock(mutex);
        full = current.data != nullptr && current.used + aligned(bytes) > current.size;
    }
    if (full) {
        complete();
    }
    if (current.data == nullptr) {
        std::size_t most_records = 1;
        request(&current.data, &current.size, &most_records);
    }
    const std::scoped_lock lock(mutex);
    if (current.data == nullptr || aligned(bytes) > current.size) {
        ++dropped;
        return;
    }
    std::memcpy(current.data + current.used, record, bytes);
    current.used += aligned(bytes);
}

const char* setting(const char* name) {
    return std::getenv(name);
}
}  // namespace

extern "C" {
const FakeCupti fake_cupti{emit, now, complete};

CUptiResult CUPTIAPI cuptiGetVersion(std::uint32_t* version) {
    *version = setting("FAKE_CUPTI_VERSION") == nullptr
                   ? CUPTI_API_VERSION
                   : static_cast<std::uint32_t>(std::atoi(setting("FAKE_CUPTI_VERSION")));
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc, void*,
                                       CUpti_SubscriberParams* parameters) {
    if (setting("FAKE_CUPTI_SUBSCRIBE") != nullptr) {
        if (setting("FAKE_CUPTI_HOLDER") != nullptr) {
            std::snprintf(parameters->oldSubscriberName, parameters->oldSubscriberSize, "%s",
                          setting("FAKE_CUPTI_HOLDER"));
        }
        return static_cast<CUptiResult>(std::atoi(setting("FAKE_CUPTI_SUBSCRIBE")));
    }
    *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&current);
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*) {
    return CUPTI_ERROR_UNKNOWN;
}
CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle) {
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType) {
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
    if (setting("FAKE_CUPTI_NO_CLOCK") != nullptr) {
        return CUPTI_ERROR_UNKNOWN;
    }
    timestamp = function;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
    request = requested;
    hand_over = completed;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
    if (setting("FAKE_CUPTI_REFUSE") != nullptr && std::atoi(setting("FAKE_CUPTI_REFUSE")) == kind) {
        return CUPTI_ERROR_NOT_COMPATIBLE;
    }
    enabled.insert(kind);
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
    enabled.erase(kind);
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t) {
    complete();
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
    auto* at = reinterpret_cast<std::uint8_t*>(*record);
    std::uint8_t* next = at == nullptr ? buffer : at + aligned(sizes().at((*record)->kind));
    if (next >= buffer + bytes) {
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    }
    *record = reinterpret_cast<CUpti_Activity*>(next);
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* count) {
    const std::scoped_lock lock(mutex);
    *count = dropped;
    dropped = 0;
    if (setting("FAKE_CUPTI_DROPPED") != nullptr && !dropped_inside_told) {
        *count += static_cast<std::size_t>(std::atoi(setting("FAKE_CUPTI_DROPPED")));
        dropped_inside_told = true;
    }
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, std::uint32_t callback, const char** name) {
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && callback == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000) {
        *name = "cudaLaunchKernel_v7000";
        return CUPTI_SUCCESS;
    }
    return CUPTI_ERROR_INVALID_PARAMETER;
}

// Handle 0x1000 + n is stream n; others it does not know.
CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext, CUstream stream, std::uint8_t, std::uint32_t* number) {
    const auto handle = reinterpret_cast<std::uintptr_t>(stream);
    if (handle < 0x1000) {
        return CUPTI_ERROR_INVALID_STREAM;
    }
    *number = static_cast<std::uint32_t>(handle - 0x1000);
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
    *text = result == CUPTI_ERROR_NOT_COMPATIBLE ? "CUPTI_ERROR_NOT_COMPATIBLE" : "CUPTI_ERROR_UNKNOWN";
    return CUPTI_SUCCESS;
}
}
