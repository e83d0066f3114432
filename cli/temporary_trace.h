#pragma once

#include "base/scratch_folder.h"
#include "cli/stop_signals.h"

#include <filesystem>
#include <string>

namespace pipescope {
/// The variable with a launcher's folder for its processes' temporary files, which the launcher removes.
inline constexpr const char* kLaunchersFolder = "PIPESCOPE_TEMPORARY_FOLDER";

/// The folder for temporary files: the launcher's if there is one, otherwise the system's. Throws Error if TMPDIR does
/// not name a folder.
std::filesystem::path temporary_folder();

/// A temporary folder for a trace, removed on destruction and when the process is killed (RemovedWhenKilled).
class TemporaryTrace {
public:
    /// `name`: of the file. Throws Error if the system's temporary folder is not writable.
    explicit TemporaryTrace(const std::string& name = "run.sqlite");

    std::filesystem::path path() const { return folder_.path() / name_; }

private:
    std::string name_;
    ScratchFolder folder_;
    RemovedWhenKilled removed_;
};
}  // namespace pipescope
