#include "base/scratch_folder.h"

#include "base/error.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <system_error>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

constexpr std::time_t kYoungest = 60;  // seconds: a new folder gets its lock a moment later

/// Opens and locks the folder. Returns -1 if its process is alive, or if that is unknown.
int lock_folder(const fs::path& folder) {
    const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) != 0) {
        close(file);
        return -1;
    }
    return file;
}

void remove_if_left_behind(const fs::path& folder) {
    struct stat status {};
    if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        std::time(nullptr) - status.st_mtime < kYoungest) {
        return;
    }
    const int lock = lock_folder(folder);
    if (lock >= 0) {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
        close(lock);
    }
}

void remove_left_behind(const fs::path& parent) {
    std::error_code error;
    for (fs::directory_iterator entry(parent, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
        if (entry->path().filename().string().starts_with(ScratchFolder::kPrefix)) {
            remove_if_left_behind(entry->path());
        }
    }
}
}  // namespace

fs::path system_temporary_folder() {
    std::error_code error;
    fs::path folder = fs::temp_directory_path(error);
    if (error) {
        const char* const given = std::getenv("TMPDIR");
        throw Error("TMPDIR is '" + std::string(given == nullptr ? "" : given) +
                    "', which is no folder; temporary files go there; set it to a writable folder, or unset it");
    }
    return folder;
}

ScratchFolder::ScratchFolder(const fs::path& parent) {
    remove_left_behind(parent);
    std::string folder = (parent / (std::string(kPrefix) + "XXXXXX")).string();
    if (mkdtemp(folder.data()) == nullptr) {
        throw Error(folder + " cannot be made (" + std::strerror(errno) +
                    "); temporary files go there; set TMPDIR to a writable folder");
    }
    path_ = folder;
    lock_ = lock_folder(path_);
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    if (lock_ >= 0) {
        close(lock_);
    }
}
}  // namespace pipescope
