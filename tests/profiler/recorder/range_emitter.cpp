#include "range_emitter.h"

#include <nvtx3/nvToolsExt.h>

namespace pipescope {
int emit_range_from_library() {
    const int level = nvtxRangePushA("from a library");
    nvtxRangePop();
    return level;
}
}  // namespace pipescope
