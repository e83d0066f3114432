#include "base/quantities.h"

#include "base/error.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <string>

namespace pipescope {
namespace {
struct Unit {
    std::string_view name;
    double factor;
};
constexpr std::array kTimeUnits{Unit{"ns", 1},     Unit{"us", 1e3},   Unit{"ms", 1e6},   Unit{"s", 1e9},
                                Unit{"min", 60e9}, Unit{"h", 3600e9}, Unit{"d", 86400e9}};
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

// A smaller plain number is taken for a forgotten unit: nobody means 5 ns, 16 bytes or 12 bytes per second.
constexpr double kSmallestPlainNumber = 1000;

std::string value_of(std::string_view option, std::string_view text) {
    return std::string(option) + " is '" + std::string(text) + "'";
}

void refuse_forgotten_unit(double number, std::string_view text, std::string_view option, std::span<const Unit> units,
                           std::string_view suffix, std::string_view example) {
    if (number > 0 && number < kSmallestPlainNumber) {
        const std::string unit = std::string(units.front().name) + std::string(suffix);
        throw UsageError(value_of(option, text) + "; a number without a unit is in " + unit +
                         ", and below 1000 it must say so; write it with a unit (" + names_of(units, suffix) +
                         "), such as " + std::string(example));
    }
}

/// `suffix` follows every unit ("/s" for a rate).
double parse_quantity(std::string_view text, std::string_view option, std::span<const Unit> units,
                      std::string_view suffix, std::string_view example) {
    const std::string_view trimmed = without_blanks(text);
    double number = 0;
    const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
    if (error != std::errc{} || !std::isfinite(number) || number < 0) {
        throw UsageError(value_of(option, text) + "; it must be a number of 0 or more with a unit (" +
                         names_of(units, suffix) + "); write it as " + std::string(example));
    }
    const auto used = static_cast<std::size_t>(end - trimmed.data());
    const std::string_view unit = without_blanks(trimmed.substr(used));
    if (unit.empty()) {
        refuse_forgotten_unit(number, text, option, units, suffix, example);
        return number;
    }
    for (const Unit& known : units) {
        if (unit == std::string(known.name) + std::string(suffix)) {
            if (!std::isfinite(number * known.factor)) {
                throw UsageError(value_of(option, text) + "; that is too much to count; use less");
            }
            return number * known.factor;
        }
    }
    throw UsageError(value_of(option, text) + "; '" + std::string(unit) + "' is none of the units " +
                     names_of(units, suffix) + "; write it as " + std::string(example));
}
}  // namespace

double parse_duration_ns(std::string_view text, std::string_view option) {
    return parse_quantity(text, option, kTimeUnits, "", "10us");
}

Bytes parse_bytes(std::string_view text, std::string_view option) {
    const double bytes = parse_quantity(text, option, kByteUnits, "", "16GiB");
    // 2^63 itself no longer fits, and the largest Bytes is not a double.
    if (bytes >= static_cast<double>(std::numeric_limits<Bytes>::max())) {
        throw UsageError(value_of(option, text) + "; at most 2^63 - 1 bytes can be counted; use less");
    }
    return static_cast<Bytes>(std::llround(bytes));
}

double parse_bandwidth(std::string_view text, std::string_view option) {
    const double bandwidth = parse_quantity(text, option, kByteUnits, "/s", "12GB/s");
    if (bandwidth == 0) {
        throw UsageError(value_of(option, text) + "; a link moves something; leave it out for copies that are free");
    }
    return bandwidth;
}

std::string format_bytes(Bytes bytes) {
    if (std::abs(bytes) < 1024) {
        return std::to_string(bytes) + " B";
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
    std::array<char, 32> text{};  // to_chars ignores the locale
    const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : 2;
    const auto end =
        std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, decimals).ptr;
    return std::string(text.data(), end).append(" ").append(unit);
}
}  // namespace pipescope
