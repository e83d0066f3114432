#pragma once

#include "schedule/error.h"

#include <string>
#include <system_error>

namespace pipescope {
/// Returns start(), which starts a thread for `purpose`, such as "the recording". Throws Error, which says what to do,
/// if the system has no room for a thread.
template <class Start>
auto start_thread(const std::string& purpose, const Start& start) {
    try {
        return start();
    } catch (const std::system_error& error) {
        throw Error("a thread for " + purpose + " cannot be started (" + error.code().message() +
                    "); it needs memory for its stack, and counts as one of the user's processes; raise the limits "
                    "(ulimit -v, ulimit -u, and those of the container), or use fewer threads or lanes");
    }
}
}  // namespace pipescope
