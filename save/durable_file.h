#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace pipescope {
/// A new file that is on the disk once finish() returns. Without finish(), the destructor removes it.
class DurableFile {
public:
    /// Throws SaveError if it exists or cannot be made.
    explicit DurableFile(std::filesystem::path path);
    ~DurableFile();
    DurableFile(const DurableFile&) = delete;
    DurableFile& operator=(const DurableFile&) = delete;

    /// Throws SaveError if the disk is full.
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
    void finish();

private:
    void close() noexcept;

    std::filesystem::path path_;
    int file_;
    bool is_finished_ = false;
};

/// Waits until the folder's new and renamed entries are on the disk. Returns the error number, 0 without an error.
int flush_folder(const std::filesystem::path& folder);
/// flush_folder(). Throws SaveError.
void sync_folder(const std::filesystem::path& folder);

/// Throws SaveError: `action` failed on `path` for the reason in errno.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, std::string_view action);
}  // namespace pipescope
