#include "schedule/memory_category.h"

#include <algorithm>

namespace pipescope {
std::string_view to_string(MemoryCategory category) {
    switch (category) {
        case MemoryCategory::parameters: return "parameters";
        case MemoryCategory::gradients: return "gradients";
        case MemoryCategory::optimizer: return "optimizer";
        case MemoryCategory::boundary: return "boundary";
        case MemoryCategory::saved: return "saved";
        case MemoryCategory::skip: return "skip";
        case MemoryCategory::transient: return "transient";
        case MemoryCategory::copy: return "copy";
        case MemoryCategory::output: return "output";
    }
    return "unknown";
}

bool MemoryBreakdown::known() const {
    return std::any_of(bytes_.begin(), bytes_.end(), [](Bytes bytes) { return bytes != kUnknown; });
}
}  // namespace pipescope
