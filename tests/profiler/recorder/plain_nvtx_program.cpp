#include "range_emitter.h"

#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>
#include <thread>

namespace {
/// A task as the engine emits it: forward of micro-batch 0 on partition 0 in step 0, without a skip.
void emit_task() {
    constexpr unsigned long long kPackedKey = 1023;
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = "forward";
    event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    event.payload.ullValue = kPackedKey;
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("pipescope");
    nvtxDomainRangePushEx(domain, &event);
    nvtxDomainRangePop(domain);
}
}  // namespace

/// plain_nvtx_program [task | abort | wait]
int main(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "";
    nvtxRangePushA("main");
    std::thread([] {
        nvtxRangePushA("worker");
        nvtxRangePop();
    }).join();
    pipescope::emit_range_from_library();
    nvtxRangePop();
    if (what == "task") {
        emit_task();
    }
    nvtxRangePushA("left open");
    if (what == "abort") {
        kill(getpid(), SIGABRT);
    }
    if (what == "wait") {
        usleep(200'000);  // ten drain periods, so that the file holds what was emitted
        std::puts("ready");
        std::fflush(stdout);
        pause();
    }
    return 7;  // a code the test can tell from a failure to start
}
