#include "schedule/update.h"

#include "base/parse_name.h"

namespace pipescope {
std::string to_string(Update update) {
    return update == Update::synchronous ? "synchronous" : "staggered";
}

Update parse_update(std::string_view name) {
    return parse_name<Update>(name, {Update::synchronous, Update::staggered}, "update is '" + std::string(name) + "'",
                              "leave it out for synchronous");
}
}  // namespace pipescope
