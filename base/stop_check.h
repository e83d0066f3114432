#pragma once

#include <chrono>
#include <exception>
#include <functional>

namespace pipescope {
/// Thrown by a computation whose caller no longer wants the result. Not an Error: code that catches an Error to try
/// something else must let this pass.
class ComputationStopped : public std::exception {
public:
    const char* what() const noexcept override { return "the computation was stopped"; }
};

/// While it lives, long computations of its thread ask at most every 20 ms whether to go on, so Python's Ctrl-C can end
/// a search or the reading of a trace. If `goes_on` returns false, they throw ComputationStopped. A computation on
/// several threads stops them at its next pause.
class StopCheck {
public:
    explicit StopCheck(std::function<bool()> goes_on);
    ~StopCheck();
    StopCheck(const StopCheck&) = delete;
    StopCheck& operator=(const StopCheck&) = delete;

private:
    friend void check_stop();
    void count_round();

    std::function<bool()> goes_on_;
    StopCheck* outer_;
    int rounds_left_;
    std::chrono::steady_clock::time_point last_asked_;
};

/// Long loops call this in each round, which should take 0.1 us to 1 ms. Costs about 2 ns.
void check_stop();
}  // namespace pipescope
