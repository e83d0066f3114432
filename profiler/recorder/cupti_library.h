#pragma once

#include <cupti.h>

#include <memory>
#include <string>

namespace pipescope {
/// The CUPTI functions in use, with their names in CUPTI. Optional functions are null if the library lacks them.
struct CuptiFunctions {
    decltype(&::cuptiGetVersion) get_version = nullptr;
    decltype(&::cuptiSubscribe_v2) subscribe_v2 = nullptr;
    decltype(&::cuptiSubscribe) subscribe = nullptr;
    decltype(&::cuptiUnsubscribe) unsubscribe = nullptr;
    decltype(&::cuptiSetThreadIdType) set_thread_id_type = nullptr;
    decltype(&::cuptiActivityRegisterTimestampCallback) register_timestamp = nullptr;
    decltype(&::cuptiActivitySetAttribute) set_attribute = nullptr;
    decltype(&::cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
    decltype(&::cuptiActivityEnable) enable = nullptr;
    decltype(&::cuptiActivityDisable) disable = nullptr;
    decltype(&::cuptiActivityEnableRuntimeApi) enable_runtime_api = nullptr;
    decltype(&::cuptiActivityEnableDriverApi) enable_driver_api = nullptr;
    decltype(&::cuptiActivityEnableAllSyncRecords) enable_all_sync_records = nullptr;
    decltype(&::cuptiActivityEnableCudaEventDeviceTimestamps) enable_event_timestamps = nullptr;
    decltype(&::cuptiActivityFlushAll) flush_all = nullptr;
    decltype(&::cuptiActivityGetNextRecord) next_record = nullptr;
    decltype(&::cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
    decltype(&::cuptiGetCallbackName) callback_name = nullptr;
    decltype(&::cuptiGetStreamIdEx) stream_id = nullptr;
    decltype(&::cuptiGetResultString) result_string = nullptr;
};

/// The loaded CUPTI library with a subscription, which is exclusive: all activity buffers are ours. Threading: any
/// thread.
class CuptiLibrary {
public:
    /// Loads the driver and, only if it has a device, CUPTI. Has only `reason` if one of them is missing, too old, or
    /// in use by another tool.
    struct Opened {
        std::unique_ptr<CuptiLibrary> library;
        std::string reason;
        bool device_present = false;
    };
    static Opened open();
    ~CuptiLibrary();  // unsubscribes; the library stays loaded, since its callbacks may still run
    CuptiLibrary(const CuptiLibrary&) = delete;
    CuptiLibrary& operator=(const CuptiLibrary&) = delete;

    const CuptiFunctions& functions() const { return functions_; }
    std::uint32_t version() const { return version_; }
    /// For example "CUPTI_ERROR_UNKNOWN (999)".
    std::string name_of(CUptiResult result) const;

private:
    CuptiLibrary() = default;
    std::string subscribe();  // empty, or the reason for a failure

    CuptiFunctions functions_;
    std::uint32_t version_ = 0;
    CUpti_SubscriberHandle subscriber_ = nullptr;
};
}  // namespace pipescope
