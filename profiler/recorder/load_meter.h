#pragma once

#include "base/machine_load.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace pipescope {
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
    struct Times {
        std::int64_t total = 0;  // these four are in the system's clock ticks
        std::int64_t busy = 0;
        std::int64_t stolen = 0;
        std::int64_t own = 0;
        int cores = 0;
        std::optional<std::int64_t> waiting_us;
    };
    std::optional<Times> read() const;

    std::vector<int> cores_;
    std::filesystem::path proc_;
    std::optional<Times> start_;
};
}  // namespace pipescope
