#include "schedule/checkpoint.h"

#include "base/parse_name.h"

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
    return parse_name<Checkpoint>(name, {Checkpoint::always, Checkpoint::except_last, Checkpoint::never},
                                  "checkpoint '" + std::string(name) + "' is not a mode",
                                  "use except_last when unsure");
}
}  // namespace pipescope
