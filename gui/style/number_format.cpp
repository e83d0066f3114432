#include "gui/style/number_format.h"

#include <QDateTime>
#include <QLocale>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace pipescope {
namespace {
struct TimeUnit {
    std::int64_t ns;
    const char* name;
    int digits;  // for ns below one of this unit
};
constexpr std::array<TimeUnit, 4> kTimeUnits{
    {{1'000'000'000, "s", 9}, {1'000'000, "ms", 6}, {1'000, "µs", 3}, {1, "ns", 0}}};

/// The largest unit of which the time has at least one, or also when rounded to four digits.
const TimeUnit& unitFor(std::int64_t ns, bool rounded = false) {
    constexpr std::int64_t kRounds = 20'000;  // 999.95 of a unit are shown as one of the next
    const auto found = std::find_if(kTimeUnits.begin(), kTimeUnits.end(), [&](const TimeUnit& unit) {
        return std::llabs(ns) >= unit.ns - (rounded ? unit.ns / kRounds : 0);
    });
    return found == kTimeUnits.end() ? kTimeUnits.back() : *found;
}

/// From here on digits are in groups, whatever the locale does: nobody counts the zeros of 1000000000.
constexpr double kGrouped = 10'000;

QString withUnit(double value, int decimals, const char* unit) {
    QLocale locale;
    if (std::fabs(value) >= kGrouped) {
        locale.setNumberOptions(locale.numberOptions() & ~QLocale::OmitGroupSeparator);
    }
    const QString number = locale.toString(value, 'f', decimals);
    return QString(number).replace(QLocale().negativeSign(), QChar(0x2212)) + QChar(QChar::Nbsp) + translated(unit);
}

/// Decimals for three significant digits, or for `more`. Those of the rounded value: 9.9996 becomes 10.00, not 10.000.
int decimalsFor(double value, int more = 0) {
    const auto decimalsOf = [more](double size) { return more + (size >= 100 ? 0 : size >= 10 ? 1 : 2); };
    const int decimals = decimalsOf(std::fabs(value));
    const double unit = std::pow(10, decimals);
    return decimalsOf(std::round(std::fabs(value) * unit) / unit);
}

struct Scaled {
    double value;
    std::size_t unit;
};

/// The value in the first unit in which it is below `base`, also when rounded to three digits. Each of the units is
/// `base` times the one before.
Scaled scaled(double value, double base, std::size_t units) {
    std::size_t unit = 0;
    for (; std::fabs(value) >= base - 0.5 && unit + 1 < units; ++unit) {
        value /= base;
    }
    return {value, unit};
}

QString withSign(const QString& text, double value) {
    QString digits = text;
    digits.remove(QLocale().negativeSign()).remove(QChar(0x2212));
    // A value rounded to zero has no sign.
    if (std::none_of(digits.begin(), digits.end(), [](QChar each) { return each.digitValue() > 0; })) {
        return digits;
    }
    return (value < 0 ? QString(QChar(0x2212)) : QStringLiteral("+")) + digits;
}
}  // namespace

QString formatDuration(std::int64_t ns) {
    const TimeUnit& unit = unitFor(ns, true);
    const double value = static_cast<double>(ns) / static_cast<double>(unit.ns);
    // One digit more than for sizes, to distinguish two step times.
    const int decimals = unit.ns == 1 || std::fabs(value) >= kGrouped ? 0 : decimalsFor(value, 1);
    return withUnit(value, decimals, unit.name);
}

QString formatInstant(std::int64_t ns, std::int64_t length) {
    const auto digitOf = [](std::int64_t value) {  // the last one of formatDuration()
        constexpr std::int64_t kDigits = 10'000;
        std::int64_t digit = 1;
        while (digit <= std::llabs(value) / kDigits) {
            digit *= 10;
        }
        return digit;
    };
    return formatTime(ns, std::min(digitOf(ns), length > 0 ? digitOf(length) : 1), ns);
}

QString formatClock(std::int64_t ns, std::int64_t length) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::int64_t rest = (ns % kSecond + kSecond) % kSecond;
    const QDateTime second = QDateTime::fromSecsSinceEpoch((ns - rest) / kSecond);
    QString text = second.toString(QStringLiteral("HH:mm:ss"));
    // Three digits of the length, in groups of three.
    const int decimals = length >= 100 * kSecond ? 0 : length >= kSecond / 10 ? 3 : length >= kSecond / 10'000 ? 6 : 9;
    if (decimals > 0) {
        text += QLocale().decimalPoint() + QStringLiteral("%1").arg(rest, 9, 10, QLatin1Char('0')).left(decimals);
    }
    return text;
}

QString formatDurationChange(std::int64_t ns) {
    return withSign(formatDuration(ns), static_cast<double>(ns));
}

QString formatTime(std::int64_t ns, std::int64_t step, std::int64_t largest) {
    const TimeUnit& unit = unitFor(std::max(std::llabs(largest), static_cast<long long>(step)));
    int decimals = unit.digits;
    for (std::int64_t rest = std::max<std::int64_t>(step, 1); decimals > 0 && rest % 10 == 0; rest /= 10) {
        --decimals;
    }
    return withUnit(static_cast<double>(ns) / static_cast<double>(unit.ns), decimals, unit.name);
}

QString isolated(const QString& text) {
    const bool hasOther = std::any_of(text.begin(), text.end(), [](QChar each) {
        return each.direction() == QChar::DirR || each.direction() == QChar::DirAL;
    });
    return hasOther ? QChar(0x2068) + text + QChar(0x2069) : text;  // first strong isolate .. pop
}

QString formatBytes(std::int64_t bytes) {
    static constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
    const auto [value, unit] = scaled(static_cast<double>(bytes), 1024, kNames.size());
    return withUnit(value, unit == 0 ? 0 : decimalsFor(value), kNames[unit]);
}

QString formatShare(double share) {
    return withUnit(share * 100, 1, "%");
}

QString formatShareChange(double share) {
    return withSign(formatShare(share), share);
}

QString formatPoints(double now, double before) {
    const double points = (now - before) * 100;
    return withSign(translated("%1 points").arg(QLocale().toString(points, 'f', 2)), points);
}

QString formatRate(double bytesPerSecond) {
    static constexpr std::array<const char*, 5> kNames{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    const auto [value, unit] = scaled(bytesPerSecond, 1000, kNames.size());
    return withUnit(value, decimalsFor(value), kNames[unit]);
}

QString formatOperations(double tera) {
    static constexpr std::array<const char*, 6> kNames{"FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
    const auto [value, unit] = scaled(tera * 1e12, 1000, kNames.size());
    return withUnit(value, decimalsFor(value), kNames[unit]);
}

QString formatHours(double hours) {
    constexpr double kDay = 24;
    constexpr double kNever = 1e7;
    constexpr double kNsPerHour = 3600e9;
    return !(hours < kNever)   ? translated("never")
           : hours >= 2 * kDay ? withUnit(hours / kDay, 1, "days")
           : hours >= 1        ? withUnit(hours, 2, "h")
           : hours >= 0.1      ? withUnit(hours * 60, 1, "min")
                               : formatDuration(std::llround(hours * kNsPerHour));
}

QString formatCost(double cost) {
    static constexpr std::array<const char*, 5> kNames{"", "k", "M", "G", "T"};
    const auto [value, unit] = scaled(cost, 1000, kNames.size());
    if (unit == 0 && std::fabs(value) < 1) {
        return QLocale().toString(value, 'g', 3);
    }
    return unit == 0 ? QLocale().toString(value, 'f', decimalsFor(value))
                     : withUnit(value, decimalsFor(value), kNames[unit]);
}
}  // namespace pipescope
