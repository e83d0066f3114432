#pragma once

#include <chrono>
#include <string>

namespace pipescope {
/// A progress bar on stderr for work that takes over a second. Silent during the first second, and if stderr is not a
/// terminal. Erases itself on destruction. Threading: one thread.
class ProgressBar {
public:
    explicit ProgressBar(std::string label);
    ~ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    /// `done` is from 0 to 1. Draws at most ten times a second.
    void show(double done);

private:
    std::string label_;
    bool terminal_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point started_;
    std::chrono::steady_clock::time_point last_drawn_;
};

/// The line drawn by ProgressBar: "profiling transformer [#####.....]  50 %".
std::string progress_line(const std::string& label, double done);
}  // namespace pipescope
