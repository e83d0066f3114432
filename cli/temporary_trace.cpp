#include "cli/temporary_trace.h"

#include "schedule/error.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <array>
#include <cstdlib>

namespace pipescope {
std::filesystem::path temporary_folder() {
    std::error_code error;
    if (const char* const of_launcher = std::getenv(kLaunchersFolder);
        of_launcher != nullptr && std::filesystem::is_directory(of_launcher, error)) {
        return of_launcher;
    }
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error) {
        const char* const given = std::getenv("TMPDIR");
        throw Error(
            fmt::format("TMPDIR is '{}', which is no folder; temporary files go there; set it to a writable "
                        "folder, or unset it",
                        given == nullptr ? "" : given));
    }
    return folder;
}

TemporaryTrace::TemporaryTrace(const std::string& name) : name_(name) {
    std::string folder = (temporary_folder() / "pipescope-run-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
        throw Error(
            fmt::format("{} cannot be made; a trace is written there; set TMPDIR to a writable folder", folder));
    }
    folder_ = folder;
    removed_.emplace(
        std::array<std::filesystem::path, 4>{path(), path().string() + "-wal", path().string() + "-shm", folder_});
}

TemporaryTrace::~TemporaryTrace() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}
}  // namespace pipescope
