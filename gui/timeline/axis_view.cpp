#include "gui/timeline/axis_view.h"

#include "gui/style/number_format.h"
#include "gui/style/tool_tip.h"

#include <QContextMenuEvent>
#include <QGestureEvent>
#include <QHash>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QNativeGestureEvent>
#include <QPainter>
#include <QScrollBar>
#include <QWheelEvent>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
const QString kBeforeDevice = QStringLiteral(" · ");
constexpr double kZoomPerKey = 0.7;
constexpr double kPanPerStep = 0.1;
constexpr int kScrollPerStep = 20;
constexpr int kDragStart = 4;
constexpr double kLeastPinch = 0.1;  // per event; limits outliers of a driver
constexpr int kWidestGutter = 30;    // in average letters
constexpr int kGutterMargin = 14;
}  // namespace

AxisView::AxisView(TimeAxisModel& axis, QWidget* parent)
    : QAbstractScrollArea(parent), axis_(axis), colors_(timelineColors(palette())) {
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setFocusPolicy(Qt::StrongFocus);
    viewport()->setMouseTracking(true);
    viewport()->grabGesture(Qt::PinchGesture);
    // Views paint every pixel themselves, so Qt need not fill the background.
    setAttribute(Qt::WA_OpaquePaintEvent);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
    viewport()->setAutoFillBackground(false);
    const auto repaint = [this] { viewport()->update(); };
    connect(&axis_, &TimeAxisModel::windowChanged, this, repaint);
    connect(&axis_, &TimeAxisModel::originChanged, this, repaint);
    connect(&axis_, &TimeAxisModel::cursorChanged, this, repaint);
    connect(&axis_, &TimeAxisModel::selectionChanged, this, repaint);
    connect(&axis_, &TimeAxisModel::marksChanged, this, repaint);
    connect(&axis_, &TimeAxisModel::rangeChanged, this, repaint);
    connect(verticalScrollBar(), &QScrollBar::valueChanged, this, repaint);
}

QString AxisView::titleOf(const LaneInfo& lane, std::size_t index) {
    const QString name = lane.name.empty() ? tr("lane %1").arg(index) : QString::fromStdString(lane.name);
    return lane.device.empty() ? name : isolated(name) + kBeforeDevice + isolated(QString::fromStdString(lane.device));
}

QRect AxisView::lanesRect() const {
    const int top = topMargin();
    return {gutter_, top, std::max(1, viewport()->width() - gutter_), std::max(0, viewport()->height() - top)};
}

void AxisView::setGutter(int width) {
    gutter_ = width;
    relayout();
}

int AxisView::gutterFor(const std::vector<LaneInfo>& lanes) const {
    // Also leaves room for a lane's peak memory.
    int widest = fontMetrics().horizontalAdvance(tr("lane 88 · ▼ 888 MiB")) + kGutterMargin;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        widest = std::max(widest, fontMetrics().horizontalAdvance(titleOf(lanes[lane], lane)) + kGutterMargin);
    }
    return std::min(widest, kWidestGutter * fontMetrics().averageCharWidth());
}

std::int64_t AxisView::timeAtPixel(double x) const {
    const QRect lanes = lanesRect();
    return timeAt(axis_.window(), lanes.width(), x - lanes.left());
}

double AxisView::pixelAtTime(std::int64_t time) const {
    const QRect lanes = lanesRect();
    return lanes.left() + pixelOf(axis_.window(), lanes.width(), time);
}

void AxisView::setContentHeight(int height) {
    const int available = lanesRect().height();
    verticalScrollBar()->setRange(0, std::max(0, height - available));
    verticalScrollBar()->setPageStep(available);
    verticalScrollBar()->setSingleStep(kScrollPerStep);
    if (overflows_ != (height > available)) {
        overflows_ = height > available;
        Q_EMIT overflowChanged();
    }
    viewport()->update();
}

/// The name with device and process, or as much of it as has room as a whole.
QString AxisView::fullestIn(const NamedBand& band, int width) const {
    for (const QString& each : {band.full, band.full.left(band.full.lastIndexOf(kBeforeDevice)), band.brief}) {
        if (fontMetrics().horizontalAdvance(each) <= width) {
            return each;
        }
    }
    return fontMetrics().elidedText(band.brief, Qt::ElideMiddle, width);
}

std::vector<AxisView::DrawnName> AxisView::namesOf(std::vector<NamedBand> bands) const {
    const int line = fontMetrics().ascent() + 1;  // a tail in the next line touches no capital
    const QRect lanes = lanesRect();
    // The number of lanes from name to name: 1, 2, 5, 10, ..
    int low = 0;
    int lowest = line;
    for (const NamedBand& band : bands) {
        low += band.height < line ? 1 : 0;
        lowest = band.height > 0 ? std::min(lowest, band.height) : lowest;
    }
    const int view = std::max(1, lanes.height());
    const double perLane = low > 0 ? std::max(static_cast<double>(lowest), 0.01) : line;
    const double dense = low > view ? static_cast<double>(view) / low : perLane;
    int step = 1;
    for (int i = 0; step * dense < line && step < 1'000'000; ++i) {
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    }
    std::stable_sort(bands.begin(), bands.end(),
                     [](const NamedBand& a, const NamedBand& b) { return a.rank > b.rank; });
    std::vector<DrawnName> names;
    std::vector<NameParts> parts;  // as many
    for (const NamedBand& band : bands) {
        const bool high = band.height >= line;
        if (band.height <= 0 || (!high && band.rank == NamedBand::Rank::lane && band.number % step != 0)) {
            continue;
        }
        const int top = band.rank == NamedBand::Rank::group ? band.top : band.top + (band.height - line) / 2;
        const QRect rect(4,
                         high ? band.top : std::clamp(top, lanes.top(), std::max(lanes.top(), lanes.bottom() - line)),
                         lanes.left() - 10, high && band.rank != NamedBand::Rank::group ? band.height : line);
        const bool free = std::none_of(names.begin(), names.end(),
                                       [&](const DrawnName& other) { return other.rect.intersects(rect); });
        if (free && rect.intersects(lanes.adjusted(-lanes.left(), 0, 0, 0))) {
            const QString tail = band.figure.isEmpty() ? QString() : kBeforeDevice + band.figure;
            const int room = std::max(0, rect.width() - fontMetrics().horizontalAdvance(tail));
            names.push_back(
                {rect, high ? fullestIn(band, room) : fontMetrics().elidedText(band.brief, Qt::ElideMiddle, room)});
            parts.push_back({band.brief, tail, room});
        }
    }
    tellApart(names, parts);
    for (std::size_t i = 0; i < names.size(); ++i) {
        names[i].text = parts[i].tail.isEmpty() ? names[i].text : isolated(names[i].text) + parts[i].tail;
    }
    return names;
}

void AxisView::tellApart(std::vector<DrawnName>& names, const std::vector<NameParts>& parts) const {
    QHash<QString, std::vector<std::size_t>> alike;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i].text.contains(QChar(0x2026))) {
            alike[names[i].text].push_back(i);
        }
    }
    constexpr qsizetype kBefore = 2;  // letters before the first one that differs
    for (const std::vector<std::size_t>& group : alike) {
        const QString& first = parts[group.front()].whole;
        qsizetype same = first.size();
        for (const std::size_t i : group) {
            const auto [a, b] = std::ranges::mismatch(first, parts[i].whole);
            const bool isEqual = a == first.end() && b == parts[i].whole.end();
            same = isEqual ? same : std::min<qsizetype>(same, a - first.begin());
        }
        for (const std::size_t i : same < first.size() ? group : std::vector<std::size_t>()) {
            const QString rest = parts[i].whole.mid(std::max<qsizetype>(0, same - kBefore));
            names[i].text = fontMetrics().elidedText(QChar(0x2026) + rest, Qt::ElideMiddle, parts[i].room);
        }
    }
}

void AxisView::paintNames(QPainter& painter, const std::vector<DrawnName>& names) const {
    const QRect lanes = lanesRect();
    painter.save();
    painter.setClipRect(QRect(0, lanes.top(), lanes.left(), lanes.height()), Qt::IntersectClip);
    painter.setPen(colors_.text);
    for (const DrawnName& name : names) {
        painter.drawText(name.rect, Qt::AlignVCenter | Qt::AlignRight | Qt::TextSingleLine, name.text);
    }
    painter.restore();
}

void AxisView::paintNameLine(QPainter& painter, int y) const {
    const QRect lanes = lanesRect();
    if (y >= lanes.top() && y <= lanes.bottom()) {
        painter.setPen(QPen(colors_.grid, 0));
        painter.drawLine(0, y, lanes.left(), y);
    }
}

void AxisView::paintNoteEdges(QPainter& painter, const TimeMark& note) const {
    const QRect lanes = lanesRect();
    QColor faint = palette().color(QPalette::Link);
    faint.setAlpha(150);
    painter.setPen(QPen(faint, 0, Qt::DashLine));
    for (const double x : {pixelAtTime(note.range().start), pixelAtTime(note.range().end)}) {
        if (x >= lanes.left() && x < lanes.left() + lanes.width()) {
            painter.drawLine(QPointF(x, lanes.top()), QPointF(x, viewport()->height()));
        }
    }
}

void AxisView::paintMarks(QPainter& painter) const {
    const QRect lanes = lanesRect();
    for (const TimeMark& mark : axis_.marks()) {
        const double x = pixelAtTime(mark.time);
        if (mark.length > 0) {
            paintNoteEdges(painter, mark);
            continue;
        }
        if (x < lanes.left() || x >= lanes.left() + lanes.width()) {
            continue;
        }
        painter.setPen(QPen(colors_.selection, 0, Qt::DashDotLine));
        painter.drawLine(QPointF(x, 0), QPointF(x, viewport()->height()));
        painter.setPen(Qt::NoPen);
        painter.setBrush(colors_.selection);
        painter.drawPolygon(QPolygonF({{x - 4, 0}, {x + 5, 0}, {x + 0.5, 7}}));
    }
}

void AxisView::paintCursor(QPainter& painter) const {
    paintMarks(painter);
    if (!axis_.cursor()) {
        return;
    }
    const QRect lanes = lanesRect();
    const double x = pixelAtTime(*axis_.cursor());
    if (x >= lanes.left() && x < lanes.left() + lanes.width()) {
        painter.setPen(QPen(colors_.faintText, 0, Qt::DashLine));
        painter.drawLine(QPointF(x, 0), QPointF(x, viewport()->height()));
    }
}

void AxisView::paintRange(QPainter& painter, bool label) const {
    if (!showsRange()) {
        return;
    }
    const QRect lanes = lanesRect();
    const TimeRange& range = *axis_.range();
    const double left = std::max<double>(lanes.left() - 2, pixelAtTime(range.start));
    const double right = std::min<double>(lanes.right() + 3, pixelAtTime(range.end));
    painter.save();
    painter.setClipRect(QRect(lanes.left(), 0, lanes.width(), viewport()->height()), Qt::IntersectClip);
    QColor shade = palette().color(QPalette::Highlight);
    shade.setAlpha(50);
    painter.fillRect(QRectF(left, 0, std::max(1.0, right - left), viewport()->height()), shade);
    painter.setPen(QPen(palette().color(QPalette::Highlight), 1));
    painter.drawLine(QPointF(left, 0), QPointF(left, viewport()->height()));
    painter.drawLine(QPointF(right, 0), QPointF(right, viewport()->height()));
    if (const QRectF plate = rangePlate(); label && !plate.isEmpty()) {
        painter.fillRect(plate, palette().color(QPalette::Highlight));
        painter.setPen(palette().color(QPalette::HighlightedText));
        painter.drawText(plate, Qt::AlignCenter, formatDuration(range.length()));
    }
    painter.restore();
}

bool AxisView::showsRange() const {
    const QRect lanes = lanesRect();
    const std::optional<TimeRange>& range = axis_.range();
    return range && pixelAtTime(range->end) >= lanes.left() && pixelAtTime(range->start) <= lanes.right();
}

QRectF AxisView::rangePlate() const {
    if (!showsRange() || axis_.range()->length() == 0) {
        return {};
    }
    const QRect lanes = lanesRect();
    const double left = std::max<double>(lanes.left() - 2, pixelAtTime(axis_.range()->start));
    const double right = std::min<double>(lanes.right() + 3, pixelAtTime(axis_.range()->end));
    const QFontMetrics metrics(font());
    QRectF plate(0, 1, metrics.horizontalAdvance(formatDuration(axis_.range()->length())) + 10, metrics.height() + 2);
    plate.moveLeft(std::clamp((left + right - plate.width()) / 2, double(lanes.left()),
                              std::max<double>(lanes.left(), lanes.right() - plate.width())));
    return plate;
}

QString AxisView::cursorText() const {
    const std::optional<std::int64_t> cursor = axis_.cursor();
    return cursor ? cursorTime(axis_.window(), lanesRect().width(), axis_.zero(), *cursor, rulerTimes()) : QString();
}

QRectF AxisView::cursorPlate() const {
    const QRect lanes = lanesRect();
    const double x = axis_.cursor() ? pixelAtTime(*axis_.cursor()) : -1;
    if (x < lanes.left() || x > lanes.right() + 1) {
        return {};
    }
    const QFontMetricsF metrics(font());
    QRectF plate(0, 1, std::ceil(metrics.horizontalAdvance(cursorText())) + 10, rulerHeight() - 3);
    plate.moveLeft(std::clamp<double>(std::round(x - plate.width() / 2), lanes.left(),
                                      std::max<double>(lanes.left(), lanes.right() + 1 - plate.width())));
    // Over half of another plate it would read as that one's number.
    if (const QRectF other = rulerPlate(); plate.intersects(other)) {
        constexpr double kGap = 3;
        const double before = other.left() - kGap - plate.width();
        plate.moveLeft(before >= lanes.left() && x < other.center().x() ? before : other.right() + kGap);
        if (plate.right() > lanes.right() + 1) {
            plate.moveLeft(std::max<double>(lanes.left(), before));
        }
    }
    return plate;
}

void AxisView::paintCursorTime(QPainter& painter) const {
    const QRectF plate = cursorPlate();
    if (!plate.isEmpty()) {
        painter.fillRect(plate, colors_.text);
        painter.setPen(colors_.paper);
        painter.drawText(plate, Qt::AlignCenter | Qt::TextSingleLine, cursorText());
    }
}

RulerTimes AxisView::rulerTimes() const {
    return axis_.timeStyle() == TimeStyle::clock ? RulerTimes::clock : RulerTimes::durations;
}

Ruler AxisView::ruler() const {
    return makeRuler(axis_.window(), lanesRect().width(), axis_.zero(), labelSpacing(QFontMetricsF(font())),
                     rulerTimes());
}

std::vector<AxisView::RulerLabel> AxisView::rulerLabels() const {
    const QRect lanes = lanesRect();
    const std::array plates{rulerPlate(), rangePlate(), cursorPlate()};
    return placedLabels(ruler(), QFontMetricsF(font()), QRectF(lanes.left(), 0, lanes.width(), rulerHeight() - 4),
                        plates);
}

void AxisView::paintRuler(QPainter& painter) const {
    const QRect lanes = lanesRect();
    const int height = rulerHeight();
    painter.fillRect(QRect(0, 0, viewport()->width(), height), palette().color(QPalette::Window));
    painter.setPen(QPen(colors_.grid, 0));
    painter.drawLine(0, height - 1, viewport()->width(), height - 1);
    const Ruler ruler = this->ruler();
    painter.setPen(colors_.faintText);
    painter.drawText(QRect(4, 0, lanes.left() - 8, height - 2), Qt::AlignVCenter | Qt::AlignRight, ruler.base);
    painter.save();
    painter.setClipRect(QRect(lanes.left(), 0, lanes.width(), height), Qt::IntersectClip);
    painter.setPen(QPen(colors_.faintText, 0));
    for (const RulerTick& tick : ruler.ticks) {
        const double x = std::floor(lanes.left() + tick.x) + 0.5;
        painter.drawLine(QPointF(x, height - (tick.label.isEmpty() ? 4 : 9)), QPointF(x, height - 1));
    }
    painter.setPen(colors_.text);
    for (const RulerLabel& label : rulerLabels()) {
        painter.drawText(label.rect, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine, label.text);
    }
    painter.restore();
}

void AxisView::changeEvent(QEvent* event) {
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
        colors_ = timelineColors(palette());
        relayout();
    }
    QAbstractScrollArea::changeEvent(event);
}

void AxisView::zoomAbout(double x, double factor) {
    const QRect lanes = lanesRect();
    axis_.zoom(std::clamp((x - lanes.left()) / lanes.width(), 0.0, 1.0), factor);
}

void AxisView::wheelEvent(QWheelEvent* event) {
    const QPoint delta = event->angleDelta();
    const QPoint pixels = event->pixelDelta();  // from a touchpad: the content follows two fingers
    const bool along = event->modifiers() & Qt::ShiftModifier || std::abs(delta.x()) > std::abs(delta.y());
    if (event->modifiers() & Qt::ControlModifier && event->modifiers() & Qt::AltModifier) {
        const int by = delta.y() != 0 ? delta.y() : delta.x();  // with Alt, some desktops turn the wheel sideways
        if (by != 0) {
            Q_EMIT rowHeightWanted(by > 0 ? 1 : -1);
        }
    } else if (event->modifiers() & Qt::ControlModifier) {
        zoomAbout(event->position().x(), std::pow(kZoomPerNotch, delta.y() / kNotch));
    } else if (along && !pixels.isNull()) {
        axis_.pan(-static_cast<double>(pixels.x() != 0 ? pixels.x() : pixels.y()) / lanesRect().width());
    } else if (along) {
        axis_.pan(-kPanPerStep * (delta.x() != 0 ? delta.x() : delta.y()) / kNotch);
    } else if (!pixels.isNull()) {
        verticalScrollBar()->setValue(verticalScrollBar()->value() - pixels.y());
    } else {
        const double down = -delta.y() / kNotch * 2 * kScrollPerStep;
        verticalScrollBar()->setValue(verticalScrollBar()->value() + static_cast<int>(std::lround(down)));
    }
    event->accept();
}

DragTool AxisView::toolFor(const QMouseEvent& press) {
    const QPoint from = press.position().toPoint();
    if (press.button() == Qt::LeftButton && press.modifiers() & Qt::ShiftModifier) {  // measures a range
        const auto measure = [this, from](const QPoint& to) {
            axis_.setCursor(timeAtPixel(to.x()));
            axis_.setRange(TimeRange{placeAt(from), placeAt(to)});
        };
        return {.move = measure, .grips = false};
    }
    return {.move = [this, from, window = axis_.window(), scroll = verticalScrollBar()->value()](const QPoint& to) {
        const QPoint moved = to - from;
        axis_.scrollTo(panned(window, -static_cast<double>(moved.x()) / lanesRect().width()));
        verticalScrollBar()->setValue(scroll - moved.y());
    }};
}

void AxisView::paintDrag(QPainter& painter) const {
    if (press_ && press_->at && press_->tool.paint) {
        press_->tool.paint(painter, *press_->at);
    }
}

bool AxisView::event(QEvent* event) {
    const bool isKey = event->type() == QEvent::ShortcutOverride || event->type() == QEvent::KeyPress;
    if (press_ && press_->tool.drop && isKey && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
        if (event->type() == QEvent::KeyPress) {
            press_.reset();
            viewport()->unsetCursor();
            viewport()->update();
        }
        event->accept();
        return true;
    }
    return QAbstractScrollArea::event(event);
}

void AxisView::mousePressEvent(QMouseEvent* event) {
    const bool isFree = !press_ || press_->button == event->button();  // a release may have gone to another window
    if (isFree && (event->button() == Qt::LeftButton || event->button() == Qt::MiddleButton)) {
        press_ = Press{toolFor(*event), event->button(), event->position().toPoint()};
    }
}

void AxisView::mouseMoveEvent(QMouseEvent* event) {
    const QPoint position = event->position().toPoint();
    if (!press_) {
        axis_.setCursor(lanesRect().contains(position) ? std::optional(timeAtPixel(position.x())) : std::nullopt);
        hover(position);
        return;
    }
    if (!press_->at && (position - press_->from).manhattanLength() < kDragStart) {
        return;
    }
    press_->at = position;
    if (press_->tool.grips) {
        viewport()->setCursor(Qt::ClosedHandCursor);
    }
    if (press_->tool.move) {
        press_->tool.move(position);
    }
    viewport()->update();
}

void AxisView::mouseReleaseEvent(QMouseEvent* event) {
    if (press_ && event->button() != press_->button) {
        return;  // another button was pressed meanwhile
    }
    const std::optional<Press> press = std::exchange(press_, std::nullopt);
    viewport()->unsetCursor();
    viewport()->update();
    if (press && press->at && press->tool.drop) {
        press->tool.drop(*press->at);
    } else if (press && !press->at && event->button() == Qt::LeftButton) {
        click(event->position().toPoint(), event->modifiers());
    }
}

bool AxisView::pinch(QEvent& event) {
    if (event.type() == QEvent::NativeGesture) {  // from a touchpad
        const auto& gesture = static_cast<QNativeGestureEvent&>(event);
        if (gesture.gestureType() == Qt::ZoomNativeGesture) {
            zoomAbout(gesture.position().x(), 1 / std::max(kLeastPinch, 1 + gesture.value()));
            return true;
        }
        return gesture.gestureType() == Qt::BeginNativeGesture || gesture.gestureType() == Qt::EndNativeGesture;
    }
    if (event.type() != QEvent::Gesture) {
        return false;
    }
    auto& gestures = static_cast<QGestureEvent&>(event);
    const auto* fingers = static_cast<QPinchGesture*>(gestures.gesture(Qt::PinchGesture));  // from a touch screen
    if (fingers == nullptr) {
        return false;
    }
    if (fingers->changeFlags() & QPinchGesture::ScaleFactorChanged) {
        const QPoint centre = viewport()->mapFromGlobal(fingers->centerPoint().toPoint());
        zoomAbout(centre.x(), 1 / std::max(kLeastPinch, fingers->scaleFactor()));
    }
    gestures.accept(gestures.gesture(Qt::PinchGesture));
    return true;
}

bool AxisView::viewportEvent(QEvent* event) {
    if (answerToolTip(*event, *viewport(), [this](const QPoint& position) { return toolTipAt(position); })) {
        return true;
    }
    if (pinch(*event)) {
        event->accept();
        return true;
    }
    if (event->type() == QEvent::ContextMenu) {  // the menu acts on what is selected
        const auto& menu = static_cast<const QContextMenuEvent&>(*event);
        if (menu.reason() == QContextMenuEvent::Mouse) {
            rightClick(menu.pos());
        }
    }
    if (event->type() == QEvent::Leave) {
        axis_.setCursor(std::nullopt);
        hover(std::nullopt);
    }
    return QAbstractScrollArea::viewportEvent(event);
}

void AxisView::keyPressEvent(QKeyEvent* event) {
    // Key combinations belong to the menu, such as Alt+Left for the zoom history.
    const bool combination = event->modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier);
    if (combination || !moveByKey(*event)) {
        event->ignore();
    }
}

bool AxisView::moveByKey(const QKeyEvent& event) {
    const double pan = event.modifiers() & Qt::ShiftModifier ? 5 * kPanPerStep : kPanPerStep;
    const double anchor = axis_.cursor() ? std::clamp(pixelOf(axis_.window(), 1, *axis_.cursor()), 0.0, 1.0) : 0.5;
    switch (event.key()) {
        case Qt::Key_W:
        case Qt::Key_Plus:
        case Qt::Key_Equal: axis_.zoom(anchor, kZoomPerKey); return true;
        case Qt::Key_S:
        case Qt::Key_Minus: axis_.zoom(anchor, 1 / kZoomPerKey); return true;
        case Qt::Key_A:
        case Qt::Key_Left: axis_.pan(-pan); return true;
        case Qt::Key_D:
        case Qt::Key_Right: axis_.pan(pan); return true;
        case Qt::Key_R: axis_.markRangeEnd(); return true;
        case Qt::Key_Up: verticalScrollBar()->triggerAction(QAbstractSlider::SliderSingleStepSub); return true;
        case Qt::Key_Down: verticalScrollBar()->triggerAction(QAbstractSlider::SliderSingleStepAdd); return true;
        case Qt::Key_PageUp: verticalScrollBar()->triggerAction(QAbstractSlider::SliderPageStepSub); return true;
        case Qt::Key_PageDown: verticalScrollBar()->triggerAction(QAbstractSlider::SliderPageStepAdd); return true;
        default: return false;
    }
}
}  // namespace pipescope
