#include "range_emitter.h"

#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {
/// Emits a task like the engine: forward of micro-batch 0 on partition 0 in step 0, without a skip.
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
/// The first NVTX calls of the process, from many threads at the same time.
void emit_together() {
    constexpr int kThreads = 16;
    std::barrier ready(kThreads);
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int k = 0; k < kThreads; ++k) {
        threads.emplace_back([&] {
            ready.arrive_and_wait();
            nvtxRangePushA("together");
            nvtxRangePop();
        });
    }
    for (std::thread& each : threads) {
        each.join();
    }
}

void emit_at_exit() {
    nvtxRangePushA("at exit");
    nvtxRangePop();
}

/// Threads that emit at full speed until the process is killed.
[[noreturn]] void emit_for_ever() {
    nvtxMarkA("the recorder runs from here on");
    std::puts("ready");
    std::fflush(stdout);
    const auto emit = [] {
        for (;;) {
            nvtxRangePushA("busy");
            nvtxRangePop();
        }
    };
    std::thread other(emit);
    emit();
    std::abort();
}

/// Executes the same program again, `times` times.
void become_anew(char* program, int times) {
    nvtxMarkA("before exec");
    if (times > 0) {
        execl(program, program, "exec", std::to_string(times - 1).c_str(), nullptr);
    }
}
}  // namespace

/// plain_nvtx_program [task | abort | wait | many | together | at-exit | busy | exec TIMES]
int main(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (what == "together") {
        emit_together();
        return 0;
    }
    if (what == "busy") {
        emit_for_ever();
    }
    if (what == "exec") {
        become_anew(argv[0], std::atoi(argv[2]));
        return 0;
    }
    nvtxRangePushA("main");
    if (what == "at-exit") {
        std::atexit(emit_at_exit);
    }
    std::thread([] {
        nvtxRangePushA("worker");
        nvtxRangePop();
    }).join();
    pipescope::emit_range_from_library();
    nvtxRangePop();
    for (int k = 0; what == "many" && k < 10'000; ++k) {
        nvtxMarkA("one of many");
    }
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
