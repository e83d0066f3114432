#include "gui/timeline/track_view.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <QFontMetrics>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>

#include <algorithm>
#include <array>

namespace pipescope {
namespace {
constexpr int kTrackGap = 5;
constexpr double kLeastBorder = 4;
constexpr std::int64_t kReachPixels = 3;

/// Colour by text. Edges and names separate neighbours of one colour.
QColor colorOf(std::uint32_t text) {
    static constexpr std::array kColors{okabe_ito::kSky,    okabe_ito::kOrange, okabe_ito::kGreen,
                                        okabe_ito::kPurple, okabe_ito::kYellow, okabe_ito::kGrey};
    return QColor::fromRgb(kColors.at((text * 2654435761U >> 16) % kColors.size()));
}
}  // namespace

TrackView::TrackView(TimeAxisModel& axis, QWidget* parent) : AxisView(axis, parent) {
    setAccessibleName(tr("Threads and streams"));
    setAccessibleDescription(tr("Ranges, calls and kernels of each thread and stream over time."));
}

void TrackView::setStore(std::shared_ptr<const TrackStore> store) {
    store_ = std::move(store);
    updateGeometry();
    relayout();
}

QSize TrackView::sizeHint() const {
    const int rows = store_ ? static_cast<int>(store_->rows.size()) : 0;
    return {800, std::clamp(rows, 2, 8) * rowHeight()};
}

void TrackView::relayout() {
    tops_.clear();
    int y = kTrackGap;
    for (std::size_t row = 0; store_ && row < store_->rows.size(); ++row) {
        y += row > 0 && store_->rows[row].depth == 0 ? kTrackGap : 0;
        tops_.push_back(y);
        y += rowHeight();
    }
    setContentHeight(y + kTrackGap);
}

QRect TrackView::rowRect(std::size_t row) const {
    const QRect lanes = lanesRect();
    return {lanes.left(), lanes.top() + tops_.at(row) - verticalScrollBar()->value(), lanes.width(), rowHeight() - 1};
}

void TrackView::paintEvent(QPaintEvent*) {
    QPainter painter(viewport());
    painter.setFont(font());
    painter.fillRect(viewport()->rect(), colors().paper);
    const QRect lanes = lanesRect();
    painter.fillRect(QRect(0, lanes.top(), lanes.left(), lanes.height()), palette().color(QPalette::Window));
    for (std::size_t row = 0; row < tops_.size(); ++row) {
        if (rowRect(row).intersects(lanes)) {
            paintRow(painter, row);
            paintName(painter, row);
        }
    }
    paintRange(painter, false);
    paintCursor(painter);
}

void TrackView::paintRow(QPainter& painter, std::size_t row) const {
    const QRect box = rowRect(row);
    const TrackRow& track = store_->rows[row];
    painter.save();
    painter.setClipRect(box.intersected(lanesRect()), Qt::IntersectClip);
    painter.fillRect(box, colors().lane);
    const QFontMetrics metrics = painter.fontMetrics();
    for (const TrackRun& run : visibleRuns(track, axis().window(), box.width())) {
        const double left = std::max(-2.0, run.left);
        const double right = std::min(box.width() + 2.0, run.right);
        const QRectF bar(box.left() + left, box.top(), std::max(1.0, right - left), box.height());
        const QColor color = run.folded ? colors().faintText : colorOf(track.text[run.index]);
        painter.fillRect(bar, color);
        if (bar.width() < kLeastBorder) {
            continue;
        }
        painter.setPen(QPen(colors().border, 0));
        painter.drawLine(bar.topLeft(), bar.bottomLeft() - QPointF(0, 1));
        const QString name = QString::fromStdString(store_->texts.at(track.text[run.index]));
        if (bar.width() > 3 * metrics.averageCharWidth()) {
            painter.setPen(textOn(color));
            painter.drawText(bar.adjusted(3, 0, -2, 0), Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine,
                             metrics.elidedText(name, Qt::ElideRight, static_cast<int>(bar.width()) - 5));
        }
    }
    painter.restore();
}

void TrackView::paintName(QPainter& painter, std::size_t row) const {
    const TrackRow& track = store_->rows[row];
    if (track.depth > 0) {
        return;
    }
    const QRect box(4, rowRect(row).top(), lanesRect().left() - 10, rowHeight());
    painter.setPen(colors().text);
    painter.drawText(
        box, Qt::AlignVCenter | Qt::AlignRight,
        painter.fontMetrics().elidedText(QString::fromStdString(track.name), Qt::ElideMiddle, box.width()));
}

std::optional<TrackRef> TrackView::rangeAtPixel(const QPoint& position) const {
    const QRect lanes = lanesRect();
    const auto reach = static_cast<std::int64_t>(kReachPixels * axis().window().length / lanes.width());
    for (std::size_t row = 0; row < tops_.size() && lanes.contains(position); ++row) {
        if (rowRect(row).contains(position)) {
            return rangeAt(*store_, row, timeAtPixel(position.x() + 0.5), reach);
        }
    }
    return std::nullopt;
}

QString TrackView::toolTipAt(const QPoint& position) const {
    const std::optional<TrackRef> found = rangeAtPixel(position);
    if (!found) {
        return {};
    }
    const TrackRow& track = store_->rows[found->row];
    const std::int64_t start = track.start[found->index];
    return tr("<b>%1</b><br>%2, %3<br>%4, from %5")
        .arg(QString::fromStdString(store_->texts.at(track.text[found->index])).toHtmlEscaped(),
             QString::fromStdString(track.name).toHtmlEscaped(), QString::fromStdString(track.group).toHtmlEscaped(),
             formatDuration(track.end[found->index] - start), formatDuration(start - axis().origin()));
}

void TrackView::mouseDoubleClickEvent(QMouseEvent* event) {
    if (const std::optional<TrackRef> found = rangeAtPixel(event->position().toPoint())) {
        const TrackRow& track = store_->rows[found->row];
        const std::int64_t margin = track.end[found->index] - track.start[found->index];
        axis().show({track.start[found->index] - margin, track.end[found->index] + margin});
    }
}
}  // namespace pipescope
