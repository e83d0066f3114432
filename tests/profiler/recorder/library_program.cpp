#include "profiler/recorder/recorder.h"
#include "profiler/recorder/shared_libraries.h"
#include "range_emitter.h"

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {
void emit_own_range() {
    nvtxRangePushA("of the program");
    nvtxRangePop();
}

void emit_all(const char* library) {
    emit_own_range();
    pipescope::emit_range_from_library();
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        std::puts(dlerror());
        std::exit(3);
    }
    reinterpret_cast<void (*)()>(dlsym(handle, "emit_from_loaded_library"))();
}
}  // namespace

/// library_program TRACE LIBRARY [early COMMAND]: records the ranges of this program, of the library it links and of
/// LIBRARY. With early, the libraries also emit before a recorder exists. The command runs at the end, while the
/// recorder exists.
int main(int argc, char** argv) {
    const bool early = argc > 3 && std::string_view(argv[3]) == "early";
    if (early) {
        pipescope::attach_shared_libraries();
        emit_all(argv[2]);
    }
    pipescope::RecorderOptions options;
    options.path = argv[1];
    options.devices = false;
    pipescope::Recorder recorder(options);
    emit_all(argv[2]);
    const int code = argc > 4 ? std::system(argv[4]) : 0;
    recorder.stop();
    return code == 0 ? 0 : 4;
}
