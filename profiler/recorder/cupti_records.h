#pragma once

#include "profiler/recorder/clock_map.h"
#include "profiler/recorder/cupti_library.h"
#include "profiler/recorder/kernel_name.h"
#include "trace/store/cupti_rows.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace pipescope {
/// Converts CUPTI's activity records to rows. Source: cupti_activity.h of CUDA 13.0. Threading: the drain thread.
class CuptiRecords {
public:
    /// `wall_clock`: true if CUPTI's times are CLOCK_REALTIME and must be converted; otherwise they already use the
    /// recording's clock.
    CuptiRecords(const CuptiFunctions& functions, std::int64_t origin, bool wall_clock);

    /// Adds a clock tuple. Call before the records of that time are written.
    void add_clocks(const ClockRecord& clocks) { clocks_.add(clocks); }
    void write(std::uint8_t* buffer, std::size_t bytes, CuptiRows& rows);

    std::int64_t incomplete() const { return incomplete_; }
    std::int64_t unknown() const { return unknown_; }

private:
    void write(const CUpti_Activity& record, CuptiRows& rows);
    void write(const CUpti_ActivityKernel10& kernel, CuptiRows& rows);
    void write(const CUpti_ActivityMemcpy6& copy, CuptiRows& rows);
    void write(const CUpti_ActivityMemcpyPtoP4& copy, CuptiRows& rows);
    void write(const CUpti_ActivityMemset4& set, CuptiRows& rows);
    void write(const CUpti_ActivityGraphTrace2& graph, CuptiRows& rows);
    void write(const CUpti_ActivityAPI& call, CuptiRows& rows);
    void write(const CUpti_ActivitySynchronization2& wait, CuptiRows& rows);
    void write(const CUpti_ActivityCudaEvent2& event, CuptiRows& rows);
    void write(const CUpti_ActivityMemory4& memory, CuptiRows& rows);
    void write(const CUpti_ActivityOverhead3& overhead, CuptiRows& rows);
    void write(const CUpti_ActivityDevice5& device, CuptiRows& rows);
    void write(const CUpti_ActivityContext3& context, CuptiRows& rows);
    void write(const CUpti_ActivityStream& stream, CuptiRows& rows);
    template <class Copy>
    void write_copy(const Copy& copy, std::optional<MemcpyRecord::Peers> peers, std::uint64_t copies, CuptiRows& rows);

    /// For activities that name a device.
    template <class Activity>
    DeviceSpan span_of(const Activity& activity, std::uint64_t graph_node) const;
    std::int64_t time(std::uint64_t timestamp) const;
    /// False if a record has no times yet; counts such records.
    bool is_complete(std::uint64_t start, std::uint64_t end);
    const std::string& name_of_call(bool driver, std::uint32_t callback);
    const KernelName& name_of_kernel(const char* mangled);
    std::uint32_t device_of(std::uint32_t context) const;

    const CuptiFunctions& functions_;
    const std::int64_t origin_;
    const bool wall_clock_;
    ClockMap clocks_;
    std::map<std::pair<bool, std::uint32_t>, std::string> call_names_;
    std::unordered_map<std::string, KernelName> kernel_names_;
    std::map<std::uint32_t, std::uint32_t> devices_;  // by context
    std::int64_t incomplete_ = 0;
    std::int64_t unknown_ = 0;
};
}  // namespace pipescope
