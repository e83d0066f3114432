#pragma once

#include "base/stop_check.h"

#include <Python.h>

namespace pipescope {
/// Releases the GIL while it lives, for a call that takes long. Precondition: the thread holds the GIL.
///
/// Ctrl-C, any other signal handler that raises, and the program's end stop the call's computation: it throws
/// ComputationStopped. The handler's exception stays set in the thread, and set_error_of_stop() sees to the rest.
///
/// Once Python finalizes, a thread that asks for the GIL is ended where it stands, which no C++ frame survives. So the
/// program's end waits for these calls. Later ones set SystemExit, which ends their thread quietly, and throw
/// PythonError.
class LongCall {
public:
    LongCall();
    ~LongCall();
    LongCall(const LongCall&) = delete;
    LongCall& operator=(const LongCall&) = delete;

    /// Runs Python's signal handlers. False if one has raised, or if the program ends: the call should stop. Call it
    /// without the GIL.
    static bool goes_on();
    /// Sets SystemExit unless a signal handler has raised. Call it with the GIL, after a computation was stopped.
    static void set_error_of_stop();
    /// Has Python call the end of long calls at its exit. Call it once, with the GIL. False if Python has set an error.
    static bool wait_at_exit();

private:
    PyThreadState* thread_;
    StopCheck check_;
};

/// Holds the GIL while it lives, within a long call.
class GilHere {
public:
    GilHere();
    ~GilHere();
    GilHere(const GilHere&) = delete;
    GilHere& operator=(const GilHere&) = delete;

private:
    PyGILState_STATE state_;
};
}  // namespace pipescope
