#include "cli/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace pipescope {
namespace {
constexpr std::array kSignals = {SIGINT, SIGTERM};

// Accessible in a signal handler.
std::atomic<int> asked_by = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may not take a lock");
volatile sig_atomic_t on_terminal = 0;
std::array<char, 256> message{};  // begins with a line feed; set before the handlers
std::size_t message_size = 1;
std::array<struct sigaction, kSignals.size()> before;

constexpr std::array kKillingSignals = {SIGINT, SIGTERM, SIGHUP};

/// The files of one RemovedWhenKilled. Accessible in a signal handler. An empty name stands for no file.
struct RemovableFiles {
    std::array<std::array<char, PATH_MAX>, 4> names{};
    bool is_taken = false;
    std::atomic<bool> are_named = false;  ///< all names are complete
};
std::array<RemovableFiles, 4> files_to_remove;
std::array<struct sigaction, kKillingSignals.size()> before_removal;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");

/// Async-signal-safe: calls unlink() and rmdir().
void remove_files() {
    for (const RemovableFiles& files : files_to_remove) {
        for (const auto& name : files.names) {
            if (files.are_named && name.front() != '\0' && unlink(name.data()) != 0) {
                rmdir(name.data());
            }
        }
    }
}

bool removes_files() {
    return std::ranges::any_of(files_to_remove, &RemovableFiles::is_taken);
}

/// The signal is blocked until this returns. Then it ends the process, because the handler was reset on entry.
void remove_files_and_end(int signal_number) {
    remove_files();
    raise(signal_number);
}

/// Async-signal-safe: sets a word, calls sigaction(), raise() and write(), and restores errno. The next signal removes
/// the files of RemovedWhenKilled and ends the process.
void note(int signal_number) {
    const int error = errno;
    struct sigaction at_once {};
    at_once.sa_handler = remove_files_and_end;  // ends the process
    at_once.sa_flags = static_cast<int>(SA_RESETHAND);
    for (const int each : kSignals) {
        sigaction(each, &at_once, nullptr);
    }
    // Two simultaneous signals may run this in two threads. The second signal ends the process when this returns.
    int nobody = 0;
    if (!asked_by.compare_exchange_strong(nobody, signal_number)) {
        raise(signal_number);
        errno = error;
        return;
    }
    // On a terminal, a progress bar or the echoed ^C may be on the line.
    const std::size_t first = on_terminal != 0 ? 0 : 1;
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data() + first, message_size - first);
    errno = error;
}
}  // namespace

RemovedWhenKilled::RemovedWhenKilled(std::span<const std::filesystem::path> files) {
    const bool is_first = !removes_files();
    const auto free = std::ranges::find(files_to_remove, false, &RemovableFiles::is_taken);
    if (free == files_to_remove.end()) {
        return;
    }
    place_ = static_cast<std::size_t>(free - files_to_remove.begin());
    free->is_taken = true;
    for (std::size_t k = 0; k < free->names.size(); ++k) {
        const std::string name = k < files.size() ? files[k].string() : "";
        free->names[k].fill('\0');
        if (name.size() < free->names[k].size()) {
            std::copy(name.begin(), name.end(), free->names[k].begin());
        }
    }
    free->are_named = true;
    if (!is_first) {
        return;
    }
    [[maybe_unused]] static const int registered = std::at_quick_exit(remove_files);
    struct sigaction action {};
    action.sa_handler = remove_files_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    for (std::size_t k = 0; k < kKillingSignals.size(); ++k) {
        sigaction(kKillingSignals[k], nullptr, &before_removal[k]);
        if (before_removal[k].sa_handler == SIG_DFL) {
            sigaction(kKillingSignals[k], &action, nullptr);
        }
    }
}

RemovedWhenKilled::~RemovedWhenKilled() {
    if (!place_) {
        return;
    }
    files_to_remove[*place_].are_named = false;
    files_to_remove[*place_].is_taken = false;
    if (removes_files()) {
        return;
    }
    for (std::size_t k = 0; k < kKillingSignals.size(); ++k) {
        if (before_removal[k].sa_handler == SIG_DFL) {
            sigaction(kKillingSignals[k], &before_removal[k], nullptr);
        }
    }
}

StopSignals::StopSignals(std::string_view effect) {
    asked_by = 0;
    const std::string text = "\npipescope: stopping; " + std::string(effect) + "; a second Ctrl-C ends it at once\n";
    message_size = std::min(text.size(), message.size());
    std::copy_n(text.begin(), message_size, message.begin());
    on_terminal = isatty(STDERR_FILENO);
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    for (const int each : kSignals) {  // one handler at a time
        sigaddset(&action.sa_mask, each);
    }
    for (std::size_t k = 0; k < kSignals.size(); ++k) {
        sigaction(kSignals[k], nullptr, &before[k]);
        if (before[k].sa_handler != SIG_IGN) {
            sigaction(kSignals[k], &action, nullptr);
        }
    }
}

StopSignals::~StopSignals() {
    for (std::size_t k = 0; k < kSignals.size(); ++k) {
        sigaction(kSignals[k], &before[k], nullptr);
    }
}

int stop_signal() noexcept {
    return asked_by;
}

ExitCode stop_exit_code() noexcept {
    const int signal = asked_by;
    return signal == 0 ? ExitCode::success : static_cast<ExitCode>(128 + signal);
}

Interrupted::Interrupted() : Error("interrupted before there was a result; nothing was kept; run it again") {}

void throw_if_stopped() {
    if (stop_signal() != 0) {
        throw Interrupted();
    }
}
}  // namespace pipescope
