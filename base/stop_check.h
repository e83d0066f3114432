#pragma once

#include <chrono>
#include <exception>
#include <functional>

namespace pipescope {
/// Thrown by a computation whose caller does not want its result any more. No Error: whoever tries something else after
/// an Error lets it pass.
class ComputationStopped : public std::exception {
public:
    const char* what() const noexcept override { return "the computation was stopped"; }
};

/// While it lives, long computations of its thread ask from time to time whether to go on. If `goes_on` returns false,
/// they throw ComputationStopped. A computation that runs on further threads stops there at its next pause.
/// Asks every 20 ms at most; a Ctrl-C of Python thus ends a search or the reading of a trace.
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

/// Long loops call it in each round, which should take 0.1 us to 1 ms. Costs about 2 ns.
void check_stop();
}  // namespace pipescope
