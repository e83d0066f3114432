#pragma once

#include "base/error.h"
#include "cli/program.h"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

namespace pipescope {
/// During its lifetime, the first Ctrl-C (SIGINT) or SIGTERM only requests a stop, which stop_signal() reports. The
/// second one ends the process immediately, as either does without this object. Signals that the process ignores, as
/// under nohup, stay ignored. One may exist at a time.
class StopSignals {
public:
    /// `effect`: what a stop does, for the message.
    explicit StopSignals(std::string_view effect = "a training stops after the current step");
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
};

/// During its lifetime, SIGINT, SIGTERM, SIGHUP and std::quick_exit() remove these files, and then empty folders,
/// before they end the process. Signals that are ignored or handled otherwise stay so. Four may exist at a time; a
/// fifth one has no effect. Threading: those of a process are made and destroyed in one thread at a time.
class RemovedWhenKilled {
public:
    /// Four at most, in the order of removal. A name that is too long for the system is not removed.
    explicit RemovedWhenKilled(std::span<const std::filesystem::path> files);
    ~RemovedWhenKilled();
    RemovedWhenKilled(const RemovedWhenKilled&) = delete;
    RemovedWhenKilled& operator=(const RemovedWhenKilled&) = delete;

private:
    std::optional<std::size_t> place_;
};

/// The signal that requested a stop, or 0. Threading: any thread.
int stop_signal() noexcept;
/// Exit code of a command that printed its partial result: success, or 130 after Ctrl-C and 143 after SIGTERM.
ExitCode stop_exit_code() noexcept;

/// Thrown if a stop was requested before the command had any result to print.
class Interrupted : public Error {
public:
    Interrupted();
};
void throw_if_stopped();
}  // namespace pipescope
