#include "cli/torch/temporary_trace.h"

#include "schedule/error.h"

#include <fmt/format.h>
#include <stdlib.h>

namespace pipescope {
TemporaryTrace::TemporaryTrace() {
    std::string name = (std::filesystem::temp_directory_path() / "pipescope-run-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
        throw Error(fmt::format("{} cannot be made; the run is recorded there; set TMPDIR to a writable folder", name));
    }
    folder_ = name;
}

TemporaryTrace::~TemporaryTrace() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}
}  // namespace pipescope
