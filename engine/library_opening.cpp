#include "engine/library_opening.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>

namespace pipescope {
namespace {
/// The library that this thread opens; null outside of open_library().
thread_local const char* opening = nullptr;
std::terminate_handler terminate_before = nullptr;

[[noreturn]] void end_process(const char* does, const char* what) {
    std::fprintf(stderr,
                 "pipescope: '%s' %s while it was loaded%s; its static objects must be made without that; make them in "
                 "the function that creates the model\n",
                 opening, does, what);
    std::fflush(nullptr);
    ::_exit(1);
}

[[noreturn]] void end_for_exception() {
    if (opening == nullptr) {
        terminate_before();
        std::abort();
    }
    try {
        std::rethrow_exception(std::current_exception());
    } catch (const std::exception& error) {
        const std::string what = std::string(" (") + error.what() + ")";
        end_process("threw an exception", what.c_str());
    } catch (...) {
        end_process("threw an exception", "");
    }
}

void end_for_exit() {
    if (opening != nullptr) {
        end_process("called exit()", "");
    }
}
/// Lets no exception pass, even if one passes the loader. Compilers take dlopen() for a function that cannot throw, and
/// check for none where its name is called.
void* open_or_end(const char* path, int flags) noexcept {
    void* (*volatile const loader)(const char*, int) = dlopen;
    return loader(path, flags);
}
}  // namespace

void* open_library(const std::string& path, int flags) {
    static std::once_flag once;
    std::call_once(once, [] {
        terminate_before = std::set_terminate(end_for_exception);
        std::atexit(end_for_exit);
    });
    const char* const outer = std::exchange(opening, path.c_str());
    void* const library = open_or_end(path.c_str(), flags);
    opening = outer;
    return library;
}
}  // namespace pipescope
