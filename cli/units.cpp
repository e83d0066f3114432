#include "cli/units.h"

#include "schedule/error.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

namespace pipescope {
namespace {
struct Unit {
    std::string_view name;
    double factor;
};
constexpr std::array kTimeUnits{Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};
constexpr std::array kByteUnits{Unit{"B", 1},           Unit{"kB", 1e3},           Unit{"MB", 1e6},
                                Unit{"GB", 1e9},        Unit{"TB", 1e12},          Unit{"KiB", 1024.0},
                                Unit{"MiB", 1048576.0}, Unit{"GiB", 1073741824.0}, Unit{"TiB", 1099511627776.0}};

std::string names_of(std::span<const Unit> units, std::string_view suffix) {
    std::string names;
    for (const Unit& unit : units) {
        names += (names.empty() ? "" : ", ") + std::string(unit.name) + std::string(suffix);
    }
    return names;
}

std::string_view without_blanks(std::string_view text) {
    while (!text.empty() && text.front() == ' ') {
        text.remove_prefix(1);
    }
    while (!text.empty() && text.back() == ' ') {
        text.remove_suffix(1);
    }
    return text;
}

// A plain number below this is a forgotten unit: nobody means 5 ns, 16 bytes or 12 bytes per second.
constexpr double kSmallestPlainNumber = 1000;

void refuse_forgotten_unit(double number, std::string_view text, std::string_view option, std::span<const Unit> units,
                           std::string_view suffix, std::string_view example) {
    if (number > 0 && number < kSmallestPlainNumber) {
        const std::string unit = std::string(units.front().name) + std::string(suffix);
        throw UsageError(
            fmt::format("{} is '{}'; a number without a unit is in {}, and below {} it must say so; "
                        "write it as {}, or as {}{}",
                        option, text, unit, kSmallestPlainNumber, example, without_blanks(text), unit));
    }
}

/// `suffix` follows every unit ("/s" for a rate).
double parse_quantity(std::string_view text, std::string_view option, std::span<const Unit> units,
                      std::string_view suffix, std::string_view example) {
    const std::string_view trimmed = without_blanks(text);
    double number = 0;
    const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
    if (error != std::errc{} || !std::isfinite(number) || number < 0) {
        throw UsageError(fmt::format("{} is '{}'; it must be a number of 0 or more with a unit ({}); write it as {}",
                                     option, text, names_of(units, suffix), example));
    }
    const auto used = static_cast<std::size_t>(end - trimmed.data());
    const std::string_view unit = without_blanks(trimmed.substr(used));
    if (unit.empty()) {
        refuse_forgotten_unit(number, text, option, units, suffix, example);
        return number;
    }
    for (const Unit& known : units) {
        if (unit == std::string(known.name) + std::string(suffix)) {
            return number * known.factor;
        }
    }
    throw UsageError(fmt::format("{} is '{}'; '{}' is none of the units {}; write it as {}", option, text, unit,
                                 names_of(units, suffix), example));
}

std::string with_four_digits(double value, std::string_view unit) {
    const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
}
}  // namespace

double parse_duration_ns(std::string_view text, std::string_view option) {
    return parse_quantity(text, option, kTimeUnits, "", "10us");
}

Bytes parse_bytes(std::string_view text, std::string_view option) {
    const double bytes = parse_quantity(text, option, kByteUnits, "", "16GiB");
    // 2^63 itself no longer fits, and the largest Bytes is not a double.
    if (bytes >= static_cast<double>(std::numeric_limits<Bytes>::max())) {
        throw UsageError(fmt::format("{} is '{}'; at most 2^63 - 1 bytes can be counted; use less", option, text));
    }
    return static_cast<Bytes>(std::llround(bytes));
}

double parse_bandwidth(std::string_view text, std::string_view option) {
    const double bandwidth = parse_quantity(text, option, kByteUnits, "/s", "12GB/s");
    if (bandwidth == 0) {
        throw UsageError(fmt::format(
            "{} is '{}'; a link moves something; leave the option out for copies that are free", option, text));
    }
    return bandwidth;
}

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

std::string format_bytes(Bytes bytes) {
    if (std::abs(bytes) < 1024) {
        return fmt::format("{} B", bytes);
    }
    double value = static_cast<double>(bytes);
    std::string_view unit;
    for (const std::string_view next : {"KiB", "MiB", "GiB", "TiB"}) {
        if (!unit.empty() && std::abs(value) < 1024) {
            break;
        }
        value /= 1024;
        unit = next;
    }
    return with_four_digits(value, unit);
}

namespace {
/// In per cent, rounded as it is printed; never -0, which would read as an error that has a direction.
double hundredths_of_percent(double fraction) {
    return std::round(fraction * 1e4) / 1e2 + 0.0;
}
}  // namespace

std::string format_percent(double fraction) {
    return fmt::format("{:.2f} %", fraction * 100);
}
std::string format_error_percent(double fraction) {
    return fmt::format("{:+.2f} %", hundredths_of_percent(fraction));
}
std::string format_points(double difference) {
    return fmt::format("{:+.2f} points", hundredths_of_percent(difference));
}
}  // namespace pipescope
