#include "tests/fuzz/fuzzed_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::string sample = pipescope::sample_trace_bytes();
    pipescope::open_with_changed_values(sample, data, size);
    return 0;
}
