#include "trace/store/json_nesting.h"

namespace pipescope {
bool nests_too_deep(std::string_view json) {
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char each = json[i];
        if (in_string) {
            i += each == '\\' ? 1 : 0;  // the next character is escaped
            in_string = each != '"';
        } else if (each == '"') {
            in_string = true;
        } else if (each == '[' || each == '{') {
            if (++depth > kMostJsonNesting) {
                return true;
            }
        } else if ((each == ']' || each == '}') && depth > 0) {
            --depth;
        }
    }
    return false;
}
}  // namespace pipescope
