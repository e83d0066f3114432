#pragma once

#include <optional>

namespace pipescope {
/// Other load on the machine during a measurement, as shares of the usable cores' time.
struct MachineLoad {
    double others = 0;               ///< taken by other processes
    double stolen = 0;               ///< taken by the host of the virtual machine
    std::optional<double> pressure;  ///< share of the time in which some task on the machine waited for a core

    friend bool operator==(const MachineLoad&, const MachineLoad&) = default;
};

/// Above this share, measured times reflect the load as much as the program.
inline constexpr double kNotableLoad = 0.05;

/// True if other processes or the hypervisor took a notable share.
inline bool is_notable(const MachineLoad& load) {
    return load.others > kNotableLoad || load.stolen > kNotableLoad;
}
}  // namespace pipescope
