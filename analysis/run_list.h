#pragma once

#include "analysis/two_runs.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// The runs in a folder, as a list for those who try one change after the other.

/// A run in the list.
struct ListedRun {
    std::vector<std::filesystem::path> files;  ///< one, or those of all its processes
    ComparedRun run;                           ///< its name is relative to the folder; without bubbles by cause, and
                                               ///< without the profile and the graph of the run
    bool simulated = false;                    ///< the files hold a simulation, not a recording
    std::optional<std::int64_t> utc_ns;        ///< when it was recorded, since 1970; empty: not known
    std::optional<double> loss;                ///< of the last step that has one

    // Against the run before it in the list.
    std::optional<MeanDifference> step_change;  ///< of the step's mean, in ns; empty for the first run
    std::string why_no_change;                  ///< why it is empty although there is a run before: another batch, ..
};

/// A file that is not in the list.
struct LeftOutFile {
    std::string name;  ///< relative to the folder
    std::string why;   ///< a clause: "holds no step to compare"
};

struct RunList {
    std::vector<ListedRun> runs;  ///< by the time they were recorded (else written), then by name
    std::vector<LeftOutFile> left_out;
};

/// Reads every run in the folder and in its subfolders. The traces of a run's processes are one run. Damaged files,
/// files of other kinds, and files without a step to compare are left out. Throws TraceError if the folder cannot be
/// listed, or if it holds no run and no file at all. Calls `progress` with the share that is done, 0 to 1. Cost: reads
/// each file to its end, one after the other.
RunList list_runs(const std::filesystem::path& folder, const std::function<void(double)>& progress = {});
}  // namespace pipescope
