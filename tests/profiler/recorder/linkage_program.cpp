#include "profiler/recorder/nvtx_handler.h"
#include "range_emitter.h"

#include <cstdio>
#include <cstdlib>

namespace pipescope {
extern "C" const char pipescope_nvtx_handler;
}

int main() {
    unsetenv("NVTX_INJECTION64_PATH");
    pipescope::emit_range_from_static_library();
    if (!pipescope::nvtx_handler_attached()) {
        std::puts("the NVTX handler was not attached");
        return 1;
    }
    return 0;
}
