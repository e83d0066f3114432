#include "tests/fuzz/fuzzed_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    pipescope::open_bytes({data, size}, "t.json");
    return 0;
}
