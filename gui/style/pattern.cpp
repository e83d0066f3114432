#include "gui/style/pattern.h"

#include <QPainter>
#include <QRectF>

namespace pipescope {
namespace {
constexpr double kDot = 1.5;
constexpr double kThin = 1.2;
constexpr double kThick = 1.8;

bool hasInk(Pattern pattern, int x, int y) {
    constexpr int kHalf = kPatternPeriod / 2;
    const bool rising = (x + y) % kPatternPeriod < 2;
    const bool falling = (x - y + kPatternPeriod) % kPatternPeriod < 2;
    switch (pattern) {
        case Pattern::plain: return false;
        case Pattern::hatched: return rising;
        case Pattern::back_hatched: return falling;
        case Pattern::crossed: return (x + y) % kPatternPeriod == 0 || (x - y + kPatternPeriod) % kPatternPeriod == 0;
        case Pattern::lined: return y == kHalf - 1;
        case Pattern::barred: return x % kHalf == 1;
        case Pattern::dotted: return x % kHalf == 1 && y % kHalf == 1;
    }
    return false;
}

/// Draws lines through the rectangle that rise (1) or fall (-1) to the right.
void paintDiagonals(QPainter& painter, const QRectF& rect, int slope) {
    const double height = rect.height();
    for (double x = rect.left() - height; x < rect.right(); x += kPatternPeriod) {
        painter.drawLine(QPointF(x, slope > 0 ? rect.bottom() : rect.top()),
                         QPointF(x + height, slope > 0 ? rect.top() : rect.bottom()));
    }
}

void paintDots(QPainter& painter, const QRectF& rect, const QColor& ink) {
    constexpr double kStep = kPatternPeriod / 2.0;
    for (double y = rect.top() + 1; y < rect.bottom(); y += kStep) {
        for (double x = rect.left() + 1; x < rect.right(); x += kStep) {
            painter.fillRect(QRectF(x, y, kDot, kDot), ink);
        }
    }
}
}  // namespace

PatternTile tileOf(Pattern pattern) {
    PatternTile tile{};
    for (int x = 0; x < kPatternPeriod; ++x) {
        for (int y = 0; y < kPatternPeriod; ++y) {
            const int bit = hasInk(pattern, x, y) ? 1 << y : 0;
            tile[static_cast<std::size_t>(x)] = static_cast<std::uint8_t>(tile[static_cast<std::size_t>(x)] | bit);
        }
    }
    return tile;
}

bool isLight(const QColor& color) {
    constexpr double kAsReadable = 100;  // luminance at which black and white have about equal contrast
    return 0.299 * color.red() + 0.587 * color.green() + 0.114 * color.blue() > kAsReadable;
}

QColor inkOn(const QColor& ground) {
    constexpr double kShare = 0.45;
    const int target = isLight(ground) ? 0 : 255;
    const auto channel = [&](int value) { return static_cast<int>(value + (target - value) * kShare); };
    return QColor(channel(ground.red()), channel(ground.green()), channel(ground.blue()));
}

void paintPattern(QPainter& painter, const QRectF& rect, Pattern pattern, const QColor& ink) {
    if (pattern == Pattern::plain || rect.isEmpty()) {
        return;
    }
    painter.save();
    painter.setClipRect(rect, Qt::IntersectClip);
    painter.setPen(QPen(ink, pattern == Pattern::hatched || pattern == Pattern::back_hatched ? kThick : kThin));
    switch (pattern) {
        case Pattern::plain: break;
        case Pattern::hatched: paintDiagonals(painter, rect, 1); break;
        case Pattern::back_hatched: paintDiagonals(painter, rect, -1); break;
        case Pattern::crossed:
            paintDiagonals(painter, rect, 1);
            paintDiagonals(painter, rect, -1);
            break;
        case Pattern::lined:
            for (double y = rect.top() + kPatternPeriod / 2.0 - 0.5; y < rect.bottom(); y += kPatternPeriod) {
                painter.drawLine(QPointF(rect.left(), y), QPointF(rect.right(), y));
            }
            break;
        case Pattern::barred:
            for (double x = rect.left() + 1.5; x < rect.right(); x += kPatternPeriod / 2.0) {
                painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom()));
            }
            break;
        case Pattern::dotted: paintDots(painter, rect, ink); break;
    }
    painter.restore();
}
}  // namespace pipescope
