#pragma once

namespace pipescope {
/// Releases the GIL while it lives, for a call that takes long. Precondition: the thread holds the GIL.
///
/// Once Python finalizes, a thread that asks for the GIL is ended where it stands, which no C++ frame survives. So the
/// program's end waits for these calls, and later ones raise SystemExit, which ends their thread quietly.
class LongCall {
public:
    LongCall();
    ~LongCall();
    LongCall(const LongCall&) = delete;
    LongCall& operator=(const LongCall&) = delete;

    /// True once the program ends: a call that can stop should.
    static bool should_stop() noexcept;
    /// Raises SystemExit if should_stop(). Call it with the GIL.
    static void exit_if_stopped();
    /// Has Python call the end of long calls at its exit. Call it once, with the GIL.
    static void wait_at_exit();

private:
    void* thread_;
};
}  // namespace pipescope
