#pragma once

#include "schedule/machine_load.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace pipescope {
/// Measures what else the machine does from the object's making on: the processor time of some cores, by /proc/stat,
/// less that of this process; what the host stole; and the system's pressure stall information. Linux only; elsewhere,
/// and where /proc says nothing, there is no answer.
class LoadMeter {
public:
    /// `cores`: by the system's numbers; empty: all. `proc` holds stat, self/stat and pressure/cpu.
    explicit LoadMeter(std::vector<int> cores = {}, std::filesystem::path proc = "/proc");

    /// Since the making. Nothing before a second of the cores' time has passed: the system counts in steps of 10 ms.
    std::optional<MachineLoad> load() const;

private:
    struct Times {
        std::int64_t total = 0;  // these four in ticks of the system's clock
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
