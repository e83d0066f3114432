#pragma once

#include <filesystem>

namespace pipescope {
/// The system's folder for temporary files. Throws Error if TMPDIR does not name a folder.
std::filesystem::path system_temporary_folder();

/// A new temporary folder of this user, removed on destruction. If a process is killed, its folder stays until another
/// process makes one in the same place. A lock tells whether the folder's process is alive, so the folders of other
/// hosts and containers are safe too.
class ScratchFolder {
public:
    /// Throws Error if the folder cannot be made.
    explicit ScratchFolder(const std::filesystem::path& parent = system_temporary_folder());
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    const std::filesystem::path& path() const noexcept { return path_; }

    static constexpr const char* kPrefix = "pipescope-scratch-";

private:
    std::filesystem::path path_;
    int lock_;
};
}  // namespace pipescope
