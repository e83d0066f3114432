#pragma once

namespace pipescope {
// How a process ends while threads train.
//
// Problem: exit() destroys what torch keeps for the process, such as its operators, while other threads still compute
// with it; they crash. Idea: threads say when they are at work. A handler of exit() lets each of them go on to the end
// of its task, where it stops for good; then exit() goes on. The process does not wait long for a thread: after
// kPatience it ends on the spot, with exit's code, without the handlers and destructors that are left.

/// Registers the handler. Call it again whenever torch may have made more that the threads use: exit() destroys that
/// before it comes to a handler that was registered earlier. Costs nothing but every now and then. Any thread.
void prepare_process_end();

/// True if this thread is in exit().
bool is_thread_in_exit();

/// While it lives, the thread is at work: exit() waits for it. Made or destroyed while the process ends, it stops the
/// thread for good. Scopes may be nested.
class AtWork {
public:
    AtWork();
    ~AtWork();
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;
};

/// While it lives, a thread that is at work waits for others and need not be waited for.
class AtRest {
public:
    AtRest();
    ~AtRest();
    AtRest(const AtRest&) = delete;
    AtRest& operator=(const AtRest&) = delete;

private:
    int depth_;
};

/// While it lives, the thread works for the thread that is in exit(), if that is where `in_exit` comes from.
class OnBehalf {
public:
    explicit OnBehalf(bool in_exit);
    ~OnBehalf();
    OnBehalf(const OnBehalf&) = delete;
    OnBehalf& operator=(const OnBehalf&) = delete;

private:
    bool before_;
};
}  // namespace pipescope
