#include "cli/temporary_trace.h"

#include <array>
#include <cstdlib>

namespace pipescope {
std::filesystem::path temporary_folder() {
    std::error_code error;
    if (const char* const of_launcher = std::getenv(kLaunchersFolder);
        of_launcher != nullptr && std::filesystem::is_directory(of_launcher, error)) {
        return of_launcher;
    }
    return system_temporary_folder();
}

TemporaryTrace::TemporaryTrace(const std::string& name)
    : name_(name),
      folder_(temporary_folder()),
      removed_(std::array<std::filesystem::path, 4>{path(), path().string() + "-wal", path().string() + "-shm",
                                                    folder_.path()}) {}
}  // namespace pipescope
