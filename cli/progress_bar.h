#pragma once

#include <chrono>
#include <string>

namespace pipescope {
/// A bar on stderr for what takes over a second; silent where stderr is no terminal, and during the first second.
/// Erases itself when it goes. Threading: one thread.
class ProgressBar {
public:
    explicit ProgressBar(std::string label);
    ~ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    /// 0 to 1; drawn at most ten times a second.
    void show(double done);

private:
    std::string label_;
    bool terminal_;
    bool drawn_ = false;
    std::chrono::steady_clock::time_point started_;
    std::chrono::steady_clock::time_point last_drawn_;
};

/// "profiling transformer [#####.....]  50 %", the line ProgressBar draws.
std::string progress_line(const std::string& label, double done);
}  // namespace pipescope
