#pragma once

#include "cli/temporary_trace.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The trace that a command reads: the only file that it was given, or a temporary one that joins several traces of one
/// run's processes. Its diagnostics hold the warnings.
class JoinedTrace {
public:
    /// Throws the errors of merge_traces().
    explicit JoinedTrace(const std::vector<std::string>& files);

    const std::filesystem::path& path() const { return path_; }

private:
    std::optional<TemporaryTrace> temporary_;
    std::filesystem::path path_;
};

/// True if all files are traces of one run's processes. One file alone is not.
bool are_of_one_run(const std::vector<std::string>& files);
}  // namespace pipescope
