#pragma once

#include <optional>

namespace pipescope {
/// What else the machine did while something was measured, as shares of the time of the cores that could be used.
struct MachineLoad {
    double others = 0;               ///< taken by other processes
    double stolen = 0;               ///< taken by the host of a virtual machine
    std::optional<double> pressure;  ///< share of the time in which some task of the machine waited for a core

    friend bool operator==(const MachineLoad&, const MachineLoad&) = default;
};

/// Above this share, times measured say as much of the load as of what was measured.
inline constexpr double kNotableLoad = 0.05;

/// Other processes or the host took a notable share.
inline bool is_notable(const MachineLoad& load) {
    return load.others > kNotableLoad || load.stolen > kNotableLoad;
}
}  // namespace pipescope
