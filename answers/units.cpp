#include "answers/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace pipescope {
namespace {
std::string with_four_digits(double value, std::string_view unit) {
    const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
}
}  // namespace

std::string format_duration(Nanoseconds time) {
    const double ns = static_cast<double>(time.count());
    if (std::abs(ns) < 1e3) {
        return fmt::format("{} ns", time.count());
    }
    if (std::abs(ns) < 1e6) {
        return with_four_digits(ns / 1e3, "us");
    }
    return std::abs(ns) < 1e10 ? with_four_digits(ns / 1e6, "ms") : with_four_digits(ns / 1e9, "s");
}

namespace {
/// In per cent, rounded as printed. Turns -0 into 0, because -0 would look like a signed error.
double hundredths_of_percent(double fraction) {
    return std::round(fraction * 1e4) / 1e2 + 0.0;
}
}  // namespace

std::string format_percent(double fraction) {
    constexpr double kLeastShown = 0.005;
    const double percent = fraction * 100;
    return fmt::format("{:.2f} %", std::abs(percent) < kLeastShown ? 0 : percent);
}
std::string format_error_percent(std::optional<double> fraction) {
    return fraction ? fmt::format("{:+.2f} %", hundredths_of_percent(*fraction)) : "";
}
std::string format_operations(double per_second) {
    constexpr std::array kUnits{"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
    constexpr double kRoundsUp = 999.5;
    std::size_t unit = 0;
    for (; per_second >= kRoundsUp && unit + 1 < kUnits.size(); ++unit) {
        per_second /= 1000;
    }
    return fmt::format("{:.3g} {}", per_second, kUnits[unit]);
}
std::string format_points(double difference) {
    return fmt::format("{:+.2f} points", hundredths_of_percent(difference));
}
}  // namespace pipescope
