#pragma once

#include <filesystem>
#include <string>

namespace pipescope {
/// A temporary folder for a trace, removed on destruction.
class TemporaryTrace {
public:
    /// Throws Error if the system's temporary folder is not writable. `name`: of the file.
    explicit TemporaryTrace(const std::string& name = "run.sqlite");
    ~TemporaryTrace();
    TemporaryTrace(const TemporaryTrace&) = delete;
    TemporaryTrace& operator=(const TemporaryTrace&) = delete;

    std::filesystem::path path() const { return folder_ / name_; }

private:
    std::string name_;
    std::filesystem::path folder_;
};
}  // namespace pipescope
