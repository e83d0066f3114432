#pragma once

#include <string>
#include <vector>

namespace pipescope {
/// One thing doctor looked at. `ok` false is something missing or degraded, which `detail` explains together with what
/// to do; only what is essential makes doctor fail.
struct DoctorCheck {
    std::string name;
    bool ok = false;
    std::string detail;
    bool essential = false;
};

/// Looks at this machine: programs, SQLite, cores, timers, accelerator libraries. Takes up to a second, since it starts
/// pipescope-torch.
std::vector<DoctorCheck> examine_machine();
}  // namespace pipescope
