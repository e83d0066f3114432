#pragma once

#include <filesystem>

namespace pipescope {
// Traces that another host is writing. Their write-ahead log is shared through memory that hosts do not share, so
// SQLite must not open them here: it could read nonsense, and disturb the writer.

/// True if the file is on a disk that several hosts may have: NFS, SMB, Lustre and others, or below one of the folders
/// in PIPESCOPE_SHARED_DISKS, which are separated by colons.
bool is_on_shared_disk(const std::filesystem::path& file);
/// True if the trace must be copied to be read: it is on a shared disk, and has a write-ahead log.
bool grows_on_shared_disk(const std::filesystem::path& trace);
/// Copies all that is committed into the new file `to`, which needs no log. Waits while the writer begins its log anew.
/// Cost: that of copying the file. Errors: TraceError.
void copy_growing_trace(const std::filesystem::path& trace, const std::filesystem::path& to);

/// The file to open in place of a trace: the trace, or a temporary copy if it grows on a shared disk. The copy is
/// removed with the object; connections that are open keep its content. Errors: those of copy_growing_trace().
class OpenablePath {
public:
    explicit OpenablePath(const std::filesystem::path& trace);
    OpenablePath(const OpenablePath&) = delete;
    OpenablePath& operator=(const OpenablePath&) = delete;
    ~OpenablePath();

    const std::filesystem::path& path() const { return copy_.empty() ? trace_ : copy_; }

private:
    std::filesystem::path trace_;
    std::filesystem::path copy_;  // empty: none
};
}  // namespace pipescope
