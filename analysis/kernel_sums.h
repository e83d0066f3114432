#pragma once

#include "analysis/length_figures.h"
#include "analysis/time_range.h"
#include "trace/store/opened_trace.h"
#include "trace/store/trace_reader.h"

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace pipescope {
/// How kernels of one name are launched: the grid, block, registers and shared memory that take most of their time.
struct KernelLaunch {
    std::array<std::int64_t, 3> grid{};
    std::array<std::int64_t, 3> block{};
    std::int64_t registers = 0;       ///< of a thread; 0: not known
    Bytes shared_memory = 0;          ///< of a block
    std::int64_t configurations = 0;  ///< number of different ones

    friend auto operator<=>(const KernelLaunch&, const KernelLaunch&) = default;
};

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
    std::int64_t median = 0;                  ///< of an even number, the mean of the middle two
    std::int64_t p95 = 0;                     ///< the least length that 95 % of them do not exceed
    std::optional<Bytes> bytes = {};          ///< moved by those whose size is known
    std::optional<double> bandwidth = {};     ///< bytes / their time, in bytes/s; of NCCL's kernels, waits included
    std::optional<KernelLaunch> launch = {};  ///< of kernels
};

/// The collectives, sends or receives of one type, element type, size and number of ranks. Times in ns, over all ranks.
///
/// A kernel of NCCL waits until the kernels of all ranks run, and moves data from then on. `skew` is the sum of these
/// waits, and `transfer` the rest. They are known if the trace has all ranks of the group and an equal number of such
/// kernels on each, whose n-th ones overlap.
struct CollectiveSum {
    std::string type;          ///< collective_type()
    std::string element_type;  ///< empty: not known
    Bytes bytes = 0;           ///< of one; 0: not known
    std::int64_t group_size = 0;
    std::int64_t count = 0;
    std::int64_t total = 0;
    std::int64_t shortest = 0;
    std::optional<std::int64_t> transfer = {};
    std::optional<std::int64_t> skew = {};
    std::string late_device = {};  ///< for which the others waited longest; empty: the skew is not known, or 0
    std::int64_t late_skew = 0;    ///< the part of the skew for which it came last
    std::optional<double> bus_bandwidth = {};   ///< bytes/s over the transfers; empty: a part is not known
    std::optional<double> best_bandwidth = {};  ///< bytes/s on the bus of the shortest, the most that one reached
};

/// What the devices of a run did, by name, by name and kind of task and partition, and by stream. Each list has the
/// largest totals first.
struct KernelSums {
    std::vector<KernelSum> by_name;
    std::vector<KernelSum> by_task;  ///< without work that no task launched
    std::vector<KernelSum> by_stream;
    std::vector<CollectiveSum> collectives;

    bool empty() const { return by_name.empty(); }
};

/// Adds up device work. Memory: 4 bytes for each piece of work, and 4 more if a task launched it, in lists that grow to
/// at most twice their size; 16 for each collective. A piece counts up to 4.29 s for p95.
class KernelSumming {
public:
    void add(const DeviceActivity& work);
    KernelSums sums() const;

private:
    struct Group {
        std::int64_t total = 0;
        std::vector<std::uint32_t> lengths;
        Bytes bytes = 0;
        std::int64_t time_of_bytes = 0;
        std::map<KernelLaunch, std::int64_t> launches;  // and their time
    };
    static KernelSum sum_of(const Group& group);
    static void add_facts(Group& group, const WorkFacts& facts, std::int64_t length);
    void add_collective(const DeviceActivity& work);
    std::vector<CollectiveSum> collectives() const;

    std::uint32_t number_of(std::string_view text);

    std::map<std::string, std::uint32_t, std::less<>> numbers_;
    std::vector<std::string> texts_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Group> names_;  // by name and activity
    std::map<std::tuple<TaskKind, std::int32_t, std::uint32_t, std::uint32_t>, Group> tasks_;
    std::map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> streams_;           // number and total
    using CollectiveKind = std::tuple<std::string, std::string, Bytes, std::int64_t>;  // as in CollectiveSum
    // By kind, and then by group and device.
    std::map<CollectiveKind, std::map<std::pair<std::string, std::string>, std::vector<TimeRange>>> collectives_;
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
