#pragma once

#include "analysis/length_figures.h"
#include "trace/store/opened_trace.h"
#include "trace/store/trace_reader.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace pipescope {
/// The kernels, copies or fills of one name, or of another group. Times in ns.
struct KernelSum {
    std::string name;              ///< empty for all names of a stream
    std::string activity;          ///< "kernel", "memcpy", "memset", "graph"; empty for all of a stream
    std::string stream;            ///< "GPU 0 (NVIDIA H100), stream 7"; empty: all streams
    std::optional<TaskKind> task;  ///< of the tasks that launched them; empty: any task or none
    std::int32_t partition = -1;   ///< of these tasks; -1: any
    std::int64_t count = 0;
    std::int64_t total = 0;
    double share = 0;  ///< of the total of all device work
    double mean = 0;
    std::int64_t median = 0;  ///< of an even number, the mean of the middle two
    std::int64_t p95 = 0;     ///< the least length that 95 % of them do not exceed
};

/// What the devices of a run did, by name, by name and kind of task and partition, and by stream. Each list has the
/// largest totals first.
struct KernelSums {
    std::vector<KernelSum> by_name;
    std::vector<KernelSum> by_task;  ///< only work that a task launched
    std::vector<KernelSum> by_stream;

    bool empty() const { return by_name.empty(); }
};

/// Adds up device work. Memory: 8 bytes for each piece of work, which count up to 4.29 s each for p95.
class KernelSumming {
public:
    void add(const DeviceActivity& work);
    KernelSums sums() const;

private:
    struct Group {
        std::int64_t total = 0;
        std::vector<std::uint32_t> lengths;
    };
    static KernelSum sum_of(const Group& group);

    std::uint32_t number_of(std::string_view text);

    std::map<std::string, std::uint32_t, std::less<>> numbers_;
    std::vector<std::string> texts_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Group> names_;  // by name and activity
    std::map<std::tuple<TaskKind, std::int32_t, std::uint32_t, std::uint32_t>, Group> tasks_;
    std::map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> streams_;  // number and total
    std::int64_t all_ = 0;
};

/// The sums of another program's trace with its tracks, or of a trace in tables. Cost: O(device work).
KernelSums kernel_sums(const OpenedTrace& trace);
KernelSums kernel_sums(const TraceReader& reader);
/// Opens the file, and reads no more than needed. Errors: as open_trace().
KernelSums kernel_sums(const std::filesystem::path& path);

/// Kernels of one name and activity in two runs. Null sums: none.
struct ComparedKernels {
    KernelSum before, after;  ///< of count 0 if the run has none
};
/// By the difference of the totals, the largest first.
std::vector<ComparedKernels> compare_kernels(const KernelSums& before, const KernelSums& after);
}  // namespace pipescope
