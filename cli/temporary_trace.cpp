#include "cli/temporary_trace.h"

#include "schedule/error.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <array>

namespace pipescope {
TemporaryTrace::TemporaryTrace(const std::string& name) : name_(name) {
    std::string folder = (std::filesystem::temp_directory_path() / "pipescope-run-XXXXXX").string();
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
