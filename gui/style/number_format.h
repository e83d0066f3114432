#pragma once

#include <QString>

#include <cstdint>

namespace pipescope {
/// Texts for people, in the current default QLocale. Times in ns, sizes in bytes.

/// "12.3 ms": three or more significant digits, the unit the value asks for.
QString formatDuration(std::int64_t ns);
/// "+1.2 ms", "−1.2 ms"
QString formatDurationChange(std::int64_t ns);
/// A time as a ruler with ticks every `step` ns and none beyond `largest` shows it: "12.5 ms". One unit for all ticks.
QString formatTime(std::int64_t ns, std::int64_t step, std::int64_t largest);
/// "1.25 GiB"
QString formatBytes(std::int64_t bytes);
/// 0.213 to "21.3 %"
QString formatShare(double share);
/// -0.012 to "−1.2 %", with its sign.
QString formatShareChange(double share);
/// "−0.6 points" from 0.124 to 0.118: the difference of two shares as formatShare() shows them, so that a reader who
/// subtracts them gets the same.
QString formatPoints(double now, double before);
/// "12.5 GB/s", in powers of 1000.
QString formatRate(double bytesPerSecond);
}  // namespace pipescope
