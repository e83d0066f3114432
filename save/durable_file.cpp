#include "save/durable_file.h"

#include "save/save_error.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // the system writes at most 2 GiB at once

const char* remedy_of(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return "free some space, or save into another folder";
        case ENOENT: return "check the name";
        case EROFS:
        case EACCES:
        case EPERM: return "allow it, or use another folder";
        default: return "check the disk, or use another folder";
    }
}
}  // namespace

void throw_file_error(const std::filesystem::path& path, std::string_view action) {
    const int error = errno;
    throw SaveError(path.string() + " cannot be " + std::string(action) + " (" + std::strerror(error) + "); " +
                    remedy_of(error));
}

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (file_ < 0) {
        throw_file_error(path_, "made");
    }
}

DurableFile::~DurableFile() {
    close();
    if (!is_finished_) {
        unlink(path_.c_str());
    }
}

void DurableFile::write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
        if (written < 0 && errno != EINTR) {
            throw_file_error(path_, "written");
        }
        bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
}

void DurableFile::finish() {
    if (fsync(file_) != 0) {
        throw_file_error(path_, "written");
    }
    is_finished_ = true;
    close();
}

void DurableFile::close() noexcept {
    if (file_ >= 0) {
        ::close(std::exchange(file_, -1));
    }
}

int flush_folder(const std::filesystem::path& folder) {
    const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) {
        return errno;
    }
    const int error = fsync(file) == 0 || errno == EINVAL ? 0 : errno;  // EINVAL: it has no folders to wait for
    ::close(file);
    return error;
}

void sync_folder(const std::filesystem::path& folder) {
    if (const int error = flush_folder(folder); error != 0) {
        errno = error;
        throw_file_error(folder, "written");
    }
}
}  // namespace pipescope
