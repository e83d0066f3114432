#pragma once

#include "base/error.h"

#include <future>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace pipescope {
/// Returns start(), which starts a thread for `purpose`, such as "the recording". Throws Error, which says what to do,
/// if the system has no room for a thread.
template <class Start>
auto try_to_start(const std::string& purpose, const Start& start) {
    const auto refuse = [&](const std::string& why) {
        throw Error("a thread for " + purpose + " cannot be started (" + why +
                    "); it needs memory for its stack, and counts as one of the user's processes; raise the limits "
                    "(ulimit -v, ulimit -u, and those of the container), or use fewer threads or lanes");
    };
    try {
        return start();
    } catch (const std::system_error& error) {
        refuse(error.code().message());
        throw;
    } catch (const std::bad_alloc&) {
        refuse("there is no memory");
        throw;
    }
}

/// Starts a thread that runs `work`. If that throws, such as std::bad_alloc, calls failed() there while the exception
/// is handled: one that left a thread would end the process without a word about the cause. Throws as try_to_start().
template <class Work, class Failed>
std::jthread start_thread(const std::string& purpose, Work work, Failed failed) {
    return try_to_start(purpose, [&] {
        return std::jthread([work = std::move(work), failed = std::move(failed)]() mutable {
            try {
                work();
            } catch (...) {
                failed();
            }
        });
    });
}

/// Starts a thread likewise. The future has what `work` returns or throws, and its destructor waits for the thread.
template <class Work>
auto start_work(const std::string& purpose, Work work) {
    return try_to_start(purpose, [&] { return std::async(std::launch::async, std::move(work)); });
}
}  // namespace pipescope
