#pragma once

#include "base/ids.h"

#include <string>
#include <string_view>

namespace pipescope {
/// Selects the micro-batches that keep only their partition's input in forward, and are recomputed before backward.
/// Source: GPipe (arXiv 1811.06965), section 2.3; the modes are torchgpipe's (arXiv 2004.09910, section 3.2.3).
enum class Checkpoint {
    always,
    except_last,  ///< its backward follows at once, so recomputing it would save nothing
    never,
};

std::string to_string(Checkpoint mode);
/// Throws UsageError for a name that is not a mode.
Checkpoint parse_checkpoint(std::string_view name);

/// True if micro-batch `i` of `m` is recomputed. `m` is the actual number of micro-batches, not the requested one.
constexpr bool is_checkpointed(Checkpoint mode, MicroBatchId i, int m) {
    switch (mode) {
        case Checkpoint::always: return true;
        case Checkpoint::except_last: return i.value() < m - 1;
        case Checkpoint::never: return false;
    }
    return false;
}
}  // namespace pipescope
