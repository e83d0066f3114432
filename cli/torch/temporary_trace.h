#pragma once

#include <filesystem>

namespace pipescope {
/// A temporary folder for a trace, removed on destruction.
class TemporaryTrace {
public:
    /// Throws Error if the system's temporary folder is not writable.
    TemporaryTrace();
    ~TemporaryTrace();
    TemporaryTrace(const TemporaryTrace&) = delete;
    TemporaryTrace& operator=(const TemporaryTrace&) = delete;

    std::filesystem::path path() const { return folder_ / "run.sqlite"; }

private:
    std::filesystem::path folder_;
};
}  // namespace pipescope
