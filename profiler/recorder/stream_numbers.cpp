#include "profiler/recorder/stream_numbers.h"

#include <atomic>

namespace pipescope {
namespace {
std::atomic<StreamNumber> current{nullptr};
}

void set_stream_number(StreamNumber function) {
    current.store(function, std::memory_order_release);
}

std::optional<std::uint32_t> number_of_stream(void* stream) {
    const StreamNumber function = current.load(std::memory_order_acquire);
    return function == nullptr ? std::nullopt : function(stream);
}
}  // namespace pipescope
