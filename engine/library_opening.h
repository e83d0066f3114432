#pragma once

#include <string>

namespace pipescope {
/// dlopen() of a user's library. If its static objects throw while they are made, or call exit(), the process ends with
/// a message that names the library: no exception can pass the loader, which would keep its locks.
void* open_library(const std::string& path, int flags);
}  // namespace pipescope
