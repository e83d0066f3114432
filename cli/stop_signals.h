#pragma once

#include "cli/program.h"
#include "schedule/error.h"

namespace pipescope {
/// While it lives, the first Ctrl-C (SIGINT) or SIGTERM only asks the command to stop; stop_signal() tells. The second
/// ends the process at once, as either does without this object. A signal that the process ignores, as under nohup,
/// stays ignored. One may exist at a time.
class StopSignals {
public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
};

/// The signal that asked to stop, or 0. Any thread may ask.
int stop_signal() noexcept;
/// success, or 130 after Ctrl-C and 143 after SIGTERM: how a command ends that printed what it had by then.
ExitCode stop_exit_code() noexcept;

/// There is nothing to print: the command was asked to stop before it had any result.
class Interrupted : public Error {
public:
    Interrupted();
};
void throw_if_stopped();
}  // namespace pipescope
