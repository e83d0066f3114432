// A libcupti.so.13 without a GPU: it puts records emitted by a test into its client's buffers. Environment variables:
// FAKE_CUPTI_VERSION; FAKE_CUPTI_SUBSCRIBE: the result of subscribing, with FAKE_CUPTI_HOLDER: the current subscriber;
// FAKE_CUPTI_NO_CLOCK: refuses the client's clock; FAKE_CUPTI_REFUSE: a kind that cannot be enabled;
// FAKE_CUPTI_DROPPED: number of records lost inside; FAKE_CUPTI_FAIL: a function that fails.
//
// As strict as the real one: the process ends if its client breaks a rule that would cost records, times or memory.
// Threads are identified by pthread_self by default. A thread of CUPTI's own delivers full buffers. A buffer with
// unfinished work is delivered only by a forced flush.

#include "fake_cupti.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

namespace {
struct Buffer {
    std::uint8_t* data = nullptr;
    std::size_t size = 0;
    std::size_t used = 0;
    std::size_t unfinished = 0;
};

std::mutex mutex;
Buffer current;
std::set<const std::uint8_t*> held;  // of the client's buffers
std::vector<CUpti_ActivityKernel10*> unfinished_kernels;
bool zeroed_by_client = false;
bool system_thread_ids = false;
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

[[noreturn]] void breach(const char* rule) {
    std::fprintf(stderr, "fake CUPTI: %s\n", rule);
    std::abort();
}

const char* setting(const char* name) {
    return std::getenv(name);
}
bool fails(std::string_view function) {
    return setting("FAKE_CUPTI_FAIL") != nullptr && function == setting("FAKE_CUPTI_FAIL");
}

/// Delivers without the lock, since the client may call back. Unless `forced`, keeps a buffer with unfinished work.
void complete(bool forced) {
    Buffer full;
    {
        const std::scoped_lock lock(mutex);
        if (!forced && current.unfinished > 0) {
            return;
        }
        std::swap(full, current);
        held.erase(full.data);
    }
    if (full.data != nullptr) {
        hand_over(nullptr, 0, full.data, full.size, full.used);
    }
}

/// Precondition: the lock is held.
void request_buffer() {
    constexpr std::uintptr_t kAlignment = 8;
    std::size_t most_records = 1;
    request(&current.data, &current.size, &most_records);
    if (current.data == nullptr) {
        return;
    }
    if (reinterpret_cast<std::uintptr_t>(current.data) % kAlignment != 0) {
        breach("a buffer must be aligned to 8 bytes");
    }
    if (most_records != 0) {
        breach("a buffer's number of records is bounded");
    }
    if (!held.insert(current.data).second) {
        breach("a buffer was handed out twice");
    }
    if (!zeroed_by_client) {
        std::memset(current.data, 0, current.size);
    } else if (std::any_of(current.data, current.data + current.size, [](std::uint8_t byte) { return byte != 0; })) {
        breach("a buffer must come with zeros, as its owner said");
    }
}

void set_thread(void* record, CUpti_ActivityKind kind) {
    if (system_thread_ids) {
        return;  // emitted so
    }
    const auto thread = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pthread_self()));
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME || kind == CUPTI_ACTIVITY_KIND_DRIVER) {
        static_cast<CUpti_ActivityAPI*>(record)->threadId = thread;
    } else if (kind == CUPTI_ACTIVITY_KIND_OVERHEAD) {
        static_cast<CUpti_ActivityOverhead3*>(record)->objectId.pt.threadId = thread;
    }
}

/// Ignores a record of a disabled kind. Loses a record without space.
void put(const void* record, std::size_t bytes, bool unfinished) {
    CUpti_ActivityKind kind{};
    std::memcpy(&kind, record, sizeof(kind));
    bool full = false;
    {
        const std::scoped_lock lock(mutex);
        if (request == nullptr || (!enabled.contains(kind) && kind != CUPTI_ACTIVITY_KIND_NAME)) {
            return;
        }
        full = current.data != nullptr && current.used + aligned(bytes) > current.size;
    }
    if (full) {
        std::thread([] { complete(true); }).join();
    }
    const std::scoped_lock lock(mutex);
    if (current.data == nullptr) {
        request_buffer();
    }
    if (current.data == nullptr || current.used + aligned(bytes) > current.size) {
        ++dropped;
        return;
    }
    std::uint8_t* at = current.data + current.used;
    std::memcpy(at, record, bytes);
    set_thread(at, kind);
    current.used += aligned(bytes);
    if (unfinished) {
        unfinished_kernels.push_back(reinterpret_cast<CUpti_ActivityKernel10*>(at));
        ++current.unfinished;
    }
}

void emit(const void* record, std::size_t bytes) {
    put(record, bytes, false);
}

void emit_unfinished(const void* record, std::size_t bytes) {
    put(record, bytes, true);
}

void finish_all(std::uint64_t end) {
    const std::scoped_lock lock(mutex);
    for (CUpti_ActivityKernel10* kernel : unfinished_kernels) {
        kernel->end = end;
    }
    unfinished_kernels.clear();
    current.unfinished = 0;
}
}  // namespace

extern "C" {
const FakeCupti fake_cupti{emit, now, emit_unfinished, finish_all};

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
CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
    if (fails("cuptiSetThreadIdType")) {
        return CUPTI_ERROR_UNKNOWN;
    }
    system_thread_ids = type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
    if (setting("FAKE_CUPTI_NO_CLOCK") != nullptr) {
        return CUPTI_ERROR_UNKNOWN;
    }
    if (!enabled.empty()) {
        breach("a clock must be registered before any kind is enabled");
    }
    timestamp = function;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, std::size_t* bytes, void* value) {
    if (!enabled.empty()) {
        breach("attributes of buffers must be set before any kind is enabled");
    }
    if (fails("cuptiActivitySetAttribute")) {
        return CUPTI_ERROR_UNKNOWN;
    }
    if (attribute != CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER || *bytes != sizeof(std::uint8_t)) {
        return CUPTI_ERROR_INVALID_PARAMETER;
    }
    zeroed_by_client = *static_cast<const std::uint8_t*>(value) != 0;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
    if (fails("cuptiActivityRegisterCallbacks")) {
        return CUPTI_ERROR_UNKNOWN;
    }
    request = requested;
    hand_over = completed;
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
    if (setting("FAKE_CUPTI_REFUSE") != nullptr && std::atoi(setting("FAKE_CUPTI_REFUSE")) == kind) {
        return CUPTI_ERROR_NOT_COMPATIBLE;
    }
    const std::scoped_lock lock(mutex);
    enabled.insert(kind);
    return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
    const std::scoped_lock lock(mutex);
    enabled.erase(kind);
    return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t flag) {
    if (request == nullptr) {
        return CUPTI_ERROR_INVALID_OPERATION;
    }
    if (fails("cuptiActivityFlushAll")) {
        return CUPTI_ERROR_UNKNOWN;
    }
    complete(flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
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
    if (fails("cuptiActivityGetNumDroppedRecords")) {
        return CUPTI_ERROR_UNKNOWN;
    }
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

// Handle 0x1000 + n is stream n; other handles are unknown.
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
