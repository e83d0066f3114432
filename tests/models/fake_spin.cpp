// Replaces libpipescope_spin.so: waits in a stream of the fake accelerator, which the test program provides.

#include "tests/fake_accelerator/fake_stream.h"

#include <thread>

extern "C" int pipescope_spin(void* stream, unsigned long long nanoseconds) {
    static_cast<pipescope::fake_accelerator::Stream*>(stream)->launch("spin", {}, [nanoseconds] {
        pipescope::fake_accelerator::behaviour().holds_kernels.wait(true);
        std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
    });
    return 0;
}
