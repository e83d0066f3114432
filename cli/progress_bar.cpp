#include "cli/progress_bar.h"

#include "base/printable.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace pipescope {
namespace {
constexpr int kWidth = 30;
constexpr auto kQuietAtFirst = std::chrono::seconds(1);
constexpr auto kBetweenDrawings = std::chrono::milliseconds(100);
}  // namespace

std::string progress_line(const std::string& label, double done) {
    const double share = std::clamp(std::isfinite(done) ? done : 0.0, 0.0, 1.0);
    const int filled = static_cast<int>(share * kWidth);
    return fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} %", printable(label), "", filled, "", kWidth - filled, share * 100);
}

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) != 0), started_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
    if (drawn_) {
        std::fputs("\r\x1b[K", stderr);
    }
}

void ProgressBar::show(double done) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - started_ < kQuietAtFirst || (drawn_ && now - last_drawn_ < kBetweenDrawings)) {
        return;
    }
    std::fputs(("\r\x1b[K" + progress_line(label_, done)).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
    last_drawn_ = now;
}
}  // namespace pipescope
