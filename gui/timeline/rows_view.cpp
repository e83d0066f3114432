#include "gui/timeline/rows_view.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QScrollBar>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace pipescope {
namespace {
constexpr double kEdgeReach = 6;  // pixels beside an edge to which a measured range snaps
constexpr int kReach = 3;         // pixels beside a thin item that still hit it
}  // namespace

RowsView::RowsView(TimeAxisModel& axis, QWidget* parent) : AxisView(axis, parent) {}

void RowsView::setShift(std::int64_t ns) {
    shift_ = ns;
    viewport()->update();
}

void RowsView::setLayout(TimelineLayout layout) {
    layout_ = std::make_shared<const TimelineLayout>(std::move(layout));
    visible_ = nullptr;
    setContentHeight(layout_->height);
}

const std::shared_ptr<const TimelineLayout>& RowsView::sharedLayout() const {
    const int scroll = verticalScrollBar()->value();
    if (visible_ == nullptr || visibleScroll_ != scroll) {
        visible_ = scroll == 0 ? layout_ : std::make_shared<const TimelineLayout>(scrolled(*layout_, scroll));
        visibleScroll_ = scroll;
    }
    return visible_;
}

bool RowsView::isInGutter(const QPoint& position) const {
    const QRect lanes = lanesRect();
    return position.x() < lanes.left() && position.y() >= lanes.top() && position.y() <= lanes.bottom();
}

const GroupBand* RowsView::headerAt(const QPoint& position) const {
    return isInGutter(position) || lanesRect().contains(position) ? visibleLayout().headerAt(layoutY(position))
                                                                  : nullptr;
}

std::optional<std::uint32_t> RowsView::itemAt(const ItemRow& row, const QPoint& position) const {
    const auto reach = static_cast<std::int64_t>(kReach * axis().window().length / lanesRect().width());
    return row.itemAt(ownTimeAt(position), reach);
}

std::optional<SliceRef> RowsView::itemAt(const QPoint& position) const {
    const std::optional<RowBand> at = visibleLayout().rowAt(layoutY(position));
    const bool isInside = at && lanesRect().contains(position);
    const std::optional<std::uint32_t> item = isInside ? itemAt(itemsOf(at->row), position) : std::nullopt;
    return item ? std::optional(SliceRef{at->row, *item}) : std::nullopt;
}

QRect RowsView::rectOf(const Band& band) const {
    const QRect lanes = lanesRect();
    return band.height > 0 ? QRect(lanes.left(), lanes.top() + band.top, lanes.width(), band.height) : QRect();
}

void RowsView::rightClick(const QPoint& position) {
    if (headerAt(position) == nullptr) {
        click(position, Qt::NoModifier);
    }
}

std::int64_t RowsView::placeAt(const QPoint& position) const {
    const std::int64_t time = timeAtPixel(position.x());
    const std::optional<RowBand> at = visibleLayout().rowAt(layoutY(position));
    const std::optional<std::int64_t> edge = at ? itemsOf(at->row).edgeNear(time - shift_) : std::nullopt;
    const double reach = kEdgeReach * axis().window().length / lanesRect().width();
    return edge && static_cast<double>(std::abs(*edge + shift_ - time)) <= reach ? *edge + shift_ : time;
}

void RowsView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (const std::optional<TimeRange> range = rangeAt(event->position().toPoint())) {
        const std::int64_t margin = range->length();
        axis().show({range->start + shift_ - margin, range->end + shift_ + margin});
    }
}

void RowsView::keyPressEvent(QKeyEvent* event) {
    if (event->modifiers() == Qt::NoModifier && (event->key() == Qt::Key_Period || event->key() == Qt::Key_Comma)) {
        moveSelection(event->key() == Qt::Key_Period ? 1 : -1);
    } else {
        AxisView::keyPressEvent(event);
    }
}

void RowsView::moveSelection(int by) {
    if (const std::optional<SliceRef> selected = selectedItem()) {
        const auto last = static_cast<std::int64_t>(itemsOf(selected->row).size()) - 1;
        const std::int64_t next = std::clamp<std::int64_t>(std::int64_t{selected->index} + by, 0, last);
        Q_EMIT picked(SliceRef{selected->row, static_cast<std::uint32_t>(next)});
        return;
    }
    const TimeRange fromHere{ownWindow().start, std::numeric_limits<std::int64_t>::max()};
    for (const LaneBand& lane : layout_->lanes) {
        for (const RowBand& row : lane.rows) {
            if (const ItemSpan seen = itemsOf(row.row).within(fromHere); seen.size() > 0) {
                Q_EMIT picked(SliceRef{row.row, static_cast<std::uint32_t>(seen.first)});
                return;
            }
        }
    }
}

void RowsView::revealBand(const Band& band, int above) {
    QScrollBar& bar = *verticalScrollBar();
    const int last = std::max(0, band.top - above);
    bar.setValue(std::clamp(bar.value(), std::min(last, band.bottom() - lanesRect().height()), last));
}
}  // namespace pipescope
