#include "range_emitter.h"

#include <nvtx3/nvToolsExt.h>

#include <thread>

int main() {
    nvtxRangePushA("main");
    std::thread([] {
        nvtxRangePushA("worker");
        nvtxRangePop();
    }).join();
    pipescope::emit_range_from_library();
    nvtxRangePop();
    nvtxRangePushA("left open");
    return 7;  // a code the test can tell from a failure to start
}
