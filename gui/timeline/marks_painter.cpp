#include "gui/timeline/timeline_painter.h"

#include "gui/style/number_format.h"
#include "gui/timeline/timeline_marks.h"

#include <QFontMetricsF>
#include <QLineF>
#include <QPainter>
#include <QPainterPath>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace pipescope {
namespace {
constexpr double kLeastPattern = 3;         // pixels; narrower bars are too small for a hatch
constexpr double kLeastLowPattern = 16;     // pixels; the hatch of narrower bubbles between tasks would be a moiré
constexpr double kLeastGhost = 2;           // pixels; narrower outlines would hide their contents
constexpr double kTallGhost = 20;           // pixels; shorter bars get full outlines, and thin lines of the path
constexpr double kHeadLength = 7;           // of an arrow, in pixels
constexpr std::size_t kMostMarks = 20'000;  // maximum on screen; more would be slow and unreadable

QRectF clippedTo(const TimelineScene& scene, QRectF rect) {
    rect.setLeft(std::max(rect.left(), scene.lanes.left() - 2.0));
    rect.setRight(std::min(rect.right(), scene.lanes.right() + 3.0));
    return rect;
}

/// The lane's row of tasks (or copies) at this depth, or its top row if it has fewer.
std::optional<std::uint32_t> rowOf(const TimelineStore& store, const StoredRow& like) {
    std::optional<std::uint32_t> found;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const StoredRow& each = store.rows()[row];
        if (each.lane == like.lane && each.copies == like.copies && (!found || each.depth == like.depth)) {
            found = row;
        }
    }
    return found;
}

/// How bubbles of one cause look.
struct CauseLook {
    QBrush brush;
    QColor tint;  ///< of a bubble that is too small for the pattern
    QString name;
    double width = 0;  ///< of the name's plate
};

std::array<CauseLook, kNumBubbleCauses> causeLooks(const QFontMetricsF& metrics, const TimelineColors& colors) {
    std::array<CauseLook, kNumBubbleCauses> looks;
    for (int cause = 0; cause < kNumBubbleCauses; ++cause) {
        CauseLook& look = looks[static_cast<std::size_t>(cause)];
        look.brush = brushOf(static_cast<BubbleCause>(cause), colors);
        look.name = nameOf(static_cast<BubbleCause>(cause));
        look.width = metrics.horizontalAdvance(look.name) + 8;
        constexpr double kTint = 0.45;
        const auto mixed = [&](int ground, int ink) { return static_cast<int>(ground + (ink - ground) * kTint); };
        const QColor ink = look.brush.color();
        look.tint = QColor(mixed(colors.bubble.red(), ink.red()), mixed(colors.bubble.green(), ink.green()),
                           mixed(colors.bubble.blue(), ink.blue()));
    }
    return looks;
}

/// The brush on the background of a bubble, in lines of pixels of the device that repeat.
std::vector<std::vector<QRgb>> linesOf(const QBrush& brush, const TimelineColors& colors, int width, double scale) {
    const bool isPlain = brush.style() == Qt::SolidPattern;
    const PatternTile tile = tileOf(brush.style());
    const int dot = std::max(1, static_cast<int>(std::lround(scale)));  // pixels of the device
    const QRgb ground = (isPlain ? brush.color() : colors.bubble).rgb();
    std::vector<std::vector<QRgb>> lines(isPlain ? 1 : static_cast<std::size_t>(kPatternPeriod * dot));
    for (std::size_t y = 0; y < lines.size(); ++y) {
        lines[y].assign(static_cast<std::size_t>(width), ground);
        for (int x = 0; x < width; ++x) {
            const std::uint8_t inked = tile[static_cast<std::size_t>(x / dot % kPatternPeriod)];
            if ((inked >> (y / static_cast<std::size_t>(dot)) & 1) != 0) {
                lines[y][static_cast<std::size_t>(x)] = brush.color().rgb();
            }
        }
    }
    return lines;
}

/// Calls `visit` for each shaded bubble in view. Hundreds of lanes have tens of thousands: what is out of view, or
/// thinner than a pixel, must cost next to nothing.
template <class Visit>
void visitBubbles(const TimelineScene& scene, const Visit& visit) {
    const TimeRange shown = shownRange(scene.window);
    const auto least = static_cast<std::int64_t>(scene.window.length / std::max(1, scene.lanes.width()));
    std::int64_t lane = -1;
    Band band;
    bool isFolded = false;
    for (const Bubble& piece : scene.marks->bubbles) {
        if (piece.end <= shown.start || piece.start >= shown.end || piece.length() < least) {
            continue;
        }
        if (piece.lane.value() != lane) {
            lane = piece.lane.value();
            band = scene.layout->bubbleBand(piece.lane);
            isFolded = scene.layout->isFolded(piece.lane);
        }
        if (band.height == 0 || isFolded || is_work(piece.cause) || scene.marks->hides(piece.cause)) {
            continue;
        }
        const QRectF rect = clippedTo(scene, rectAt(scene, band, piece.start, piece.end));
        if (rect.width() >= 1 && rect.intersects(scene.lanes)) {
            visit(piece, band, rect);
        }
    }
}

void paintBubbles(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors, bool low) {
    const QFontMetricsF metrics(painter.font());
    const std::array<CauseLook, kNumBubbleCauses> looks = causeLooks(metrics, colors);
    visitBubbles(scene, [&](const Bubble& piece, const Band& band, const QRectF& rect) {
        if (!low && !hasPatterns(band)) {
            return;
        }
        const CauseLook& look = looks[static_cast<std::size_t>(piece.cause)];
        const bool isPlain = look.brush.style() == Qt::SolidPattern;
        if (!isPlain && hasPatterns(band) && rect.width() < kLeastPattern) {
            painter.fillRect(rect, look.tint);
            return;
        }
        painter.fillRect(rect, colors.bubble);
        if (!isPlain && !hasPatterns(band) && rect.width() < kLeastLowPattern) {
            return;
        }
        painter.fillRect(rect, look.brush);
        if (look.width < rect.width() && metrics.height() < rect.height()) {
            QRectF plate(0, 0, look.width, metrics.height());
            plate.moveCenter(rect.center());
            painter.fillRect(plate, colors.bubble);
            painter.setPen(colors.text);
            painter.drawText(plate, Qt::AlignCenter, look.name);
        }
    });
}

void paintVeil(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors) {
    visitRows(scene, [&](const LaneBand&, const RowBand& row, const StoredRow& stored) {
        QRectF rect = rectAt(scene, row.band, 0, 0);
        rect.setLeft(scene.lanes.left());
        rect.setRight(scene.lanes.right() + 1.0);
        if (!stored.copies) {
            painter.fillRect(rect, veilOf(colors));
        }
    });
}

/// Fades the tasks of other steps, whose letters and numbers are those of the chosen one. Rows too dense for labels
/// stay.
void paintOtherSteps(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors) {
    constexpr double kAll = 1e-9;  // pixels: every task of a row that is not too dense
    const QColor veil = veilOf(colors);
    visitRows(scene, [&](const LaneBand& lane, const RowBand& row, const StoredRow& stored) {
        if (lane.folded) {
            return;
        }
        QRectF faint;  // neighbours at once, or their common edge would be painted twice
        const auto flush = [&] {
            faint.setLeft(std::floor(faint.left()));  // with the border
            if (const QRectF rect = clippedTo(scene, faint); faint.width() > 0 && rect.intersects(scene.lanes)) {
                painter.fillRect(rect, veil);
            }
            faint = {};
        };
        visitVisible(scene, row, kAll, [&](const QRectF& bar, std::size_t i) {
            const std::optional<TaskKey> key = unpack(stored.key[i]);
            if (!key || key->step == *scene.marks->onlyStep) {
                flush();
            } else if (faint.width() > 0 && bar.left() - faint.right() < 1) {
                faint.setRight(bar.right());
            } else {
                flush();
                faint = bar;
            }
        });
        flush();
    });
}

LaneId laneOf(const TimelineScene& scene, SliceRef slice) {
    return scene.store->rows()[slice.row].lane;
}

TaskKind shownKindOf(const TimelineScene& scene, SliceRef slice) {
    return static_cast<TaskKind>(scene.store->rows()[slice.row].kind[slice.index]);
}

void paintDifferences(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors) {
    const QFontMetricsF metrics(painter.font());
    for (const TaskPair& pair : scene.marks->differences) {
        const QRectF rect = clippedTo(scene, sliceRect(scene, pair.measured));
        if (contains(scene.hidden, shownKindOf(scene, pair.measured)) || rect.width() <= 0 ||
            !rect.intersects(scene.lanes) || scene.layout->isFolded(laneOf(scene, pair.measured))) {
            continue;
        }
        const LatenessStyle style = styleOf(latenessOf(pair.end_change, scene.marks->differenceScale), colors);
        painter.fillRect(rect, style.color);
        if (style.pattern != Qt::SolidPattern && rect.width() >= kLeastPattern) {
            painter.fillRect(rect, QBrush(inkOn(style.color), style.pattern));
        }
        if (rect.width() >= kLeastPattern + 1) {
            painter.setPen(QPen(colors.border, 0));
            painter.drawLine(QPointF(std::floor(rect.left()), rect.top()),
                             QPointF(std::floor(rect.left()), rect.bottom() - 1));
        }
    }
}

void paintLinkTiers(QPainter& painter, const TimelineScene& scene) {
    constexpr std::size_t kMostCopies = 200'000;
    std::size_t copies = 0;
    visitRows(scene, [&](const LaneBand&, const RowBand& row, const StoredRow& stored) {
        if (!stored.copies || (copies += stored.size()) > kMostCopies) {
            return;
        }
        visitVisible(scene, row, 0, [&](const QRectF& bar, std::size_t index) {
            const std::optional<TaskKey> key = unpack(stored.key[index]);
            const QRectF rect = clippedTo(scene, bar);
            const bool isKnown = key && key->partition >= 0 &&
                                 static_cast<std::size_t>(key->partition) < scene.marks->linkTiers.size() &&
                                 (key->kind == TaskKind::copy_forward || key->kind == TaskKind::copy_backward);
            if (isKnown && !contains(scene.hidden, key->kind) && rect.intersects(scene.lanes)) {
                painter.fillRect(QRectF(rect.left(), rect.top(), std::max(1.0, rect.width()), rect.height()),
                                 tierColor(scene.marks->linkTiers[static_cast<std::size_t>(key->partition)]));
            }
        });
    });
}

void paintDifferenceLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors) {
    const QFontMetricsF metrics(painter.font());
    // Measuring every text would dominate the cost. No text is narrower than this.
    const double least = metrics.horizontalAdvance(QStringLiteral("F0"));
    const double letter = metrics.horizontalAdvance(QLatin1Char('W'));
    for (const TaskPair& pair : scene.marks->differences) {
        const QRectF rect = clippedTo(scene, sliceRect(scene, pair.measured));
        if (contains(scene.hidden, shownKindOf(scene, pair.measured)) || rect.width() < least ||
            rect.height() < metrics.ascent() || !rect.intersects(scene.lanes) ||
            scene.layout->isFolded(laneOf(scene, pair.measured))) {
            continue;
        }
        const LatenessStyle style = styleOf(latenessOf(pair.end_change, scene.marks->differenceScale), colors);
        const TaskKey key = scene.store->shownKey(pair.measured);
        const bool isOneOfMany = scene.store->placeOf(laneOf(scene, pair.measured), key.partition).has_value();
        const QString brief = barLabel(key);
        const QString name = isOneOfMany ? barLabelWithPartition(key) : brief;
        const QString full = name + QLatin1Char(' ') + latenessText(pair.end_change);
        // A name fits if that of any other kind would: neighbours look alike.
        const bool hasRoom = isOneOfMany && metrics.horizontalAdvance(name) + letter <= rect.width();
        const QString label = metrics.horizontalAdvance(full) + 4 <= rect.width() ? full : hasRoom ? name : brief;
        const double width = metrics.horizontalAdvance(label);
        if (label.isEmpty() || width + 2 > rect.width()) {
            continue;
        }
        QRectF plate(0, 0, width + 6, metrics.ascent());  // a line that ends at a number looks like a minus sign
        plate.moveCenter(rect.center());
        painter.fillRect(plate.intersected(rect.adjusted(1, 0, 0, 0)), style.color);
        painter.setPen(textOn(style.color));
        painter.drawText(plate.adjusted(-4, -4, 4, 4), Qt::AlignCenter | Qt::TextSingleLine, label);
    }
}

void paintGhosts(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors) {
    const TimelineStore& ghosts = *scene.marks->ghosts;
    std::size_t drawn = 0;
    painter.setBrush(Qt::NoBrush);
    for (const StoredRow& row : ghosts.rows()) {
        const std::optional<std::uint32_t> here = rowOf(*scene.store, row);
        if (!here) {
            continue;
        }
        const Band band = scene.layout->bandOf(*here);
        if (band.height < (row.copies ? 1 : kLowestPatternRow) || scene.layout->isFolded(row.lane)) {
            continue;
        }
        for (std::size_t i = 0; i < row.start.size() && drawn < kMostMarks; ++i) {
            const QRectF rect = clippedTo(scene, rectAt(scene, band, row.start[i] + scene.marks->ghostShift,
                                                        row.end[i] + scene.marks->ghostShift));
            if (contains(scene.hidden, static_cast<TaskKind>(row.kind[i])) || rect.width() < kLeastGhost ||
                !rect.intersects(scene.lanes)) {
                continue;
            }
            ++drawn;
            // Uses the lower part of a bar, so that its label stays readable.
            const double top = row.copies || rect.height() < kTallGhost ? 0.5 : std::round(rect.height() * 0.62) + 0.5;
            const QRectF frame = rect.adjusted(0.5, top, -0.5, -1.5);
            QColor inside = colors.paper;
            inside.setAlpha(110);
            painter.fillRect(frame, inside);
            painter.setPen(QPen(colors.selection, 1));
            painter.drawRect(frame);
        }
    }
}

/// The pieces of the critical path in view: bars along its tasks, and the ways between them.
struct PathPieces {
    std::vector<QRectF> tasks;
    std::vector<QLineF> ways;
};

/// The path has thousands of tasks; only those in view, and lines that cross it, cost more than a comparison.
PathPieces criticalPieces(const TimelineScene& scene) {
    const TimeRange shown = shownRange(scene.window);
    const auto sideOf = [&](SliceRef slice) {
        const StoredRow& row = scene.store->rows().at(slice.row);
        return row.end.at(slice.index) < shown.start ? -1 : row.start.at(slice.index) > shown.end ? 1 : 0;
    };
    const auto lineOf = [&](SliceRef slice) {
        const QRectF rect = sliceRect(scene, slice);
        const double height = std::min(rect.height() < kTallGhost ? 2.0 : 4.0, rect.height());  // below the labels
        return QRectF(rect.left(), rect.bottom() - height, std::max(2.0, rect.width()), height);
    };
    PathPieces pieces;
    std::optional<SliceRef> before;
    int sideBefore = 0;
    for (const SliceRef slice : scene.marks->critical) {
        const int side = sideOf(slice);
        if (side == 0 || side != sideBefore) {
            const QRectF line = lineOf(slice);
            if (before) {
                const QRectF last = lineOf(*before);
                pieces.ways.emplace_back(last.right(), last.center().y(), line.left(), line.center().y());
            }
            if (const QRectF seen = clippedTo(scene, line); seen.width() > 0) {
                pieces.tasks.push_back(seen);
            }
        }
        before = slice;
        sideBefore = side;
    }
    return pieces;
}

/// Fills the rectangles, whose number may be thousands, and so their cost that of a call each.
void fillAll(QPainter& painter, const std::vector<QRectF>& rects, const QColor& color) {
    if (painter.deviceTransform().type() > QTransform::TxTranslate || isVector(painter)) {
        for (const QRectF& rect : rects) {
            painter.fillRect(rect, color);
        }
        return;
    }
    std::vector<QRect> pixels;
    pixels.reserve(rects.size());
    for (const QRectF& rect : rects) {  // as fillRect() rounds
        pixels.emplace_back(QPoint(qRound(rect.left()), qRound(rect.top())),
                            QPoint(qRound(rect.right()) - 1, qRound(rect.bottom()) - 1));
    }
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawRects(pixels.data(), static_cast<int>(pixels.size()));
}

void paintCriticalPath(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors) {
    constexpr double kShort = 4;  // a shorter way is a rectangle, which costs a tenth of a line
    const PathPieces pieces = criticalPieces(scene);
    const auto paintAll = [&](double width, double above, const QColor& color) {
        std::vector<QRectF> rects;
        painter.setPen(QPen(color, width));
        for (const QLineF& way : pieces.ways) {
            if (std::abs(way.dx()) > kShort || std::abs(way.dy()) > kShort) {
                painter.drawLine(way);
                continue;
            }
            const double half = width / 2;
            rects.push_back(QRectF(way.p1(), way.p2()).normalized().adjusted(-half, -half, half, half));
        }
        for (const QRectF& task : pieces.tasks) {
            rects.push_back(task.adjusted(0, -above, 0, 0));
        }
        fillAll(painter, rects, color);
    };
    paintAll(4, 1, colors.paper);
    paintAll(2, 0, colors.critical);
}

/// Where an arrow begins or ends: above the labels in the middle of a row, or below them.
double besideLabel(const QRectF& rect, bool below) {
    const double inset = std::min(rect.height() / 2, std::clamp(rect.height() / 6, 4.0, 10.0));
    return below ? rect.bottom() - inset : rect.top() + inset;
}

void paintArrow(QPainter& painter, const QPointF& from, const QPointF& to, const TimelineColors& colors) {
    QPainterPath path(from);
    const double reach = std::max(12.0, std::abs(to.x() - from.x()) / 2);
    path.cubicTo(from + QPointF(reach, 0), to - QPointF(reach, 0), to);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(colors.paper, 4));
    painter.drawPath(path);
    painter.setPen(QPen(colors.selection, 1.5));
    painter.drawPath(path);
    painter.setBrush(colors.selection);
    painter.setPen(QPen(colors.paper, 1));
    painter.drawPolygon(
        QPolygonF({to, to + QPointF(-kHeadLength, -kHeadLength / 2), to + QPointF(-kHeadLength, kHeadLength / 2)}));
}
}  // namespace

LowBubbles lowBubbles(const TimelineScene& scene, const TimelineColors& colors, double scale) {
    const int width = static_cast<int>(std::lround(scene.lanes.width() * scale));
    LowBubbles low;
    visitBubbles(scene, [&](const Bubble& piece, const Band& band, const QRectF& rect) {
        const QBrush brush = brushOf(piece.cause, colors);
        const bool isPlain = brush.style() == Qt::SolidPattern;
        if (hasPatterns(band) || (!isPlain && rect.width() < kLeastLowPattern)) {
            return;
        }
        const auto pixel = [&](double x) {
            return std::clamp(static_cast<int>(std::lround((x - scene.lanes.left()) * scale)), 0, width);
        };
        low.spans.push_back({piece.lane, pixel(rect.left()), pixel(rect.right()), piece.cause});
        std::vector<std::vector<QRgb>>& lines = low.lines[static_cast<std::size_t>(piece.cause)];
        if (lines.empty()) {
            lines = linesOf(brush, colors, width, scale);
        }
    });
    std::ranges::stable_sort(low.spans, {}, &BubbleSpan::lane);
    return low;
}

void paintUnderLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors, bool low) {
    if (!scene.marks) {
        return;
    }
    painter.save();
    if (scene.marks->recolours()) {
        paintVeil(painter, scene, colors);
    } else if (scene.marks->onlyStep) {
        paintOtherSteps(painter, scene, colors);
    }
    if (scene.marks->shadesBubbles) {
        paintBubbles(painter, scene, colors, low);
    }
    if (!scene.marks->linkTiers.empty()) {
        paintLinkTiers(painter, scene);
    }
    paintDifferences(painter, scene, colors);
    paintDifferenceLabels(painter, scene, colors);
    painter.restore();
}

void paintOverLabels(QPainter& painter, const TimelineScene& scene, const TimelineColors& colors) {
    if (!scene.marks) {
        return;
    }
    painter.save();
    if (scene.marks->ghosts) {
        paintGhosts(painter, scene, colors);
    }
    paintCriticalPath(painter, scene, colors);
    painter.setRenderHint(QPainter::Antialiasing);
    for (const auto& [from, to] : scene.marks->arrows) {
        const QRectF left = sliceRect(scene, from);
        const QRectF right = sliceRect(scene, to);
        const bool up = right.top() < left.top();
        const bool same = right.top() == left.top();
        paintArrow(painter, {left.right(), besideLabel(left, !up)}, {right.left(), besideLabel(right, up || same)},
                   colors);
    }
    painter.restore();
}
}  // namespace pipescope
