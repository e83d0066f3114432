#pragma once

#include "base/machine_load.h"
#include "trace/store/trace_records.h"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <vector>

namespace pipescope {
/// A reading of the cores' counters, in the system's clock ticks of 10 ms.
struct CoreTimes {
    std::int64_t total = 0;
    std::int64_t busy = 0;
    std::int64_t stolen = 0;
    std::int64_t own = 0;  ///< of this process
    int cores = 0;
    std::optional<std::int64_t> waiting_us;
};

/// Measures other load on the machine since construction: the processor time of some cores from /proc/stat, minus this
/// process's time; time stolen by the host; and pressure stall information. Linux only; gives no result if /proc lacks
/// the data.
class LoadMeter {
public:
    /// `cores`: the system's numbers; empty: all. `proc` contains stat, self/stat and pressure/cpu.
    explicit LoadMeter(std::vector<int> cores = {}, std::filesystem::path proc = "/proc");

    /// The load since construction. Empty for less than a second of the cores' time, because the system counts in steps
    /// of 10 ms.
    std::optional<MachineLoad> load() const;

private:
    std::vector<int> cores_;
    std::filesystem::path proc_;
    std::optional<CoreTimes> start_;
};

/// Measures the load up to the end of each step, as LoadMeter does for a run: over at least a second of the cores'
/// time, so for steps that are shorter also over those before. Reads the counters at most ten times in a second, which
/// takes about 0.1 ms for each hundred cores. Threading: one thread at a time.
class StepLoadMeter {
public:
    explicit StepLoadMeter(std::vector<int> cores = {}, std::filesystem::path proc = "/proc");

    /// Call it when a step has ended. `now`: any clock. Empty if the last reading was less than a tenth of a second
    /// ago, if not enough time has passed since the first one, and if /proc lacks the data.
    std::optional<StepLoad> end_step(Nanoseconds now);

private:
    std::vector<int> cores_;
    std::filesystem::path proc_;
    std::deque<CoreTimes> readings_;  // the oldest first; of the first, more than a second of the cores' time ago
    std::optional<Nanoseconds> last_;
};
}  // namespace pipescope
