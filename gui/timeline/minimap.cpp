#include "gui/timeline/minimap.h"

#include "gui/timeline/lane_raster.h"
#include "gui/timeline/timeline_layout.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr int kLowest = 14;
constexpr int kTallest = 40;
constexpr int kLane = 4;
constexpr double kEdge = 5;  // reach of the frame's edges in pixels
constexpr double kFaintestShare = 0.25;
constexpr double kLeastFrame = 4;  // in pixels; over ten million tasks the real frame would be thinner than one
}  // namespace

Minimap::Minimap(TimeAxisModel& axis, QWidget* parent) : QWidget(parent), axis_(axis) {
    setAccessibleName(tr("Overview"));
    setAccessibleDescription(tr("The whole trace. The frame marks the visible part. Arrow keys move it."));
    setToolTip(tr("The whole trace. Drag the frame, or its edges."));
    setFocusPolicy(Qt::TabFocus);
    setMouseTracking(true);
    setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
    setAttribute(Qt::WA_OpaquePaintEvent);
    connect(&axis_, &TimeAxisModel::windowChanged, this, qOverload<>(&QWidget::update));
}

void Minimap::setStore(std::shared_ptr<const TimelineStore> store, std::int64_t shift) {
    store_ = std::move(store);
    shift_ = shift;
    image_ = {};
    updateGeometry();
    update();
}

void Minimap::setTracks(std::shared_ptr<const TrackStore> tracks) {
    if (tracks_ != tracks) {
        tracks_ = std::move(tracks);
        image_ = {};
        updateGeometry();
        update();
    }
}

void Minimap::drawTracks() {
    const std::vector<TrackRows> threads = threadsOf(*tracks_);
    const auto share = [&](std::size_t i) {
        return static_cast<int>(i * static_cast<std::size_t>(image_.height()) /
                                std::max<std::size_t>(1, threads.size()));
    };
    QPainter painter(&image_);
    for (std::size_t i = 0; i < threads.size(); ++i) {
        const int gap = share(i + 1) - share(i) > 2 ? 1 : 0;
        for (std::size_t row = threads[i].first; row < threads[i].end; ++row) {  // overlapping ranges are in several
            for (const TrackRun& run : visibleRuns(tracks_->rows[row], windowOf(axis_.total()), image_.width())) {
                QColor color = timelineColors(palette()).faintText;
                color.setAlphaF(static_cast<float>(std::max(kFaintestShare, run.share)));
                painter.fillRect(QRectF(run.left, share(i), std::max(1.0, run.right - run.left),
                                        std::max(1, share(i + 1) - share(i) - gap)),
                                 color);
            }
        }
    }
}

void Minimap::setGutter(int width) {
    gutter_ = width;
    image_ = {};
    update();
}

QRect Minimap::lanesRect() const {
    return {gutter_, 2, std::max(1, width() - gutter_), std::max(1, height() - 4)};
}

double Minimap::scale() const {
    return std::max(1.0, static_cast<double>(axis_.total().length())) / lanesRect().width();
}

QRectF Minimap::frame() const {
    const QRect lanes = lanesRect();
    const double left =
        lanes.left() +
        (static_cast<double>(axis_.window().start - axis_.total().start) + axis_.window().fraction) / scale();
    const double width = axis_.window().length / scale();
    const double more = std::max(0.0, kLeastFrame - width);
    return {left - more / 2, static_cast<double>(lanes.top()), width + more, static_cast<double>(lanes.height())};
}

QSize Minimap::sizeHint() const {
    const int lanes = store_    ? static_cast<int>(store_->lanes().size())
                      : tracks_ ? static_cast<int>(std::min<std::size_t>(tracks_->rows.size(), kTallest))
                                : 2;
    const int lowest = std::max(kLowest, fontMetrics().height() - 4);  // the name is beside it
    return {600, std::clamp(lanes * kLane, lowest, std::max(lowest, kTallest)) + 4};
}

void Minimap::drawImage() {
    const QRect lanes = lanesRect();
    const double scale = devicePixelRatioF();
    const QSize size(static_cast<int>(std::lround(lanes.width() * scale)),
                     static_cast<int>(std::lround(lanes.height() * scale)));
    if (image_.size() == size && imageRange_ == axis_.total()) {
        return;
    }
    imageRange_ = axis_.total();
    image_ = QImage(size, QImage::Format_RGB32);
    const TimelineColors colors = timelineColors(palette());
    image_.fill(colors.paper);
    if (!store_) {
        if (tracks_) {
            drawTracks();
        }
        image_.setDevicePixelRatio(scale);
        return;
    }
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < store_->rows().size(); ++row) {
        if (!store_->rows()[row].copies && store_->rows()[row].depth == 0) {
            rows.push_back(row);
        }
    }
    LaneRaster raster(colors);
    const TimeWindow window = shifted(windowOf(axis_.total()), -shift_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto topOf = [&](std::size_t row) {
            return static_cast<int>(row * static_cast<std::size_t>(size.height()) / rows.size());
        };
        const int top = topOf(i);
        const std::size_t first = i;
        while (i + 1 < rows.size() && topOf(i + 1) == top) {  // rows that share a pixel
            ++i;
        }
        const int bottom = topOf(i + 1);
        const int height = std::max(1, bottom - top - (bottom - top > 2 ? 1 : 0));
        raster.draw(
            *store_, window,
            {rows[first], top, height, 0, height >= kLowestPatternRow, std::span(rows).subspan(first + 1, i - first)},
            image_);
    }
    image_.setDevicePixelRatio(scale);
}

void Minimap::setHits(std::vector<std::int64_t> times) {
    if (times != hits_) {
        hits_ = std::move(times);
        update();
    }
}

void Minimap::paintEvent(QPaintEvent*) {
    drawImage();
    QPainter painter(this);
    painter.setFont(font());
    const QRect lanes = lanesRect();
    const TimelineColors colors = timelineColors(palette());
    painter.fillRect(rect(), palette().color(QPalette::Window));
    painter.setPen(colors.faintText);
    painter.drawText(QRect(4, 0, lanes.left() - 10, height()), Qt::AlignVCenter | Qt::AlignRight, tr("overview"));
    painter.drawImage(lanes.topLeft(), image_);
    int last = -1;
    for (const std::int64_t time : hits_) {  // one mark a pixel
        const int x = lanes.left() + static_cast<int>(static_cast<double>(time - axis_.total().start) / scale());
        if (x != last && x >= lanes.left() && x <= lanes.right()) {
            painter.fillRect(QRect(x, std::max(0, lanes.top() - 3), 2, 4), colors.critical);
            last = x;
        }
    }
    const QRectF visible = frame();
    QColor veil = colors.paper;
    veil.setAlpha(150);
    painter.fillRect(QRectF(lanes.left(), lanes.top(), std::max(0.0, visible.left() - lanes.left()), lanes.height()),
                     veil);
    painter.fillRect(
        QRectF(visible.right(), lanes.top(), std::max(0.0, lanes.right() + 1 - visible.right()), lanes.height()), veil);
    const QRectF around =
        visible.adjusted(0.5, -1.5, -0.5, 1.5);  // above and below the lanes, which may be a pixel high
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(colors.paper, 3));
    painter.drawRect(around);
    painter.setPen(QPen(hasFocus() ? palette().color(QPalette::Highlight) : colors.selection, hasFocus() ? 2 : 1));
    painter.drawRect(around);
}

void Minimap::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        image_ = {};
        update();
    }
}

std::optional<Minimap::Grip> Minimap::gripAt(double x) const {
    const QRectF visible = frame();
    const bool wide = visible.width() > 4 * kEdge;  // a narrow frame has no edges to grab and can only be moved
    if (wide && std::abs(x - visible.left()) <= kEdge) {
        return Grip::left;
    }
    if (wide && std::abs(x - visible.right()) <= kEdge) {
        return Grip::right;
    }
    return x >= visible.left() - kEdge && x <= visible.right() + kEdge ? std::optional(Grip::move) : std::nullopt;
}

void Minimap::mousePressEvent(QMouseEvent* event) {
    if (event->button() != Qt::LeftButton) {
        return;
    }
    const double x = event->position().x();
    std::optional<Grip> grip = gripAt(x);
    if (!grip) {
        axis_.scrollTo(panned(axis_.window(), (x - frame().center().x()) * scale() / axis_.window().length));
        grip = Grip::move;
    }
    drag_ = Drag{*grip, x, axis_.window()};
}

void Minimap::mouseMoveEvent(QMouseEvent* event) {
    const double x = event->position().x();
    if (!drag_) {
        const std::optional<Grip> grip = gripAt(x);
        setCursor(!grip ? Qt::PointingHandCursor : *grip == Grip::move ? Qt::OpenHandCursor : Qt::SizeHorCursor);
        return;
    }
    const double moved = (x - drag_->from) * scale();
    const TimeWindow& from = drag_->window;
    switch (drag_->grip) {
        case Grip::move: axis_.scrollTo(panned(from, moved / from.length)); break;
        case Grip::left: axis_.scrollTo(zoomed(from, 1, std::max(1.0, from.length - moved) / from.length)); break;
        case Grip::right: axis_.scrollTo(zoomed(from, 0, std::max(1.0, from.length + moved) / from.length)); break;
    }
}

void Minimap::wheelEvent(QWheelEvent* event) {
    axis_.zoom(0.5, std::pow(kZoomPerNotch, event->angleDelta().y() / kNotch));
    event->accept();
}

void Minimap::keyPressEvent(QKeyEvent* event) {
    switch (event->key()) {
        case Qt::Key_Left: axis_.pan(-0.5); break;
        case Qt::Key_Right: axis_.pan(0.5); break;
        case Qt::Key_Up:
        case Qt::Key_Plus: axis_.zoom(0.5, kZoomPerNotch); break;
        case Qt::Key_Down:
        case Qt::Key_Minus: axis_.zoom(0.5, 1 / kZoomPerNotch); break;
        default: QWidget::keyPressEvent(event);
    }
}
}  // namespace pipescope
