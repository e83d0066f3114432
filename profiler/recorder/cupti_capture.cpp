// DeviceCapture with CUPTI's activity interface. Source: cupti_activity.h of CUDA 13.0.

#include "profiler/recorder/cupti_buffers.h"
#include "profiler/recorder/cupti_library.h"
#include "profiler/recorder/cupti_records.h"
#include "profiler/recorder/device_capture.h"
#include "profiler/recorder/recording_clock.h"
#include "profiler/recorder/stream_numbers.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace pipescope {
namespace {
struct Kind {
    CUpti_ActivityKind kind;
    const char* name;
};
// Excludes MARKER, since our own handler receives NVTX, and GRAPH_TRACE, which would hide a graph's kernels.
constexpr std::array kKinds = {
    Kind{CUPTI_ACTIVITY_KIND_DEVICE, "devices"},         Kind{CUPTI_ACTIVITY_KIND_CONTEXT, "contexts"},
    Kind{CUPTI_ACTIVITY_KIND_STREAM, "streams"},         Kind{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels"},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},          Kind{CUPTI_ACTIVITY_KIND_MEMCPY2, "peer copies"},
    Kind{CUPTI_ACTIVITY_KIND_MEMSET, "fills"},           Kind{CUPTI_ACTIVITY_KIND_RUNTIME, "run-time calls"},
    Kind{CUPTI_ACTIVITY_KIND_DRIVER, "driver calls"},    Kind{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronizations"},
    Kind{CUPTI_ACTIVITY_KIND_CUDA_EVENT, "CUDA events"}, Kind{CUPTI_ACTIVITY_KIND_MEMORY2, "device memory"},
    Kind{CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"},
};

// Frequent calls of frameworks that are of no interest in a trace.
constexpr std::array kQuietRuntimeCalls = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetAttribute_v5000,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000};
constexpr std::array kQuietDriverCalls = {CUPTI_DRIVER_TRACE_CBID_cuKernelGetAttribute,
                                          CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState,
                                          CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent};

constexpr std::uint32_t kFlushComplete = 0;
constexpr std::uint32_t kFlushEverything = CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;

// CUPTI's callbacks have no context, so a global gives access to the running capture's buffers. They are never freed:
// CUPTI may complete a buffer at any time, and a process captures only a few times.
std::atomic<CuptiBuffers*> buffers_in_use{nullptr};

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
    CuptiBuffers* buffers = buffers_in_use.load(std::memory_order_acquire);
    *most_records = 0;  // no limit: as many as fit
    *bytes = 0;
    *buffer = buffers == nullptr ? nullptr : buffers->acquire(*bytes);
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                               std::size_t valid_bytes) {
    CuptiBuffers* buffers = buffers_in_use.load(std::memory_order_acquire);
    if (buffers != nullptr && buffer != nullptr) {
        buffers->complete({buffer, valid_bytes, context, stream});
    }
}

std::uint64_t CUPTIAPI recording_timestamp() {
    return static_cast<std::uint64_t>(recording_clock_ns());
}

/// Tells CUPTI that buffers are already zeroed. If CUPTI refuses, it zeroes them again.
void announce_zeros(const CuptiFunctions& functions) {
    std::uint8_t yes = 1;
    std::size_t bytes = sizeof(yes);
    if (functions.set_attribute != nullptr) {
        functions.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &yes);
    }
}

// CUPTI stays loaded, so a late call after the capture still gets an answer or an error.
std::atomic<decltype(&::cuptiGetStreamIdEx)> stream_id{nullptr};

std::optional<std::uint32_t> number_of(void* stream) {
    const auto function = stream_id.load(std::memory_order_acquire);
    std::uint32_t number = 0;
    const bool is_known =
        function != nullptr && function(nullptr, static_cast<CUstream>(stream), 0, &number) == CUPTI_SUCCESS;
    return is_known ? std::optional(number) : std::nullopt;
}

/// CUPTI may complete a buffer after its capture, so buffers live as long as the process. Precondition: captures start
/// one at a time.
CuptiBuffers& lasting_buffers(const CuptiFunctions& functions, const DeviceCaptureOptions& options) {
    static auto& all = *new std::vector<std::unique_ptr<CuptiBuffers>>;
    return *all.emplace_back(
        std::make_unique<CuptiBuffers>(functions.next_record, options.buffer_bytes, options.most_buffers));
}

class CuptiCapture final : public DeviceCapture {
public:
    CuptiCapture(std::unique_ptr<CuptiLibrary> library, const DeviceCaptureOptions& options)
        : library_(std::move(library)),
          buffers_(lasting_buffers(functions(), options)),
          own_clock_(set_up()),
          records_(functions(), options.origin, !own_clock_) {}
    ~CuptiCapture() override {
        if (running_) {
            stop();
        }
        for (const CuptiBuffers::Filled& filled : buffers_.take_completed()) {
            buffers_.give_back(filled.data);
        }
        buffers_.free_unused();
    }

    /// Empty, or what cannot be recorded. Without `kernels`, the capture is useless.
    std::string enable();
    bool records_kernels() const { return records_kernels_; }

    void write(CuptiRows& rows, const ClockRecord& clocks) override;
    void finish(CuptiRows& rows, const ClockRecord& clocks) override;
    DeviceCaptureCounts counts() const override;

private:
    const CuptiFunctions& functions() const { return library_->functions(); }
    /// Returns true if CUPTI uses the recording's clock for its times.
    bool set_up();
    void stop();
    void write_completed(CuptiRows& rows);
    void count_dropped(CUcontext context, std::uint32_t stream);
    void flush(std::uint32_t how);
    /// Keeps the first fault.
    void note(CUptiResult result, std::string_view function, std::string_view consequence);

    std::unique_ptr<CuptiLibrary> library_;
    CuptiBuffers& buffers_;
    std::string fault_;  // before the following members, whose initialisation may set it
    const bool own_clock_;
    CuptiRecords records_;
    bool running_ = false;
    bool records_kernels_ = false;
    std::int64_t dropped_ = 0;  // inside CUPTI
    std::int64_t rows_ = 0;
};

bool CuptiCapture::set_up() {
    const CuptiFunctions& f = functions();
    // Use the thread ids (gettid) of the ranges.
    note(f.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), "cuptiSetThreadIdType",
         "calls and kernels are not joined to threads and tasks");
    // Set before anything is enabled, so that all records use one clock: the ranges' clock, which cannot be changed.
    const bool own_clock =
        f.register_timestamp != nullptr && f.register_timestamp(recording_timestamp) == CUPTI_SUCCESS;
    announce_zeros(f);
    buffers_in_use.store(&buffers_, std::memory_order_release);
    note(f.register_callbacks(buffer_requested, buffer_completed), "cuptiActivityRegisterCallbacks",
         "nothing is handed over");
    if (f.enable_all_sync_records != nullptr) {
        f.enable_all_sync_records(0);  // queries of pending events are noise
    }
    if (f.enable_event_timestamps != nullptr) {
        f.enable_event_timestamps(1);
    }
    return own_clock;
}

std::string CuptiCapture::enable() {
    const CuptiFunctions& f = functions();
    std::string missing;
    for (const Kind& each : kKinds) {
        const CUptiResult result = f.enable(each.kind);
        if (result != CUPTI_SUCCESS) {
            missing += fmt::format("{}{}: {}", missing.empty() ? "CUPTI refuses to record " : ", ", each.name,
                                   library_->name_of(result));
        } else if (each.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            records_kernels_ = true;
        }
    }
    running_ = true;
    stream_id.store(f.stream_id, std::memory_order_release);
    stream_number.store(number_of, std::memory_order_release);
    if (f.enable_runtime_api != nullptr && f.enable_driver_api != nullptr) {
        for (const auto call : kQuietRuntimeCalls) {
            f.enable_runtime_api(call, 0);
        }
        for (const auto call : kQuietDriverCalls) {
            f.enable_driver_api(call, 0);
        }
    }
    return missing;
}

void CuptiCapture::note(CUptiResult result, std::string_view function, std::string_view consequence) {
    if (result != CUPTI_SUCCESS && fault_.empty()) {
        fault_ = fmt::format("{} gives {}: {}", function, library_->name_of(result), consequence);
    }
}

void CuptiCapture::flush(std::uint32_t how) {
    note(functions().flush_all(how), "cuptiActivityFlushAll", "an unknown amount of work on CUDA devices is missing");
}

void CuptiCapture::write(CuptiRows& rows, const ClockRecord& clocks) {
    flush(kFlushComplete);
    records_.add_clocks(clocks);
    write_completed(rows);
}

void CuptiCapture::finish(CuptiRows& rows, const ClockRecord& clocks) {
    stop();
    records_.add_clocks(clocks);
    write_completed(rows);
    count_dropped(nullptr, 0);
    rows.finish();
}

void CuptiCapture::stop() {
    running_ = false;
    stream_number.store(nullptr, std::memory_order_release);
    flush(kFlushComplete);
    for (const Kind& each : kKinds) {
        functions().disable(each.kind);
    }
    flush(kFlushEverything);
}

void CuptiCapture::write_completed(CuptiRows& rows) {
    for (const CuptiBuffers::Filled& filled : buffers_.take_completed()) {
        records_.write(filled.data, filled.bytes, rows);
        count_dropped(filled.context, filled.stream);
        buffers_.give_back(filled.data);
    }
    rows_ = rows.rows();
}

void CuptiCapture::count_dropped(CUcontext context, std::uint32_t stream) {
    std::size_t dropped = 0;  // since the last query
    const CUptiResult result = functions().dropped_records(context, stream, &dropped);
    note(result, "cuptiActivityGetNumDroppedRecords", "whether CUPTI lost records is not known");
    dropped_ += result == CUPTI_SUCCESS ? static_cast<std::int64_t>(dropped) : 0;
}

DeviceCaptureCounts CuptiCapture::counts() const {
    return {rows_, dropped_ + buffers_.thrown_away(), records_.incomplete(), records_.unknown(), buffers_.most_in_use(),
            fault_};
}
}  // namespace

DeviceCapture::Outcome DeviceCapture::start(const DeviceCaptureOptions& options) {
    CuptiLibrary::Opened opened = CuptiLibrary::open();
    if (!opened.library) {
        return {nullptr, std::move(opened.reason), opened.device_present};
    }
    auto capture = std::make_unique<CuptiCapture>(std::move(opened.library), options);
    std::string missing = capture->enable();
    if (!capture->records_kernels()) {
        return {nullptr, std::move(missing), true};
    }
    return {std::move(capture), std::move(missing), true};
}

DeviceCaptureProbe probe_device_capture() {
    const CuptiLibrary::Opened opened = CuptiLibrary::open();
    if (!opened.library) {
        return {opened.device_present, false, opened.reason};
    }
    return {true, true,
            fmt::format("CUPTI {}: kernels and copies of CUDA devices are recorded", opened.library->version())};
}
}  // namespace pipescope
