#include "schedule/checkpoint.h"

#include "schedule/error.h"

namespace pipescope {
std::string to_string(Checkpoint mode) {
    switch (mode) {
        case Checkpoint::always: return "always";
        case Checkpoint::except_last: return "except_last";
        case Checkpoint::never: return "never";
    }
    return "unknown";
}

Checkpoint parse_checkpoint(std::string_view name) {
    for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        if (to_string(mode) == name) {
            return mode;
        }
    }
    throw UsageError("checkpoint '" + std::string(name) +
                     "' is not a mode; it must be one of always, except_last, never; use except_last when unsure");
}
}  // namespace pipescope
