#include "gui/timeline/timeline_view.h"

#include "gui/style/number_format.h"
#include "gui/timeline/timeline_marks.h"

#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace pipescope {
namespace {
constexpr int kPreferredLane = 32;
constexpr double kThinnestNote = 3;
}  // namespace

TimelineView::TimelineView(Source source, TimeAxisModel& axis, QWidget* parent)
    : RowsView(axis, parent), source_(source), painter_(colors()), kernelPainter_(colors()) {
    describeLanesToScreenReaders();
    setAccessibleName(source == Source::measured ? tr("Measured timeline") : tr("Simulated timeline"));
    setAccessibleDescription(tr("Tasks of each lane over time. Comma and full stop move between tasks."));
    connect(&this->axis(), &TimeAxisModel::marksChanged, this, [this] {
        if (std::exchange(hadNotes_, showsNotes()) != hadNotes_) {
            relayout();  // the line of notes comes or goes
        }
    });
}

void TimelineView::setStore(std::shared_ptr<const TimelineStore> store) {
    store_ = std::move(store);
    kernels_.reset();  // they belong to the other store's lanes
    hovered_.reset();
    hoveredKernel_.reset();
    marks_.reset();  // they refer to slices of the other store
    updateGeometry();
    relayout();
}

void TimelineView::setKernels(std::shared_ptr<const KernelStore> kernels) {
    kernels_ = std::move(kernels);
    hoveredKernel_.reset();
    updateGeometry();
    relayout();
}

void TimelineView::setLowerBound(std::optional<Nanoseconds> bound, bool ofPipeline) {
    lowerBound_ = bound;
    boundsPipeline_ = ofPipeline;
    viewport()->update();
}

QString TimelineView::lowerBoundText() const {
    return lowerBound_ ? (boundsPipeline_ ? tr("lower bound of the pipeline %1") : tr("lower bound %1"))
                             .arg(formatDuration(lowerBound_->count()))
                       : QString();
}

/// Start of the simulated step. Steps before it are drawn too if they overlap it.
std::int64_t TimelineView::stepStart() const {
    return store_->overlaps() ? store_->steps().front().range().start : store_->range().start;
}

QRectF TimelineView::rulerPlate() const {
    const QRect lanes = lanesRect();
    const double x = lowerBound_ && store_ ? pixelAtTime(stepStart() + lowerBound_->count() + shift()) : -1;
    if (x < lanes.left() || x > lanes.right() + 1) {
        return {};
    }
    // Over the tasks it would hide some of them.
    const double width = std::ceil(QFontMetricsF(font()).horizontalAdvance(lowerBoundText())) + 10;
    const bool fitsBehind = x + width <= lanes.right();
    return {fitsBehind ? x : std::max<double>(lanes.left(), x - width), 2, width, rulerHeight() - 4.0};
}

void TimelineView::paintLowerBound(QPainter& painter) const {
    const QRectF plate = rulerPlate();
    if (plate.isEmpty()) {
        return;
    }
    const QRect lanes = lanesRect();
    const double x = pixelAtTime(stepStart() + lowerBound_->count() + shift());
    painter.save();
    painter.setClipRect(QRect(lanes.left(), 0, lanes.width(), viewport()->height()), Qt::IntersectClip);
    painter.setPen(QPen(colors().text, 2, Qt::DashLine));
    painter.drawLine(QPointF(x, plate.bottom()), QPointF(x, lanes.bottom()));
    painter.fillRect(plate, colors().text);
    painter.setPen(colors().paper);
    painter.drawText(plate, Qt::AlignCenter | Qt::TextSingleLine, lowerBoundText());
    painter.restore();
}

void TimelineView::setMarks(std::shared_ptr<const TimelineMarks> marks) {
    marks_ = std::move(marks);
    viewport()->update();
}

void TimelineView::setArrangement(const LaneArrangement& arrangement) {
    if (arrangement != arrangement_) {
        arrangement_ = arrangement;
        relayout();
    }
}

void TimelineView::setNotesShown(bool shown) {
    notesShown_ = shown;
    relayout();
}

bool TimelineView::showsNotes() const {
    const std::vector<TimeMark>& marks = axis().marks();
    return notesShown_ && std::any_of(marks.begin(), marks.end(), [](const TimeMark& mark) { return mark.length > 0; });
}

std::vector<QRectF> TimelineView::noteRects() const {
    const QRect lanes = lanesRect();
    std::vector<QRectF> rects;
    for (const TimeMark& mark : axis().marks()) {
        const double left = std::max<double>(lanes.left(), pixelAtTime(mark.range().start));
        const double right = std::min<double>(lanes.right() + 1, pixelAtTime(mark.range().end));
        const bool visible = showsNotes() && mark.length > 0 && right >= lanes.left() && left <= lanes.right();
        rects.push_back(
            visible ? QRectF(left, rulerHeight() + 1, std::max(kThinnestNote, right - left), fontMetrics().height() + 2)
                    : QRectF());
    }
    return rects;
}

const TimeMark* TimelineView::noteAt(const QPoint& position) const {
    const std::vector<QRectF> rects = noteRects();
    for (std::size_t i = rects.size(); i-- > 0;) {  // the last one is on top
        if (rects[i].contains(position)) {
            return &axis().marks()[i];
        }
    }
    return nullptr;
}

void TimelineView::paintNotes(QPainter& painter) const {
    if (!showsNotes()) {
        return;
    }
    const QRect lanes = lanesRect();
    painter.fillRect(QRect(0, rulerHeight(), viewport()->width(), topMargin() - rulerHeight()),
                     palette().color(QPalette::Window));
    painter.setPen(colors().faintText);
    painter.drawText(QRect(4, rulerHeight(), lanes.left() - 10, topMargin() - rulerHeight()),
                     Qt::AlignVCenter | Qt::AlignRight, tr("notes"));
    const std::vector<QRectF> rects = noteRects();
    painter.save();
    painter.setClipRect(QRect(lanes.left(), 0, lanes.width(), topMargin()), Qt::IntersectClip);
    for (std::size_t i = 0; i < rects.size(); ++i) {
        if (rects[i].isEmpty()) {
            continue;
        }
        const auto next = std::find_if(rects.begin() + static_cast<std::ptrdiff_t>(i) + 1, rects.end(),
                                       [&](const QRectF& other) { return other.left() > rects[i].left(); });
        const double end = next != rects.end() ? next->left() : lanes.right();
        painter.fillRect(rects[i], palette().color(QPalette::Highlight));
        if (rects[i].width() > kThinnestNote) {  // shows the end of a note that another one overlaps
            painter.setPen(QPen(palette().color(QPalette::Window), 1));
            painter.drawRect(rects[i].adjusted(0.5, 0.5, -0.5, -0.5));
        }
        QRectF text = rects[i].adjusted(4, 0, -2, 0);
        painter.setPen(palette().color(QPalette::HighlightedText));
        if (text.width() < fontMetrics().averageCharWidth() * 6) {  // beside the range, if that is free
            text = QRectF(rects[i].right() + 3, rects[i].top(), std::max(0.0, end - rects[i].right() - 6),
                          rects[i].height());
            painter.setPen(colors().text);
        }
        painter.drawText(text, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine,
                         fontMetrics().elidedText(axis().marks()[i].note.simplified(), Qt::ElideRight,
                                                  static_cast<int>(text.width())));
    }
    painter.restore();
}

int TimelineView::rowHeight() const {
    for (const LaneBand& lane : wholeLayout().lanes) {
        if (!lane.pinned && !arrangement_.collapsed.contains(lane.lane) && !lane.rows.empty()) {
            return lane.rows.front().band.height;
        }
    }
    return kLowestTaskRow;
}

const GroupBand* TimelineView::headerAt(const QPoint& position) const {
    return isInGutter(position) ? RowsView::headerAt(position) : nullptr;
}

void TimelineView::setHidden(const KindSet& kinds) {
    hidden_ = kinds;
    viewport()->update();
}

std::optional<SliceRef> TimelineView::sliceAt(const QPoint& position) const {
    const std::optional<SliceRef> slice = itemAt(position);
    return slice && isShown(store_->rows()[slice->row], slice->index) ? slice : std::nullopt;
}

std::optional<Bubble> TimelineView::bubbleAt(const QPoint& position) const {
    const std::optional<RowBand> row = visibleLayout().rowAt(layoutY(position));
    if (!row || !marks_ || !lanesRect().contains(position) || store_->rows()[row->row].copies) {
        return std::nullopt;
    }
    const LaneId lane = store_->rows()[row->row].lane;
    const std::int64_t time = ownTimeAt(position);
    const auto found = std::find_if(marks_->bubbles.begin(), marks_->bubbles.end(), [&](const Bubble& piece) {
        return piece.lane == lane && piece.start <= time && time < piece.end && !is_work(piece.cause);
    });
    return found == marks_->bubbles.end() ? std::nullopt : std::optional(*found);
}

QRectF TimelineView::rectOf(const Bubble& bubble) const {
    return store_ ? rectAt(scene(), visibleLayout().bubbleBand(bubble.lane), bubble.start, bubble.end) : QRectF();
}

std::optional<SliceRef> TimelineView::kernelAt(const QPoint& position) const {
    const std::optional<RowBand> at = visibleLayout().rowBelowAt(layoutY(position));
    if (!at || !lanesRect().contains(position)) {
        return std::nullopt;
    }
    const StoredRow& row = kernels_->slices().rows()[at->row];
    const std::optional<std::uint32_t> kernel = itemAt(row, position);
    return kernel && isShown(row, *kernel) ? std::optional(SliceRef{at->row, *kernel}) : std::nullopt;
}

std::optional<TimeRange> TimelineView::rangeAt(const QPoint& position) const {
    if (const std::optional<SliceRef> kernel = kernelAt(position)) {
        return kernels_->slices().rows()[kernel->row].range(kernel->index);
    }
    const std::optional<SliceRef> slice = sliceAt(position);
    return slice ? std::optional(store_->rows()[slice->row].range(slice->index)) : std::nullopt;
}

QRect TimelineView::laneRect(LaneId lane) const {
    const TimelineLayout& layout = visibleLayout();
    const LaneBand* found = layout.find(lane);
    return found == nullptr ? QRect()
                            : QRect(0, lanesRect().top() + found->band.top, viewport()->width(), found->band.height);
}

TimelineScene TimelineView::scene() const {
    TimelineScene scene;
    scene.store = store_.get();
    scene.window = ownWindow();
    scene.layout = sharedLayout();
    scene.lanes = lanesRect();
    if (const std::optional<TaskSelection>& selection = axis().selection()) {
        scene.selected = selection->in(source_);
        scene.selectedIsTwin = selection->source != source_;
    }
    if (const std::optional<PartSelection>& part = axis().part()) {
        scene.selectedBubble = part->bubbleIn(source_);
        scene.selectedIsTwin = part->source != source_;
    }
    scene.hovered = hovered_;
    scene.marks = marks_.get();
    scene.hidden = hidden_;
    return scene;
}

QString TimelineView::laneDescription(LaneId lane) const {
    const TimeWindow window = ownWindow();
    const TimeRange shown{window.start, window.start + std::max<std::int64_t>(1, std::llround(window.length))};
    std::size_t tasks = 0;
    for (const StoredRow& row : store_->rows()) {
        if (row.lane == lane && !row.copies) {
            tasks += row.within(shown).size();
        }
    }
    const double share = static_cast<double>(store_->busyIn(lane, shown)) / static_cast<double>(shown.length());
    return tr("%1 long in view, tasks: %2, busy %3")
        .arg(formatDuration(shown.length()))
        .arg(tasks)
        .arg(formatShare(share));
}

TimelineScene TimelineView::kernelScene() const {
    TimelineScene kernels = scene();
    kernels.store = &kernels_->slices();
    kernels.layout = std::make_shared<const TimelineLayout>(layoutBelow(*kernels.layout));
    kernels.selected.reset();
    kernels.selectedBubble.reset();
    kernels.hovered = hoveredKernel_;
    kernels.marks = nullptr;
    return kernels;
}

QSize TimelineView::sizeHint() const {
    const int lanes = store_ ? static_cast<int>(store_->lanes().size()) : 2;
    return {800, topMargin() + std::clamp(lanes, 2, 12) * kPreferredLane};
}

void TimelineView::relayout() {
    const TimelineStore* kernels = kernels_ ? &kernels_->slices() : nullptr;
    setLayout(store_ ? layoutRows(*store_, std::max(1, lanesRect().height()), kernels, fontMetrics().height(),
                                  arrangement_, mostRows_)
                     : TimelineLayout{});
    nameLanes();
    painter_.invalidate();
    kernelPainter_.invalidate();
    Q_EMIT laidOut();
}

void TimelineView::setMostRows(const RowFit& most) {
    if (most != mostRows_) {
        mostRows_ = most;
        relayout();
    }
}

void TimelineView::changeEvent(QEvent* event) {
    AxisView::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        painter_.setColors(colors());
        kernelPainter_.setColors(colors());
    }
}

void TimelineView::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    painter.setFont(font());
    painter_.paint(painter, scene(), [&] {
        if (kernels_) {
            kernelPainter_.paintKernels(painter, kernelScene(), [this](SliceRef kernel) {
                return QString::fromStdString(kernels_->kernel(kernel).name);
            });
        }
    });
    paintRuler(painter);
    paintNotes(painter);
    paintGutter(painter);
    paintRange(painter, true);
    paintShares(painter);
    paintLowerBound(painter);
    paintDrag(painter);
    paintCursor(painter);
    paintCursorTime(painter);
}

void TimelineView::paintGutter(QPainter& painter) const {
    const QRect lanes = lanesRect();
    painter.fillRect(QRect(0, lanes.top(), lanes.left(), lanes.height()), palette().color(QPalette::Window));
    if (!store_) {
        return;
    }
    paintSelectedLane(painter);
    const TimelineLayout& layout = visibleLayout();
    for (const LaneBand& lane : layout.lanes) {
        if (lane.band.height >= fontMetrics().height()) {
            paintNameLine(painter, lanes.top() + lane.band.bottom() + 2);
        }
    }
    paintGroups(painter, layout);
    paintNames(painter, drawnNames());
    if (layout.pinnedHeight > 0) {
        painter.setPen(QPen(colors().faintText, 0));
        const int y = lanes.top() + layout.pinnedHeight + (layout.compact ? -1 : 1);
        painter.drawLine(0, y, viewport()->width(), y);
    }
}

std::vector<AxisView::DrawnName> TimelineView::drawnNames() const {
    if (!store_) {
        return {};
    }
    const TimelineLayout& layout = visibleLayout();
    const int top = lanesRect().top();
    std::vector<NamedBand> bands;
    for (const GroupBand& group : layout.groups) {
        const QString name = QString::fromStdString(group.name);
        const QString title = (group.collapsed ? QStringLiteral("▸ ") : QStringLiteral("▾ ")) + name;
        const Band& band = group.header.height > 0 ? group.header : group.band;
        if (band.height >= fontMetrics().height()) {
            bands.push_back({title, name, top + band.top, band.height, 0, NamedBand::Rank::group});
        }
    }
    const std::optional<PartSelection>& part = axis().part();
    const LaneBand* before = nullptr;
    for (const LaneBand& lane : layout.lanes) {
        const bool folded = before != nullptr && before->band == lane.band && !lane.group.empty();
        before = &lane;
        if (folded) {
            continue;
        }
        const LaneNames& names = names_.at(lane.lane.index());
        const bool wanted = part && part->isLane() && part->lane == lane.lane;
        bands.push_back({names.full, names.brief, top + lane.band.top, lane.band.height, lane.lane.value(),
                         wanted ? NamedBand::Rank::wanted : NamedBand::Rank::lane});
    }
    return namesOf(std::move(bands));
}

/// Hundreds of names take longer to make than to draw.
void TimelineView::nameLanes() {
    names_.clear();
    if (!store_) {
        return;
    }
    names_.resize(store_->lanes().size());
    for (const LaneBand& lane : wholeLayout().lanes) {
        const LaneInfo& info = store_->lanes()[lane.lane.index()];
        LaneNames& names = names_[lane.lane.index()];
        if (!lane.group.empty() && arrangement_.collapsedGroups.contains(lane.group)) {
            names.brief = names.full = wholeLayout().compact ? QString() : tr("mean");
            continue;
        }
        const QString bare = QString::fromStdString(arrangement_.byHost && !lane.group.empty()
                                                        ? info.name.substr(0, info.name.find(", host ")) + ")"
                                                        : info.name.substr(0, info.name.find(" (rank ")));
        names.brief = bare.isEmpty() ? titleOf({}, lane.lane.index()) : bare;
        names.full = lane.group.empty() ? titleOf(info, lane.lane.index())
                                        : titleOf({names.brief.toStdString(), info.device}, lane.lane.index());
    }
}

void TimelineView::paintGroups(QPainter& painter, const TimelineLayout& layout) const {
    const QRect lanes = lanesRect();
    painter.save();
    painter.setClipRect(QRect(0, lanes.top(), viewport()->width(), lanes.height()), Qt::IntersectClip);
    for (const GroupBand& group : layout.groups) {
        if (group.band.height == 0) {
            continue;
        }
        const QRect header(0, lanes.top() + group.header.top, viewport()->width(), group.header.height);
        painter.fillRect(header, palette().color(QPalette::Window));
        painter.setPen(QPen(colors().faintText, 0));
        painter.drawLine(0, header.top(), viewport()->width(), header.top());
    }
    painter.restore();
}

void TimelineView::paintSelectedLane(QPainter& painter) const {
    const std::optional<PartSelection>& part = axis().part();
    if (!part || !part->isLane() || part->source != source_) {
        return;
    }
    const bool links = part->kind == PartSelection::Kind::links;
    QColor shade = palette().color(QPalette::Highlight);
    shade.setAlpha(90);
    const QRect lanes = lanesRect();
    const TimelineLayout& layout = visibleLayout();
    for (const LaneBand& lane : layout.lanes) {
        for (const RowBand& row : lane.rows) {
            if (lane.lane == part->lane && store_->rows()[row.row].copies == links) {
                const int top = lanes.top() + row.band.top;
                painter.fillRect(QRect(0, top, lanes.left() - 2, row.band.height)
                                     .intersected(QRect(0, lanes.top(), lanes.left(), lanes.height())),
                                 shade);
            }
        }
    }
}

void TimelineView::paintShares(QPainter& painter) const {
    const std::optional<TimeRange>& range = axis().range();
    if (!showsRange() || range->length() == 0 || !store_) {
        return;
    }
    const QRect lanes = lanesRect();
    const TimeRange own{range->start - shift(), range->end - shift()};
    painter.save();
    painter.setClipRect(lanes, Qt::IntersectClip);
    double free = lanes.top();  // low lanes have no room for a plate each
    const TimelineLayout& layout = visibleLayout();
    for (const LaneBand& lane : layout.lanes) {
        const double centre = lanes.top() + lane.band.top + lane.band.height / 2.0;
        const double half = painter.fontMetrics().height() / 2.0;
        if (lane.band.height == 0 || (lane.band.height < 2 * half && centre - half < free)) {
            continue;
        }
        free = centre + half;
        const double share = static_cast<double>(store_->busyIn(lane.lane, own)) / static_cast<double>(range->length());
        const QString text = tr("%1 busy").arg(formatShare(share));
        QRectF plate(0, 0, painter.fontMetrics().horizontalAdvance(text) + 8, painter.fontMetrics().height());
        plate.moveCenter({(pixelAtTime(range->start) + pixelAtTime(range->end)) / 2, centre});
        plate.moveLeft(std::clamp(plate.left(), double(lanes.left()), lanes.right() - plate.width()));
        painter.fillRect(plate, colors().paper);
        painter.setPen(colors().text);
        painter.drawText(plate, Qt::AlignCenter, text);
    }
    painter.restore();
}

void TimelineView::hover(std::optional<QPoint> position) {
    const std::optional<SliceRef> hovered = position ? sliceAt(*position) : std::nullopt;
    const std::optional<SliceRef> kernel = position ? kernelAt(*position) : std::nullopt;
    if (hovered != hovered_ || kernel != hoveredKernel_) {
        hovered_ = hovered;
        hoveredKernel_ = kernel;
        viewport()->update();
    }
}

void TimelineView::click(const QPoint& position, Qt::KeyboardModifiers modifiers) {
    if (const std::optional<SliceRef> kernel = kernelAt(position)) {
        Q_EMIT picked(store_->find(kernels_->kernel(*kernel).task));
        return;
    }
    const TimelineLayout& layout = visibleLayout();
    const std::optional<RowBand> at = layout.rowAt(layoutY(position));
    const StoredRow* row = at ? &store_->rows()[at->row] : nullptr;
    const bool links = row != nullptr && row->copies;
    if (const TimeMark* note = noteAt(position)) {
        axis().setRange(note->range());
        return;
    }
    if (!lanesRect().contains(position)) {
        const std::optional<LaneId> lane = layout.laneAt(layoutY(position));
        if (const GroupBand* group = headerAt(position)) {
            clickGroup(std::string(group->name));  // the layout may be made anew
        } else if (lane && isInGutter(position)) {
            Q_EMIT lanePicked(*lane, links, modifiers.testFlag(Qt::ControlModifier));
        } else {
            Q_EMIT picked(std::nullopt);
        }
        return;
    }
    const std::optional<SliceRef> slice = sliceAt(position);
    const std::int64_t time = ownTimeAt(position);
    const auto inStep = [time](const StepSpan& step) { return step.range().start <= time && time < step.range().end; };
    if (!slice && row != nullptr && !links && std::any_of(store_->steps().begin(), store_->steps().end(), inStep)) {
        Q_EMIT gapPicked(row->lane, time);
    } else {
        Q_EMIT picked(slice);
    }
}

QString TimelineView::kernelToolTip(SliceRef kernel) const {
    const Kernel found = kernels_->kernel(kernel);
    const QString tip =
        axis().timeStyle() == TimeStyle::step
            ? tr("<b>%1</b><br>%2, from %3 of the step<br>started %4 after its launch<br>launched by %5")
            : tr("<b>%1</b><br>%2, from %3<br>started %4 after its launch<br>launched by %5");
    QString text = tip.arg(QString::fromStdString(found.name).toHtmlEscaped(), formatDuration(found.end - found.start),
                           axis().instantText(found.start, found.end - found.start), formatDuration(found.launchDelay),
                           taskName(found.task).toHtmlEscaped());
    if (const std::optional<TaskDeviceWork> work = kernels_->workOf(found.task)) {
        text += QStringLiteral("<br>") + describe(*work).toHtmlEscaped();
    }
    return text;
}

QString TimelineView::toolTipAt(const QPoint& position) const {
    if (const TimeMark* note = noteAt(position)) {
        return tr("%1<br>%2 long").arg(note->note.toHtmlEscaped(), formatDuration(note->length));
    }
    if (rulerPlate().contains(position)) {
        return tr("No order of these tasks can be faster than %1, even with split backwards.")
            .arg(formatDuration(lowerBound_->count()));
    }
    if (store_ && isInGutter(position)) {
        const std::optional<LaneId> lane = visibleLayout().laneAt(layoutY(position));
        return lane
                   ? tr("<b>%1</b><br>%2").arg(laneTitle(*lane).toHtmlEscaped(), laneDescription(*lane).toHtmlEscaped())
                   : QString();
    }
    if (const std::optional<SliceRef> kernel = kernelAt(position)) {
        return kernelToolTip(*kernel);
    }
    if (const std::optional<SliceRef> slice = sliceAt(position)) {
        return describe_ ? describe_(*slice) : QString();
    }
    const std::optional<Bubble> bubble = bubbleAt(position);
    return bubble && describeBubble_ ? describeBubble_(*bubble) : QString();
}

DragTool TimelineView::laneDrag(LaneId lane) {
    const auto laneOver = [this](const QPoint& at) {
        return visibleLayout().laneAt(std::clamp(layoutY(at), 0, std::max(0, lanesRect().height() - 1)));
    };
    const auto drop = [this, lane, laneOver](const QPoint& at) {
        if (const std::optional<LaneId> over = laneOver(at); over && *over != lane) {
            Q_EMIT laneDropped(lane, *over);
        }
    };
    const auto paint = [this, lane, laneOver](QPainter& painter, const QPoint& at) {
        const std::optional<LaneId> place = laneOver(at);
        const LaneBand* moved = visibleLayout().find(lane);
        const LaneBand* over = moved != nullptr && place ? visibleLayout().find(*place) : nullptr;
        if (over != nullptr && over != moved) {
            const int y = lanesRect().top() + (over > moved ? over->band.bottom() + 1 : over->band.top - 2);
            painter.fillRect(QRect(0, y - 1, viewport()->width(), 3), palette().color(QPalette::Highlight));
        }
    };
    return {.drop = drop, .paint = paint};
}

DragTool TimelineView::taskDrag(SliceRef task) {
    // The slice that the task would run before; empty if another timeline is shown since.
    const auto sliceBehind = [this, store = store_, task](const QPoint& at) -> std::optional<std::uint32_t> {
        const StoredRow& row = store->rows()[task.row];
        std::uint32_t before = 0;
        while (before < row.size() && row.start[before] + row.range(before).length() / 2 <= ownTimeAt(at)) {
            ++before;
        }
        return store == store_ ? std::optional(before) : std::nullopt;
    };
    const auto drop = [this, task, sliceBehind](const QPoint& at) {
        const std::optional<std::uint32_t> before = sliceBehind(at);
        if (before && *before != task.index && *before != task.index + 1) {
            Q_EMIT taskDropped(task, *before);
        }
    };
    const auto paint = [this, task, sliceBehind](QPainter& painter, const QPoint& at) {
        const std::optional<std::uint32_t> before = sliceBehind(at);
        if (!before) {
            return;
        }
        const StoredRow& row = store_->rows()[task.row];
        const double x = pixelAtTime((*before < row.size() ? row.start[*before] : row.end.back()) + shift());
        const QRectF bar = rectOf(task);
        const QColor color = palette().color(QPalette::Highlight);
        painter.save();
        painter.setClipRect(lanesRect(), Qt::IntersectClip);
        painter.setPen(QPen(color, 2, Qt::DashLine));
        painter.drawRect(bar);
        painter.fillRect(QRectF(x - 2, bar.top() - 3, 4, bar.height() + 6), color);
        painter.restore();
    };
    return {.drop = drop, .paint = paint};
}

DragTool TimelineView::toolFor(const QMouseEvent& press) {
    constexpr Qt::KeyboardModifiers kMove = Qt::AltModifier | Qt::ShiftModifier;
    const QPoint from = press.position().toPoint();
    const bool isLeft = press.button() == Qt::LeftButton;
    const std::optional<LaneId> lane =
        isLeft && isInGutter(from) ? visibleLayout().laneAt(layoutY(from)) : std::nullopt;
    if (lane && headerAt(from) == nullptr) {
        return laneDrag(*lane);
    }
    const bool moves = source_ == Source::simulated && isLeft && (press.modifiers() & kMove) == kMove;
    const std::optional<SliceRef> task = moves ? sliceAt(from) : std::nullopt;
    return task ? taskDrag(*task) : AxisView::toolFor(press);
}

std::optional<SliceRef> TimelineView::selectedItem() const {
    return store_ && axis().selection() ? axis().selection()->in(source_) : std::nullopt;
}

void TimelineView::reveal(SliceRef slice) {
    revealLane(store_->rows().at(slice.row).lane, wholeLayout().bandOf(slice.row));
}

void TimelineView::revealLane(LaneId lane) {
    revealLane(lane, wholeLayout().bubbleBand(lane));
}

void TimelineView::revealLane(LaneId lane, const Band& band) {
    const LaneBand* found = wholeLayout().find(lane);
    if (found != nullptr && !found->pinned) {
        revealBand(band, wholeLayout().pinnedHeight);
    }
}
}  // namespace pipescope
