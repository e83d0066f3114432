#pragma once

#include <QColor>

#include <array>
#include <cstdint>

class QPainter;
class QRectF;

namespace pipescope {
/// Marks a category beside its colour, so that nothing depends on colour alone.
enum class Pattern {
    plain,
    hatched,       ///< lines that rise to the right
    back_hatched,  ///< lines that fall to the right
    crossed,       ///< both
    lined,         ///< lines along the bar
    barred,        ///< lines across the bar
    dotted,
};

/// Patterns repeat after this many pixels along and across.
inline constexpr int kPatternPeriod = 8;
/// Where a pattern has ink: bit y of element x.
using PatternTile = std::array<std::uint8_t, kPatternPeriod>;
PatternTile tileOf(Pattern pattern);

/// Black reads better on it than white.
bool isLight(const QColor& color);
/// The colour of a pattern on this ground: lighter on a dark colour, darker on a light one.
QColor inkOn(const QColor& ground);
/// The pattern over the rectangle, as lines and squares, for a vector device too.
void paintPattern(QPainter& painter, const QRectF& rect, Pattern pattern, const QColor& ink);
}  // namespace pipescope
