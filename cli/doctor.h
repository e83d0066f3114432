#pragma once

#include <string>
#include <vector>

namespace pipescope {
/// One check of doctor. If `ok` is false, something is missing or degraded; `detail` explains it and gives a remedy.
/// Only essential checks make doctor fail.
struct DoctorCheck {
    std::string name;
    bool ok = false;
    std::string detail;
    bool essential = false;
};

/// Checks this machine: programs, SQLite, cores, timers, accelerator libraries. Takes up to a second, because it starts
/// pipescope-torch.
std::vector<DoctorCheck> examine_machine();
}  // namespace pipescope
