// Preloaded into a program, simulates a full disk for its traces: a write to a file named *.sqlite* fails beyond
// FULL_DISK_BYTES, as on a file system without space.

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {
bool is_trace(int file) {
    std::array<char, 4096> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    const ssize_t length = readlink(link.c_str(), path.data(), path.size());
    return length > 0 &&
           std::string_view(path.data(), static_cast<std::size_t>(length)).find(".sqlite") != std::string_view::npos;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) ssize_t pwrite64(int file, const void* bytes, std::size_t count,
                                                                   off64_t at) {
    static const auto real = reinterpret_cast<decltype(&pwrite64)>(dlsym(RTLD_NEXT, "pwrite64"));
    static const char* const limit = std::getenv("FULL_DISK_BYTES");
    if (limit != nullptr && at + static_cast<off64_t>(count) > std::atoll(limit) && is_trace(file)) {
        errno = ENOSPC;
        return -1;
    }
    return real(file, bytes, count, at);
}
