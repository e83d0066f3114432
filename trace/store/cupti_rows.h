#pragma once

#include "trace/store/trace_writer.h"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace pipescope {
// Activity of a CUDA device as CUPTI reports it. Numbers and enumerators are CUPTI's; times are in ns since the start
// of the recording. CuptiRows converts the numbers to nsys', which differ in places.

/// An activity on a device.
struct DeviceSpan {
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::uint32_t device = 0;
    std::uint32_t context = 0;
    std::uint32_t stream = 0;
    std::uint32_t correlation = 0;  ///< the same as in the API call that launched it
    std::uint64_t graph_node = 0;   ///< 0: not launched by a graph
};

struct KernelRecord {
    DeviceSpan span;
    std::string_view mangled_name{};
    std::string_view demangled_name{};
    std::string_view short_name{};  ///< without arguments, template arguments and namespaces
    int launch_type = 0;            ///< CUpti_ActivityLaunchType
    int cache_config = 0;           ///< CUfunc_cache, as executed
    std::int64_t registers_per_thread = 0;
    std::array<std::int64_t, 3> grid{};
    std::array<std::int64_t, 3> block{};
    std::int64_t static_shared_memory = 0;
    std::int64_t dynamic_shared_memory = 0;
    std::int64_t local_memory_per_thread = 0;
    std::int64_t local_memory_total = 0;
    std::int64_t grid_id = 0;
    std::int64_t shared_memory_executed = 0;
    int shared_memory_limit = 0;  ///< CUpti_FuncShmemLimitConfig
};

struct MemcpyRecord {
    DeviceSpan span;
    std::uint64_t bytes = 0;
    int copy_kind = 0;         ///< CUpti_ActivityMemcpyKind
    int source_kind = 0;       ///< CUpti_ActivityMemoryKind
    int destination_kind = 0;  ///< CUpti_ActivityMemoryKind
    /// Devices and contexts of both ends, for a peer copy only.
    struct Peers {
        std::uint32_t source_device = 0;
        std::uint32_t source_context = 0;
        std::uint32_t destination_device = 0;
        std::uint32_t destination_context = 0;
    };
    std::optional<Peers> peers{};
    std::uint64_t copies = 1;  ///< number of copies batched into this one
};

struct MemsetRecord {
    DeviceSpan span;
    std::uint32_t value = 0;
    std::uint64_t bytes = 0;
    int memory_kind = 0;  ///< CUpti_ActivityMemoryKind
};

struct GraphRecord {
    DeviceSpan span;
    std::uint32_t graph = 0;
};

/// A call of the CUDA runtime or driver API.
struct ApiRecord {
    std::int64_t start = 0;
    std::int64_t end = 0;
    bool driver = false;
    std::uint32_t thread = 0;
    std::uint32_t correlation = 0;
    std::string_view name{};
    std::uint32_t return_value = 0;
};

struct SynchronizationRecord {
    DeviceSpan span;
    int type = 0;  ///< CUpti_ActivitySynchronizationType
    std::uint32_t event = 0;
    std::uint64_t event_sync = 0;  ///< the same as in the CudaEventRecord it waited for
};

struct CudaEventRecord {
    std::int64_t timestamp = 0;  ///< when the device reached it; 0: not recorded
    std::uint32_t device = 0;
    std::uint32_t context = 0;
    std::uint32_t stream = 0;
    std::uint32_t correlation = 0;
    std::uint32_t event = 0;
    std::uint64_t event_sync = 0;
};

/// Device memory allocated or freed.
struct DeviceMemoryRecord {
    std::int64_t time = 0;
    std::uint32_t device = 0;
    std::uint32_t context = 0;
    std::uint32_t stream = 0;
    std::uint32_t correlation = 0;
    std::uint64_t address = 0;
    std::uint64_t program_counter = 0;
    std::uint64_t bytes = 0;
    int memory_kind = 0;  ///< CUpti_ActivityMemoryKind
    int operation = 0;    ///< CUpti_ActivityMemoryOperationType
    std::string_view name{};
};

/// Time that CUPTI or the driver itself used.
struct CuptiOverheadRecord {
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::uint32_t thread = 0;  ///< 0: not on a thread
    std::uint32_t correlation = 0;
    int kind = 0;  ///< CUpti_ActivityOverheadKind
};

struct DeviceRecord {
    std::uint32_t device = 0;
    std::string_view name{};
    std::string uuid{};
    std::int64_t total_memory = 0;
    std::int64_t l2_cache = 0;
    std::int64_t memory_bandwidth = 0;  ///< bytes/s
    std::int64_t clock_rate = 0;        ///< Hz
    std::int64_t multiprocessors = 0;
    int compute_major = 0;
    int compute_minor = 0;
};

struct ContextRecord {
    std::uint32_t context = 0;
    std::uint32_t device = 0;
    std::uint32_t null_stream = 0;
    std::uint32_t parent = 0;
    bool green = false;
};

struct StreamRecord {
    std::uint32_t stream = 0;
    std::uint32_t context = 0;
    std::uint32_t priority = 0;
    int flag = 0;  ///< CUpti_ActivityStreamFlag
};

/// Synchronizations name a context but no device. The device is looked up when the recording ends.
inline constexpr std::uint32_t kUnknownDevice = 0xffff'ffff;

/// Writes rows of nsys' CUPTI_ACTIVITY_KIND_, CUDA_GPU_ and TARGET_INFO_ tables. `writer` must outlive this object, and
/// stay open while it lives. Threading: as the writer. Errors: TraceError.
class CuptiRows {
public:
    CuptiRows(TraceWriter& writer, std::int64_t pid);
    ~CuptiRows();
    CuptiRows(const CuptiRows&) = delete;
    CuptiRows& operator=(const CuptiRows&) = delete;

    void add(const KernelRecord& kernel);
    void add(const MemcpyRecord& copy);
    void add(const MemsetRecord& set);
    void add(const GraphRecord& graph);
    void add(const ApiRecord& call);
    void add(const SynchronizationRecord& wait);
    void add(const CudaEventRecord& event);
    void add(const DeviceMemoryRecord& memory);
    void add(const CuptiOverheadRecord& overhead);
    void add(const DeviceRecord& device);
    void add(const ContextRecord& context);
    void add(const StreamRecord& stream);
    /// Completes earlier rows with information from later ones. Call once, after the last row.
    void finish();

    std::int64_t rows() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// A name that the program gave to a CUDA or system object with NVTX. A row of PIPESCOPE_RESOURCE.
struct NamedResource {
    std::string kind;  ///< "CUDA stream", "pthread mutex", ..
    std::int64_t domain = 0;
    std::uint64_t identifier = 0;  ///< address, handle or number
    std::string name;
    std::optional<std::uint32_t> stream;  ///< for a CUDA stream: streamId of its kernels and copies, if known
};
/// Throws SQLite::Exception.
void add_named_resource(SQLite::Database& db, const NamedResource& resource);
}  // namespace pipescope
