// Problem: every shared library with ranges has its own NVTX (hidden symbols). It looks for a tool first in
// NVTX_INJECTION64_PATH, then at a weak symbol that our handler shares only with the program's own objects.
//
// Idea: an empty path. dlopen("") opens the program itself, so such an NVTX finds the function exported by the program
// (exported_handler.cpp), and thereby the existing recorder. This needs no second copy of the recorder and no file
// search. A child process inherits the empty path. Unless it is built with the recorder too, it exports no such
// function, and its NVTX calls have no tool, as before.
//
// Source: nvtx3/nvtxDetail/nvtxInit.h; dlopen(3) for the handle, dl_open_worker of glibc for the empty name.

#include "profiler/recorder/shared_libraries.h"

#include "profiler/recorder/nvtx_handler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace pipescope {
namespace {
constexpr const char* kVariable = "NVTX_INJECTION64_PATH";

/// True if NVTX will find this handler. A recorder in a plugin is not in the program's symbol table.
bool program_exports_handler() {
    void* const program = dlopen("", RTLD_LAZY);
    if (program == nullptr) {
        return false;
    }
    const bool exports =
        dlsym(program, "InitializeInjectionNvtx2") == reinterpret_cast<void*>(InitializeInjectionNvtx2);
    dlclose(program);
    return exports;
}
}  // namespace

bool attach_shared_libraries() {
    const char* const tool = std::getenv(kVariable);
    if (tool != nullptr && *tool != '\0') {
        return false;
    }
    return program_exports_handler() && (tool != nullptr || setenv(kVariable, "", 0) == 0);
}

std::optional<DiagnosticRecord> missed_ranges_diagnostic() {
    const bool attached = attach_shared_libraries();
    const char* const tool = std::getenv(kVariable);
    if (tool != nullptr && *tool != '\0') {
        if (nvtx_handler_attached()) {
            return std::nullopt;  // the tool is this recorder
        }
        return DiagnosticRecord{
            "warning", "nvtx",
            fmt::format("another NVTX tool is active ({}): the ranges go there and are missing here; "
                        "unset NVTX_INJECTION64_PATH to record them",
                        tool)};
    }
    if (!attached) {
        return DiagnosticRecord{"info", "nvtx",
                                "ranges of shared libraries are missing here: the program does not export the "
                                "recorder's handler to them; record it with 'pipescope record'"};
    }
    return std::nullopt;
}
}  // namespace pipescope
