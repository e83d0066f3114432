#pragma once

#include <QCoreApplication>
#include <QLocale>
#include <QString>

#include <concepts>
#include <cstdint>

namespace pipescope {
/// A text for people, translated, where there is no QObject whose tr() could do it.
inline QString translated(const char* source) {
    return QCoreApplication::translate("PipeScope", source);
}

/// With a capital letter at its start.
inline QString capitalised(const QString& text) {
    return text.left(1).toUpper() + text.mid(1);
}

/// A name from a file, for a line with other texts. Without this, figures and separators beside a name in Hebrew or
/// Arabic would be in the order of its script.
QString isolated(const QString& text);

/// Stands for a value that is not known, in tables and figures.
inline QString unknownValue() {
    return QStringLiteral("–");
}
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// Formats values for people, in the current default QLocale. Times in ns, sizes in bytes.

/// "12.3 ms": three or more significant digits, in a suitable unit.
QString formatDuration(std::int64_t ns);
/// When something of that length starts or ends, with the digits of its length: "1.327692000 s" for a length of 9 µs.
QString formatInstant(std::int64_t ns, std::int64_t length);
/// Local time of day, ns since 1970 in UTC, with decimals for something of that length: "14:03:05.012345".
QString formatClock(std::int64_t ns, std::int64_t length);
/// "+1.2 ms", "−1.2 ms"
QString formatDurationChange(std::int64_t ns);
/// Ruler label such as "12.5 ms", for ticks every `step` ns up to `largest`. All ticks share one unit.
QString formatTime(std::int64_t ns, std::int64_t step, std::int64_t largest);
/// "1.25 GiB"
QString formatBytes(std::int64_t bytes);
/// "21.3 %" for 0.213.
QString formatShare(double share);
/// "−1.2 %" for -0.012, always with a sign.
QString formatShareChange(double share);
/// "−0.52 points" from 0.1236 to 0.1184: the difference of the shares themselves, with the decimals of
/// `pipescope compare`. Shares as formatShare() rounds them may differ by 0.1 more or less.
QString formatPoints(double now, double before);
/// "12.5 GB/s", in powers of 1000.
QString formatRate(double bytesPerSecond);
/// Operations in a second, given in units of 10^12: "1.23 TFLOP/s", "95.5 GFLOP/s".
QString formatOperations(double tera);
/// "3.2 days", "4.50 h", "12.3 min", or as a duration below 6 minutes; "never" from a thousand years on.
QString formatHours(double hours);
/// "12.3", "1.2 k", "3.46 M": three significant digits of a price or of device-hours.
QString formatCost(double cost);
/// "1 lane", "1,024 lanes".
template <std::integral Number>
QString formatCount(Number count, const QString& one, const QString& many) {
    return QLocale().toString(static_cast<qlonglong>(count)) + QLatin1Char(' ') + (count == 1 ? one : many);
}
}  // namespace pipescope
