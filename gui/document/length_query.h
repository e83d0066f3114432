#pragma once

#include <QString>

#include <cstdint>
#include <limits>

namespace pipescope {
/// Lengths that a search accepts, in ns.
struct LengthLimits {
    std::int64_t least = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();

    bool accept(std::int64_t length) const { return length >= least && length <= most; }
    bool acceptAll() const { return least <= 0 && most == std::numeric_limits<std::int64_t>::max(); }
    friend bool operator==(const LengthLimits&, const LengthLimits&) = default;
};

/// Takes limits out of a search's text: ">=20ms", "<25 ms", "> 1.5s", in ns, us, ms, s. They stand after a space or at
/// the start. The rest of the text is left, without spaces around it.
LengthLimits takeLengths(QString& text);
/// ">=20ms <25ms": the lengths from `from` to before `to`, exactly.
QString lengthQuery(std::int64_t from, std::int64_t to);
}  // namespace pipescope
