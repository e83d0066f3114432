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
/// second signal ends the process immediately, as the first one does without this object. Signals that the process
/// ignores, as under nohup, stay ignored. Only one may exist at a time.
class StopSignals {
public:
    /// `effect`: a sentence for the message about what a stop does.
    explicit StopSignals(std::string_view effect = "a training stops after the current step");
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
};

/// During its lifetime, SIGINT, SIGTERM, SIGHUP and std::quick_exit() remove these files, and then empty folders,
/// before they end the process. Ignored signals, and signals with other handlers, are left alone. Four may exist at a
/// time; a fifth has no effect. Threading: create and destroy all of a process's objects in one thread at a time.
class RemovedWhenKilled {
public:
    /// At most four files, in the order of removal. A name too long for the system is not removed.
    explicit RemovedWhenKilled(std::span<const std::filesystem::path> files);
    ~RemovedWhenKilled();
    RemovedWhenKilled(const RemovedWhenKilled&) = delete;
    RemovedWhenKilled& operator=(const RemovedWhenKilled&) = delete;

private:
    std::optional<std::size_t> place_;
};

/// The signal that requested a stop, or 0. Threading: any thread.
int stop_signal() noexcept;
/// Exit code of a command that printed its partial result: success, 130 after Ctrl-C, or 143 after SIGTERM.
ExitCode stop_exit_code() noexcept;

/// Thrown if a stop was requested before the command had a result to print.
class Interrupted : public Error {
public:
    Interrupted();
};
void throw_if_stopped();
}  // namespace pipescope
