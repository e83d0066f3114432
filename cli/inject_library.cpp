#include "cli/inject_library.h"

#include "base/error.h"

namespace pipescope {
namespace fs = std::filesystem;

std::optional<fs::path> find_own_library(const std::string& name) {
    std::error_code error;
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    for (const fs::path& place : {folder / "../lib", folder}) {
        const fs::path library = place / name;
        if (fs::is_regular_file(library, error)) {
            return fs::canonical(library, error);
        }
    }
    return std::nullopt;
}

std::optional<fs::path> find_inject_library() {
    return find_own_library("libpipescope_inject.so");
}

fs::path require_inject_library() {
    if (const auto library = find_inject_library()) {
        return *library;
    }
    throw Error(
        "libpipescope_inject.so is missing; record loads it into the program, from ../lib of this program's "
        "folder; build or install PipeScope again");
}
}  // namespace pipescope
