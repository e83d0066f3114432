#include "profiler/recorder/cupti_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace pipescope {
namespace {
// The record structures come from our headers' release. Releases of the same major version keep their beginnings.
constexpr std::uint32_t kOldestVersion = 130000;
constexpr std::uint32_t kVersionsEnd = 140000;
constexpr const char* kLibraryName = "libcupti.so.13";

template <class Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

/// Why the driver offers no device; otherwise empty.
std::string driver_fault() {
    // Stays loaded: unloading an initialised driver is unsafe.
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        return "there is no CUDA driver (libcuda.so.1 is not found)";
    }
    decltype(&::cuInit) initialise = nullptr;
    decltype(&::cuDeviceGetCount) count_devices = nullptr;
    if (!find(library, "cuInit", initialise) || !find(library, "cuDeviceGetCount", count_devices)) {
        return "libcuda.so.1 lacks the driver's functions; install the NVIDIA driver again";
    }
    if (const CUresult result = initialise(0); result != CUDA_SUCCESS) {
        return fmt::format("the CUDA driver does not start (cuInit gives {})", static_cast<int>(result));
    }
    int devices = 0;
    if (count_devices(&devices) != CUDA_SUCCESS || devices == 0) {
        return "the CUDA driver finds no device";
    }
    return {};
}

void* load_library() {
    if (const char* chosen = std::getenv("PIPESCOPE_CUPTI"); chosen != nullptr && *chosen != '\0') {
        return dlopen(chosen, RTLD_LAZY | RTLD_LOCAL);
    }
    // Loaded by name, to get the library that the program (libtorch) may have loaded already: a process must never have
    // two.
    if (void* library = dlopen(kLibraryName, RTLD_LAZY | RTLD_LOCAL)) {
        return library;
    }
    return dlopen("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13", RTLD_LAZY | RTLD_LOCAL);
}

/// Name of a missing required function, or empty.
std::string find_functions(void* library, CuptiFunctions& f) {
    find(library, "cuptiSubscribe_v2", f.subscribe_v2);
    find(library, "cuptiActivitySetAttribute", f.set_attribute);
    find(library, "cuptiActivityRegisterTimestampCallback", f.register_timestamp);
    find(library, "cuptiActivityEnableRuntimeApi", f.enable_runtime_api);
    find(library, "cuptiActivityEnableDriverApi", f.enable_driver_api);
    find(library, "cuptiActivityEnableAllSyncRecords", f.enable_all_sync_records);
    find(library, "cuptiActivityEnableCudaEventDeviceTimestamps", f.enable_event_timestamps);
    find(library, "cuptiGetStreamIdEx", f.stream_id);
    find(library, "cuptiGetResultString", f.result_string);
    find(library, "cuptiGetCallbackName", f.callback_name);
    std::string missing;
    const auto require = [&](const char* name, auto& function) {
        if (!find(library, name, function) && missing.empty()) {
            missing = name;
        }
    };
    require("cuptiSubscribe", f.subscribe);
    require("cuptiUnsubscribe", f.unsubscribe);
    require("cuptiSetThreadIdType", f.set_thread_id_type);
    require("cuptiActivityRegisterCallbacks", f.register_callbacks);
    require("cuptiActivityEnable", f.enable);
    require("cuptiActivityDisable", f.disable);
    require("cuptiActivityFlushAll", f.flush_all);
    require("cuptiActivityGetNextRecord", f.next_record);
    require("cuptiActivityGetNumDroppedRecords", f.dropped_records);
    return missing;
}

/// A subscriber needs a callback; none are enabled.
void ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}
}  // namespace

CuptiLibrary::Opened CuptiLibrary::open() {
    const char* chosen = std::getenv("PIPESCOPE_CUPTI");
    if (chosen != nullptr && std::string_view(chosen) == "off") {
        return {nullptr, "PIPESCOPE_CUPTI is off", false};
    }
    if (std::string fault = driver_fault(); !fault.empty()) {
        return {nullptr, std::move(fault), false};
    }
    void* library = load_library();
    if (library == nullptr) {
        return {nullptr,
                fmt::format("{} is not found; install nvidia-cuda-cupti 13, or name the file in PIPESCOPE_CUPTI",
                            chosen != nullptr && *chosen != '\0' ? chosen : kLibraryName),
                true};
    }
    std::unique_ptr<CuptiLibrary> opened(new CuptiLibrary);
    CuptiFunctions& functions = opened->functions_;
    if (!find(library, "cuptiGetVersion", functions.get_version) ||
        functions.get_version(&opened->version_) != CUPTI_SUCCESS || opened->version_ < kOldestVersion ||
        opened->version_ >= kVersionsEnd) {
        return {nullptr,
                fmt::format("CUPTI has version {}; from {} to below {} are understood; install nvidia-cuda-cupti 13",
                            opened->version_, kOldestVersion, kVersionsEnd),
                true};
    }
    if (const std::string missing = find_functions(library, functions); !missing.empty()) {
        return {nullptr, fmt::format("CUPTI {} lacks {}; install it again", opened->version_, missing), true};
    }
    if (std::string fault = opened->subscribe(); !fault.empty()) {
        return {nullptr, std::move(fault), true};
    }
    return {std::move(opened), {}, true};
}

std::string CuptiLibrary::subscribe() {
    std::array<char, 2 * CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN> holder{};
    CUptiResult result = CUPTI_SUCCESS;
    if (functions_.subscribe_v2 != nullptr) {
        CUpti_SubscriberParams parameters{};
        parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
        parameters.subscriberName = "PipeScope";
        parameters.oldSubscriberName = holder.data();
        parameters.oldSubscriberSize = holder.size();
        result = functions_.subscribe_v2(&subscriber_, ignore_callback, nullptr, &parameters);
    } else {
        result = functions_.subscribe(&subscriber_, ignore_callback, nullptr);
    }
    if (result == CUPTI_SUCCESS) {
        return {};
    }
    subscriber_ = nullptr;
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
        holder.back() = '\0';
        return fmt::format("CUPTI is held by {}; only one tool can record CUDA devices at a time; end that one first",
                           holder.front() == '\0' ? "another tool" : holder.data());
    }
    return fmt::format("CUPTI cannot be subscribed to: {}", name_of(result));
}

CuptiLibrary::~CuptiLibrary() {
    if (subscriber_ != nullptr) {
        functions_.unsubscribe(subscriber_);
    }
}

std::string CuptiLibrary::name_of(CUptiResult result) const {
    const char* name = nullptr;
    if (functions_.result_string == nullptr || functions_.result_string(result, &name) != CUPTI_SUCCESS ||
        name == nullptr) {
        name = "CUPTI error";
    }
    return fmt::format("{} ({})", name, static_cast<int>(result));
}
}  // namespace pipescope
