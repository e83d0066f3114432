#pragma once

#include <filesystem>

namespace pipescope {
/// A folder for a trace that nobody keeps: gone with this object.
class TemporaryTrace {
public:
    /// Throws Error where the system's temporary folder cannot be written.
    TemporaryTrace();
    ~TemporaryTrace();
    TemporaryTrace(const TemporaryTrace&) = delete;
    TemporaryTrace& operator=(const TemporaryTrace&) = delete;

    std::filesystem::path path() const { return folder_ / "run.sqlite"; }

private:
    std::filesystem::path folder_;
};
}  // namespace pipescope
