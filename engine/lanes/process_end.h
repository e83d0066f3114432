#pragma once

namespace pipescope {
// Lets a process end while threads train.
//
// Problem: exit() destroys torch's process-wide state, such as its operators, while other threads still compute with
// it; they crash. Idea: threads mark when they are at work. A handler of exit() lets each of them finish its task,
// after which the thread stops for good; then exit() continues. The process waits for a thread no longer than
// kPatience. After that it ends immediately, with exit's code, without the remaining handlers and destructors.

/// Registers the handler. Call it again whenever torch may have created more state that the threads use: exit()
/// destroys newer state before it reaches a handler that was registered earlier. Most calls cost nothing. Any thread.
void prepare_process_end();

/// Does now what the handler does: for an interpreter, which destroys its own state before it calls exit(). The calling
/// thread counts as in exit() from then on. Returns false if a task takes longer than kPatience; then its thread still
/// runs, and only _exit() is safe.
bool end_other_threads();

/// Stops this thread for good if the process ends, unless the thread is at work or in exit(). For a thread that is
/// about to use what the end of the process destroys.
void stop_if_ending();

/// True if this thread is in exit().
bool is_thread_in_exit();

/// While it lives, the thread is at work, and exit() waits for it. If it is created or destroyed while the process
/// ends, it stops the thread for good. Scopes may be nested.
class AtWork {
public:
    /// A caller is expected to come back soon after, and then to be stopped: exit() waits a moment for it.
    enum class Thread { caller, lane };
    explicit AtWork(Thread thread = Thread::caller);
    ~AtWork();
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

private:
    const Thread thread_;
};

/// While it lives, a thread at work waits for others, so exit() need not wait for it.
class AtRest {
public:
    AtRest();
    ~AtRest();
    AtRest(const AtRest&) = delete;
    AtRest& operator=(const AtRest&) = delete;

private:
    int depth_;
};

/// While it lives, the thread works for the thread in exit(), provided that `in_exit` is true.
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
