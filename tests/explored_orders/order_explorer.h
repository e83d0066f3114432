#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Runs a program of several threads in every order that matters.
//
// Problem: a lost wakeup or a deadlock shows in one order of a million, and the operating system chooses the order.
// Idea: one thread runs at a time. Before each operation on a mutex, condition, atomic or thread (explored_threads.h)
// the explorer chooses who goes on. The choices are a list of numbers; the next order changes the last number that has
// an alternative. Orders with few preemptions come first, since nearly all known bugs need two or fewer.
// Source: Musuvathi, Qadeer: Iterative Context Bounding for Systematic Testing of Multithreaded Programs, PLDI 2007.
// Limits: operations are sequentially consistent; the thread sanitizer looks at data races.

namespace pipescope::explored {
/// When a wait with a time limit may end by it.
enum class TimeLimits {
    never_pass,  ///< so a wakeup that is lost is a deadlock
    when_nobody_can_go_on,
    at_any_time,  ///< at the price of a preemption
};

struct Limits {
    int preemptions = 2;           ///< how often a thread may lose its turn although it could go on
    long most_orders = 1'000'000;  ///< then the exploration ends incomplete
    TimeLimits time_limits = TimeLimits::never_pass;
};

struct Outcome {
    long orders = 0;                ///< that were run
    bool is_complete = false;       ///< all orders within the limits were run
    std::string failure = {};       ///< empty: none; then the orders ended there
    std::vector<int> choices = {};  ///< of the failed order, for replay()
};

/// Runs `program` in every order within the limits, until one fails: a deadlock, an exception that leaves a thread, or
/// require(). The program must do the same whenever it gets the same order. The threads of a failed order
/// end nowhere, and what they hold stays in memory. All explored threads run in the calling one, so they share its
/// thread_local variables. One call at a time in a process.
Outcome explore(const std::function<void()>& program, const Limits& limits = {});
/// Runs it in `orders` random orders, with any number of preemptions.
Outcome explore_randomly(const std::function<void()>& program, std::uint64_t seed, long orders,
                         TimeLimits time_limits = TimeLimits::never_pass);
/// Runs it in the order of Outcome::choices; later choices, if there are any, let the thread go on.
Outcome replay(const std::function<void()>& program, const std::vector<int>& choices,
               TimeLimits time_limits = TimeLimits::never_pass);

/// Fails the current order with `what`, unless `holds`.
void require(bool holds, const std::string& what);
/// The outcome in words, with the choices that replay() takes.
std::string to_string(const Outcome& outcome);

// For explored_threads.h. Outside an exploration they do nothing.

/// Others may go first.
void point();
/// Blocks until the object is woken. `what`: for the message of a deadlock.
void block_on(const void* object, const char* what);
/// Returns false if the time limit passed first.
bool block_on_for_a_time(const void* object, const char* what);
void wake_all(const void* object);
/// Which of those that wait is a choice.
void wake_one(const void* object);
/// Fails the order if a thread waits for it.
void destroy(const void* object);
/// Starts a thread; returns its number.
int start(std::function<void()> work);
void join(int thread);
/// The number of the thread whose turn it is; -1 outside an exploration.
int this_thread();
/// Of the current order, among all that this process has run.
long order_number();
/// Points so far in this order: the clock of explored programs.
long points();
}  // namespace pipescope::explored
