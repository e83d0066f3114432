#pragma once

#include <QString>

#include <cmath>
#include <cstdint>
#include <limits>

namespace pipescope {
/// Lengths that a search accepts, in ns and in medians of all that is alike.
struct LengthLimits {
    std::int64_t least = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    double leastMedians = 0;
    double mostMedians = std::numeric_limits<double>::infinity();

    /// Without a look at the median.
    bool accept(std::int64_t length) const { return length >= least && length <= most; }
    bool accept(std::int64_t length, std::int64_t median) const {
        const auto medians = static_cast<double>(median);
        return accept(length) && static_cast<double>(length) >= leastMedians * medians &&
               (!std::isfinite(mostMedians) || static_cast<double>(length) <= mostMedians * medians);
    }
    bool needMedian() const { return leastMedians > 0 || std::isfinite(mostMedians); }
    bool acceptAll() const { return least <= 0 && most == std::numeric_limits<std::int64_t>::max() && !needMedian(); }
    friend bool operator==(const LengthLimits&, const LengthLimits&) = default;
};

/// Takes limits out of a search's text: ">=20ms", "<25 ms", "> 1.5s", in ns, us, ms, s, and ">1.5x", in
/// medians. They stand after a space or at the start. The rest of the text is left, without spaces around it.
LengthLimits takeLengths(QString& text);
/// ">=20ms <25ms": the lengths from `from` to before `to`, exactly.
QString lengthQuery(std::int64_t from, std::int64_t to);
}  // namespace pipescope
