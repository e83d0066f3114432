#pragma once

#include <QColor>

#include <array>
#include <cstdint>

class QPainter;
class QRectF;

namespace pipescope {
/// Marks a category in addition to its colour, so that colour is never the only cue.
enum class Pattern {
    plain,
    hatched,       ///< lines rising to the right
    back_hatched,  ///< lines falling to the right
    crossed,       ///< both
    lined,         ///< lines along the bar
    barred,        ///< lines across the bar
    dotted,
};

/// Period of the patterns in pixels, in both directions.
inline constexpr int kPatternPeriod = 8;
/// Inked pixels of a pattern: bit y of element x.
using PatternTile = std::array<std::uint8_t, kPatternPeriod>;
PatternTile tileOf(Pattern pattern);

/// True if black is more readable than white on this colour.
bool isLight(const QColor& color);
/// Pattern colour for a ground: lighter on a dark ground, darker on a light one.
QColor inkOn(const QColor& ground);
/// Draws the pattern as lines and squares, so that it also suits vector devices.
void paintPattern(QPainter& painter, const QRectF& rect, Pattern pattern, const QColor& ink);
}  // namespace pipescope
