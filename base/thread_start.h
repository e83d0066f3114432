#pragma once

#include "base/error.h"

#include <future>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace pipescope {
/// Returns start(), which starts a thread for `purpose`, such as "the recording". If the system has no room for a
/// thread, throws an Error that says what to do.
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

/// Starts a thread that runs `work`. If `work` throws, calls failed() on that thread while the exception is handled: an
/// exception that left the thread would end the process without naming the cause. Throws as try_to_start().
template <class Started = std::jthread, class Work, class Failed>
Started start_thread(const std::string& purpose, Work work, Failed failed) {
    return try_to_start(purpose, [&] {
        return Started([work = std::move(work), failed = std::move(failed)]() mutable {
            try {
                work();
            } catch (...) {
                failed();
            }
        });
    });
}

/// Starts a thread whose result is a future: it holds what `work` returns or throws. The future's destructor waits for
/// the thread. Throws as try_to_start().
template <class Work>
auto start_work(const std::string& purpose, Work work) {
    return try_to_start(purpose, [&] { return std::async(std::launch::async, std::move(work)); });
}
}  // namespace pipescope
