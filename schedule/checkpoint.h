#pragma once

#include "schedule/ids.h"

#include <string>
#include <string_view>

namespace pipescope {
/// Which micro-batches keep only their partition's input during forward and run it again before backward.
/// Source: GPipe (arXiv 1811.06965), section 2.3; the modes are torchgpipe's (arXiv 2004.09910, section 3.2.3).
enum class Checkpoint {
    always,
    except_last,  ///< the last micro-batch goes backward at once, so recomputing it would save nothing
    never,
};

std::string to_string(Checkpoint mode);
/// Throws UsageError for a name that is not a mode.
Checkpoint parse_checkpoint(std::string_view name);

/// Whether micro-batch `i` of `m` is recomputed. `m` is the real number of micro-batches, not the requested one.
constexpr bool is_checkpointed(Checkpoint mode, MicroBatchId i, int m) {
    switch (mode) {
        case Checkpoint::always: return true;
        case Checkpoint::except_last: return i.value() < m - 1;
        case Checkpoint::never: return false;
    }
    return false;
}
}  // namespace pipescope
