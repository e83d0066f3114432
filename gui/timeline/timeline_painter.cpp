#include "gui/timeline/timeline_painter.h"

#include "gui/style/work_pool.h"
#include "gui/timeline/timeline_marks.h"

#include <QFontMetricsF>
#include <QPaintEngine>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pipescope {
namespace {
constexpr double kLeastBorderWidth = 4;
constexpr double kLowestFineRow = 4;     // device pixels; there are hundreds of lower ones
constexpr int kLowCell = 2;              // device pixels of a column of such a row
constexpr int kLowestCell = 3;           // and of one of two pixels or one
constexpr int kLowRowsAtOnce = 16;       // half a megabyte at 4K stays in the cache
constexpr int kKernelText = 9;           // pixels
constexpr double kLeastKernelName = 30;  // pixels
// With fewer columns, drawing is faster than waking up threads.
constexpr std::size_t kColumnsWorthThreads = 20'000;
constexpr int kPixelsWorthThreads = 200'000;
constexpr std::size_t kMostVectorSlices = 50'000;
// A row with less than this many pixels per slice gets no labels: the search for wide slices would cost more than the
// drawing.
constexpr std::size_t kLeastPixelsPerSlice = 2;

/// Rows that share a band, and so its pixels.
struct SharedBand {
    Band band;
    std::vector<std::uint32_t> rows;
};

/// Calls `visit` for each band in view, from top to bottom.
void visitBands(const TimelineScene& scene, const std::function<void(const SharedBand&)>& visit) {
    SharedBand shared;
    const auto end = [&] {
        if (!shared.rows.empty()) {
            visit(shared);
        }
        shared.rows.clear();
    };
    visitRows(scene, [&](const LaneBand&, const RowBand& row, const StoredRow&) {
        if (row.band != shared.band) {
            end();
            shared.band = row.band;
        }
        shared.rows.push_back(row.row);
    });
    end();
}

int cellOf(double height) {
    return height >= kLowestFineRow ? 1 : height > 2 ? kLowCell : kLowestCell;
}

/// Repeats each of the colours `cell` times. A division per pixel would cost more than the rest of a low row.
template <int cell>
void widen(const QRgb* colors, QRgb* target, int width) {
    for (int whole = width / cell; whole > 0; --whole, ++colors, target += cell) {
        for (int x = 0; x < cell; ++x) {
            target[x] = *colors;
        }
    }
    std::fill_n(target, width % cell, width % cell > 0 ? *colors : 0);
}

/// A row without patterns: from pixel row `top` to `bottom` of the device, counted from the top of the lanes, in the
/// strip's columns of `cell` pixels each, with these bubbles.
struct LowRow {
    int top = 0;
    int bottom = 0;
    const QImage* strip = nullptr;
    int cell = 1;
    std::vector<BubbleSpan> spans;

    void writeLine(QRgb* target, int width, int y, const LowBubbles& bubbles) const {
        const auto* colors = reinterpret_cast<const QRgb*>(strip->constScanLine(0));
        if (cell == kLowCell) {
            widen<kLowCell>(colors, target, width);
        } else if (cell == kLowestCell) {
            widen<kLowestCell>(colors, target, width);
        } else {
            std::copy_n(colors, width, target);
        }
        writeBubbles(target, y, bubbles);
    }
    void writeBubbles(QRgb* target, int y, const LowBubbles& bubbles) const {
        for (const BubbleSpan& span : spans) {
            std::copy_n(bubbles.line(span.cause, y) + span.from, span.end - span.from, target + span.from);
        }
    }
};

/// Pixels that a painter draws on.
struct Pixels {
    QImage* image = nullptr;
    QPoint corner;  ///< of the rectangle, in the image

    QRgb* line(int y) const {
        // scanLine() would copy an image that something else refers to, and the painter would go on with the old one.
        auto* bits = const_cast<uchar*>(image->constScanLine(corner.y() + y));
        return reinterpret_cast<QRgb*>(bits) + corner.x();
    }
};

/// The pixels below a rectangle of that size in the painter's coordinates, whose corner is at the origin. Empty if they
/// cannot be written without the painter: they are no pixels of four bytes, or a part of them is clipped.
std::optional<Pixels> pixelsBelow(const QPainter& painter, const QSize& size) {
    const QPaintEngine& engine = *painter.paintEngine();
    const QTransform& transform = painter.deviceTransform();
    QPaintDevice* device = engine.paintDevice();
    if (engine.type() != QPaintEngine::Raster || device == nullptr || device->devType() != QInternal::Image ||
        transform.type() > QTransform::TxTranslate) {
        return std::nullopt;
    }
    auto* image = static_cast<QImage*>(device);
    const QRect target(transform.map(QPoint(0, 0)), size);
    const QRegion clip = engine.systemClip();
    const bool isWhole = clip.isEmpty() || (clip.rectCount() == 1 && clip.boundingRect().contains(target));
    const bool isPlain =
        image->format() == QImage::Format_RGB32 || image->format() == QImage::Format_ARGB32_Premultiplied;
    return isWhole && isPlain && image->rect().contains(target) ? std::optional(Pixels{image, target.topLeft()})
                                                                : std::nullopt;
}

/// Writes the rows into an image's pixels, on every core. The painter alone copies them in one thread, which takes a
/// third of the time of a frame with hundreds of rows at 4K.
void writeRows(const std::vector<LowRow>& rows, const LowBubbles& bubbles, const Pixels& pixels, int width) {
    constexpr std::size_t kRowsAtOnce = 16;
    parallelFor((rows.size() + kRowsAtOnce - 1) / kRowsAtOnce, [&](std::size_t part, std::size_t) {
        for (std::size_t i = part * kRowsAtOnce; i < std::min(rows.size(), (part + 1) * kRowsAtOnce); ++i) {
            const LowRow& row = rows[i];
            for (int y = row.top; y < row.bottom; ++y) {
                if (y == row.top) {
                    row.writeLine(pixels.line(y), width, y, bubbles);
                } else {
                    std::copy_n(pixels.line(row.top), width, pixels.line(y));
                    row.writeBubbles(pixels.line(y), y, bubbles);
                }
            }
        }
    });
}

/// Paints the rows, several with one image, since an image for each costs more than its pixels.
void paintRows(QPainter& painter, const std::vector<LowRow>& rows, const LowBubbles& bubbles, QImage& buffer) {
    int top = 0;
    int lines = 0;
    const auto flush = [&] {
        if (lines > 0) {
            painter.drawImage(QPoint(0, top), buffer, QRect(0, 0, buffer.width(), lines));
            lines = 0;
        }
    };
    for (const LowRow& row : rows) {
        for (int y = row.top; y < row.bottom; ++y) {
            if (lines > 0 && (y != top + lines || lines == buffer.height())) {
                flush();
            }
            top = lines == 0 ? y : top;
            row.writeLine(reinterpret_cast<QRgb*>(buffer.scanLine(lines++)), buffer.width(), y, bubbles);
        }
    }
    flush();
}

/// The part of a bar that is in view, without its left border.
QRectF insideOf(const QRectF& bar, const QRectF& visible) {
    const double left = std::max(bar.left(), visible.left()) + 1;
    const double right = std::min(bar.right(), visible.right());
    return {left, bar.top(), std::max(0.0, right - left), bar.height()};
}

std::size_t visibleSlices(const TimelineScene& scene) {
    std::size_t count = 0;
    for (const StoredRow& row : scene.store->rows()) {
        count += row.within(shownRange(scene.window)).size();
    }
    return count;
}
}  // namespace

QRectF rectAt(const TimelineScene& scene, const Band& band, std::int64_t start, std::int64_t end) {
    const double width = scene.lanes.width();
    const double left = scene.lanes.left() + std::max(-8.0, pixelOf(scene.window, width, start));
    const double right = scene.lanes.left() + std::min(width + 8, pixelOf(scene.window, width, end));
    return {left, static_cast<double>(scene.lanes.top() + band.top), right - left, static_cast<double>(band.height)};
}

QRectF sliceRect(const TimelineScene& scene, SliceRef ref) {
    const StoredRow& row = scene.store->rows().at(ref.row);
    return rectAt(scene, scene.layout->bandOf(ref.row), row.start.at(ref.index), row.end.at(ref.index));
}

void visitRows(const TimelineScene& scene,
               const std::function<void(const LaneBand&, const RowBand&, const StoredRow&)>& visit) {
    for (const LaneBand& lane : scene.layout->lanes) {
        for (const RowBand& row : lane.rows) {
            if (row.band.height > 0 && row.band.bottom() > 0 && row.band.top < scene.lanes.height()) {
                visit(lane, row, scene.store->rows()[row.row]);
            }
        }
    }
}

void visitVisible(const TimelineScene& scene, const RowBand& band, double least,
                  const std::function<void(const QRectF&, std::size_t)>& visit) {
    const StoredRow& row = scene.store->rows()[band.row];
    const ItemSpan visible = row.within(shownRange(scene.window));
    if (least > 0 && visible.size() * kLeastPixelsPerSlice > static_cast<std::size_t>(scene.lanes.width())) {
        return;
    }
    const double ns_per_pixel = scene.window.length / std::max(1, scene.lanes.width());
    const auto shortest = static_cast<std::int64_t>(least * ns_per_pixel);
    for (const std::size_t i : visible.indices()) {
        if (row.end[i] - row.start[i] >= shortest) {
            visit(rectAt(scene, band.band, row.start[i], row.end[i]), i);
        }
    }
}

TimelinePainter::TimelinePainter(const TimelineColors& colors) : colors_(colors) {}

void TimelinePainter::setColors(const TimelineColors& colors) {
    colors_ = colors;
    rasters_.clear();
    invalidate();
}

void TimelinePainter::paint(QPainter& painter, const TimelineScene& scene, const std::function<void()>& between) {
    if (scene.store == nullptr || scene.lanes.isEmpty()) {
        painter.fillRect(scene.lanes, colors_.paper);
        return;
    }
    painter.save();
    painter.setClipRect(scene.lanes, Qt::IntersectClip);
    paintGaps(painter, scene);
    const bool withBubbles = paintBodies(painter, scene);
    if (between) {
        between();
    }
    const bool recoloured = scene.marks != nullptr && scene.marks->recolours();
    if (!recoloured) {
        paintLabels(painter, scene);
    }
    paintUnderLabels(painter, scene, colors_, !withBubbles);
    paintTicks(painter, scene);
    paintOverLabels(painter, scene, colors_);
    paintMarks(painter, scene);
    painter.restore();
}

bool TimelinePainter::paintBodies(QPainter& painter, const TimelineScene& scene) {
    if (isVector(painter) && visibleSlices(scene) <= kMostVectorSlices) {
        paintVector(painter, scene);
        return false;
    }
    const double scale = painter.device()->devicePixelRatioF();
    refreshStrips(scene, scale);
    // A veil over the tasks must not cover them.
    const bool withBubbles = scene.marks != nullptr && scene.marks->shadesBubbles && !scene.marks->recolours();
    paintStrips(painter, scene, scale, withBubbles ? lowBubbles(scene, colors_, scale) : LowBubbles());
    return withBubbles;
}

void TimelinePainter::paintKernels(QPainter& painter, const TimelineScene& scene,
                                   const std::function<QString(SliceRef)>& nameOf) {
    painter.save();
    painter.setClipRect(scene.lanes, Qt::IntersectClip);
    paintBodies(painter, scene);
    QFont font = painter.font();
    font.setPixelSize(kKernelText);
    painter.setFont(font);
    const QFontMetricsF metrics(font);
    visitRows(scene, [&](const LaneBand&, const RowBand& row, const StoredRow& stored) {
        visitVisible(scene, row, kLeastKernelName, [&](const QRectF& bar, std::size_t index) {
            const QRectF visible = bar.intersected(scene.lanes).adjusted(3, 0, -1, 0);
            const auto kind = static_cast<TaskKind>(stored.kind[index]);
            if (contains(scene.hidden, kind)) {
                return;
            }
            const KindStyle& style = styleOf(kind);
            const SliceRef slice{row.row, static_cast<std::uint32_t>(index)};
            const QString name = rangeNameIn(metrics, nameOf(slice).toStdString(), visible.width());
            if (style.pattern != Pattern::plain) {  // which would cross the letters
                painter.fillRect(
                    QRectF(visible.left() - 1, visible.top(), metrics.horizontalAdvance(name) + 2, visible.height()),
                    style.color);
            }
            painter.setPen(textOn(style.color));
            painter.drawText(visible, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, name);
        });
    });
    if (scene.hovered) {
        painter.setPen(QPen(colors_.selection, 1));
        painter.drawRect(sliceRect(scene, *scene.hovered).adjusted(0, 0, -1, -1));
    }
    painter.restore();
}

void TimelinePainter::paintGaps(QPainter& painter, const TimelineScene& scene) const {
    // Paints only uncovered areas: at 4K the background costs as much as everything on it.
    const QRect& all = scene.lanes;
    int y = all.top();
    visitRows(scene, [&](const LaneBand&, const RowBand& row, const StoredRow&) {
        const int top = std::clamp(all.top() + row.band.top, y, all.bottom() + 1);
        painter.fillRect(QRect(all.left(), y, all.width(), top - y), colors_.paper);
        y = std::clamp(all.top() + row.band.bottom(), y, all.bottom() + 1);
    });
    painter.fillRect(QRect(all.left(), y, all.width(), all.bottom() + 1 - y), colors_.paper);
}

void TimelinePainter::refreshStrips(const TimelineScene& scene, double scale) {
    if (scene.hidden != hidden_) {
        hidden_ = scene.hidden;
        rasters_.clear();
        invalidate();
    }
    const int width = static_cast<int>(std::lround(scene.lanes.width() * scale));
    strips_.resize(scene.store->rows().size());
    std::vector<SharedBand> stale;
    std::size_t columns = 0;
    visitBands(scene, [&](const SharedBand& shared) {
        Strip& strip = strips_[shared.rows.front()];
        const int lines = hasPatterns(shared.band) ? LaneRaster::kLines : 1;
        const int cell = cellOf(shared.band.height * scale);
        const QSize size((width + cell - 1) / cell, lines);
        if (strip.image.size() == size && strip.window == scene.window) {
            return;
        }
        if (strip.image.size() != size) {
            strip.image = QImage(size, QImage::Format_RGB32);
        }
        strip.window = scene.window;
        columns += static_cast<std::size_t>(size.width());
        stale.push_back(shared);
    });
    const bool many = columns >= kColumnsWorthThreads;
    const std::size_t threads = many ? mostWorkers() : 1;
    while (rasters_.size() < threads) {
        rasters_.emplace_back(colors_, hidden_);
    }
    // Threads take rows one by one, since their costs differ.
    const auto work = [&](std::size_t i, std::size_t worker) {
        const std::uint32_t row = stale[i].rows.front();
        const bool patterns = hasPatterns(stale[i].band);
        const bool borders = patterns && !scene.store->rows()[row].copies;
        QImage& image = strips_[row].image;
        rasters_[worker].draw(*scene.store, scene.window,
                              {row, 0, image.height(), borders ? kLeastBorderWidth * scale : 0, patterns,
                               std::span(stale[i].rows).subspan(1)},
                              image);
    };
    if (many) {
        parallelFor(stale.size(), work);
        return;
    }
    for (std::size_t i = 0; i < stale.size(); ++i) {
        work(i, 0);
    }
}

void TimelinePainter::paintStrips(QPainter& painter, const TimelineScene& scene, double scale,
                                  const LowBubbles& bubbles) {
    const auto bubblesOf = [&](const SharedBand& shared) {
        std::vector<BubbleSpan> found;
        for (const std::uint32_t row : bubbles.spans.empty() ? std::vector<std::uint32_t>() : shared.rows) {
            const LaneId lane = scene.store->rows()[row].lane;
            if (scene.layout->find(lane)->rows.front().row == row) {
                const auto [first, end] = std::ranges::equal_range(bubbles.spans, lane, {}, &BubbleSpan::lane);
                found.insert(found.end(), first, end);
            }
        }
        return found;
    };
    std::vector<LowRow> low;
    const auto device = [&](int pixel) { return static_cast<int>(std::lround(pixel * scale)); };
    const QSize size(device(scene.lanes.width()), device(scene.lanes.height()));
    painter.save();
    painter.translate(scene.lanes.topLeft());
    painter.scale(1 / scale, 1 / scale);
    visitBands(scene, [&](const SharedBand& shared) {
        const QImage& strip = strips_[shared.rows.front()].image;
        const int bottom = std::min(device(shared.band.bottom()), size.height());
        if (strip.height() == 1) {
            low.push_back({std::max(0, device(shared.band.top)), bottom, &strip, cellOf(shared.band.height * scale),
                           bubblesOf(shared)});
            return;
        }
        for (int y = device(shared.band.top); y < bottom; y += strip.height()) {
            painter.drawImage(QPoint(0, y), strip, QRect(0, 0, strip.width(), std::min(strip.height(), bottom - y)));
        }
    });
    const bool many = std::accumulate(low.begin(), low.end(), 0,
                                      [](int lines, const LowRow& row) { return lines + row.bottom - row.top; }) *
                          size.width() >=
                      kPixelsWorthThreads;
    if (const std::optional<Pixels> pixels = many ? pixelsBelow(painter, size) : std::nullopt) {
        writeRows(low, bubbles, *pixels, size.width());
    } else if (!low.empty()) {
        QImage buffer(size.width(), kLowRowsAtOnce, QImage::Format_RGB32);
        paintRows(painter, low, bubbles, buffer);
    }
    painter.restore();
}

void TimelinePainter::paintVector(QPainter& painter, const TimelineScene& scene) const {
    const TimeRange shown = shownRange(scene.window);
    visitRows(scene, [&](const LaneBand&, const RowBand& row, const StoredRow& stored) {
        painter.fillRect(rectAt(scene, row.band, shown.start - 1, shown.end + 2), colors_.lane);
        for (const StepSpan& step : scene.store->steps()) {
            const QRectF bubble = rectAt(scene, row.band, step.range().start, step.range().end);
            if (!stored.copies && bubble.width() > 0) {
                painter.fillRect(bubble, colors_.bubble);
            }
        }
        visitVisible(scene, row, 0, [&](const QRectF& rect, std::size_t index) {
            const auto kind = static_cast<TaskKind>(stored.kind[index]);
            const KindStyle& style = styleOf(kind);
            if (contains(scene.hidden, kind)) {
                painter.fillRect(rect, colors_.lane);
                return;
            }
            painter.fillRect(rect, style.color);
            if (rect.width() > kLeastBorderWidth && hasPatterns(row.band)) {
                paintPattern(painter, rect, style.pattern, inkOn(style.color));
            }
        });
    });
}

void TimelinePainter::paintPartition(QPainter& painter, const TimelineScene& scene, const QRectF& bar,
                                     const TaskKey& key, const PartitionTop& shade, double place) {
    const QRectF inside = insideOf(bar, scene.lanes);
    const double left = std::floor(inside.left());
    const QRectF top(left, bar.top() + shade.inset, std::floor(inside.right()) - left, shade.height);
    const QColor color = partitionShade(styleOf(key.kind).color, place);
    painter.fillRect(top, color);
    if (shade.named) {
        labels_.paintPartition(painter, top, key.partition, color);
    }
}

void TimelinePainter::paintLabels(QPainter& painter, const TimelineScene& scene) {
    const QRectF visible = scene.lanes;
    std::vector<VisibleBar> bars;
    const bool hasGhosts = scene.marks != nullptr && scene.marks->ghosts != nullptr;
    labels_.begin(painter.font());
    visitRows(scene, [&](const LaneBand& lane, const RowBand& row, const StoredRow& stored) {
        const PartitionTop shade = partitionTopOf(row.band.height, painter.font(), hasGhosts);
        if (stored.copies || lane.folded || row.band.height < kLowestPatternRow) {
            return;
        }
        visitVisible(scene, row, kLeastBorderWidth, [&](const QRectF& bar, std::size_t index) {
            const auto kind = static_cast<TaskKind>(stored.kind[index]);
            if (contains(scene.hidden, kind)) {
                return;
            }
            const TaskKey key = scene.store->shownKey({row.row, static_cast<std::uint32_t>(index)});
            const std::optional<double> place = scene.store->placeOf(lane.lane, key.partition);
            if (place) {
                paintPartition(painter, scene, bar, key, shade, *place);
            }
            const double above = place && shade.named ? shade.bottom() : 0;
            bars.push_back({bar.adjusted(0, above, 0, 0), key,
                            bar.left() < visible.left() || bar.right() > visible.right() + 1, place && !shade.named});
        });
    });
    const LabelForms forms = chooseLabelForms(bars, painter.font());
    const QFontMetricsF metrics(painter.font());
    for (const VisibleBar& bar : bars) {
        if (isVector(painter)) {
            // Drawn inside the bar, so that neighbours do not add up to a line of double width.
            const double left = std::floor(bar.rect.left());
            painter.setPen(QPen(colors_.border, 0));
            painter.drawLine(QPointF(left, bar.rect.top()), QPointF(left, bar.rect.bottom() - 1));
        }
        VisibleBar part = bar;
        part.rect = insideOf(bar.rect, visible);
        labels_.paint(painter, part, labelFormOf(bar, forms, metrics));
    }
}

void TimelinePainter::paintTicks(QPainter& painter, const TimelineScene& scene) const {
    visitRows(scene, [&](const LaneBand&, const RowBand& row, const StoredRow& stored) {
        const ItemSpan visible = stored.hasTicks ? stored.within(shownRange(scene.window)) : ItemSpan{};
        if (visible.size() > static_cast<std::size_t>(scene.lanes.width())) {
            return;  // bars of a pixel hide them
        }
        for (const std::size_t i : visible.indices()) {
            const auto kind = static_cast<TaskKind>(stored.kind[i]);
            if (stored.isTick(i) && !contains(scene.hidden, kind)) {
                const QRectF tick = rectAt(scene, row.band, stored.start[i], stored.end[i]);
                const double x = std::floor(tick.left());
                painter.fillRect(QRectF(x - 1, tick.top(), 3, tick.height()), colors_.border);
                painter.fillRect(QRectF(x, tick.top(), 1, tick.height()), styleOf(kind).color);
            }
        }
    });
}

void TimelinePainter::paintMarks(QPainter& painter, const TimelineScene& scene) const {
    const auto frame = [&](QRectF rect, Qt::PenStyle style, double width) {
        rect.setWidth(std::max(rect.width(), 3.0));
        const QRectF outer = rect.adjusted(-1, -1, 1, 1);
        painter.setBrush(Qt::NoBrush);
        painter.setPen(QPen(colors_.paper, width + 2));  // a halo keeps the frame visible on any colour
        painter.drawRect(outer);
        painter.setPen(QPen(colors_.selection, width, style));
        painter.drawRect(outer);
    };
    if (scene.hovered && scene.hovered != scene.selected) {
        frame(sliceRect(scene, *scene.hovered), Qt::SolidLine, 1);
    }
    const Qt::PenStyle selected = scene.selectedIsTwin ? Qt::DashLine : Qt::SolidLine;
    if (scene.selected) {
        frame(sliceRect(scene, *scene.selected), selected, 2);
    }
    if (const std::optional<Bubble>& bubble = scene.selectedBubble) {
        frame(rectAt(scene, scene.layout->bubbleBand(bubble->lane), bubble->start, bubble->end), selected, 2);
    }
}
}  // namespace pipescope
