#pragma once

#include "gui/timeline/axis_view.h"
#include "gui/timeline/track_store.h"

#include <memory>
#include <optional>

namespace pipescope {
/// Threads and streams on the shared time axis: one row per nesting depth, one bar per range, with its name if it fits.
class TrackView : public AxisView {
    Q_OBJECT

public:
    explicit TrackView(TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Null: nothing to show.
    void setStore(std::shared_ptr<const TrackStore> store);
    bool empty() const { return !store_ || store_->rows.empty(); }
    std::optional<TrackRef> rangeAtPixel(const QPoint& position) const;
    /// Rectangle of a row in viewport pixels.
    QRect rowRect(std::size_t row) const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {300, 2 * rowHeight()}; }

protected:
    void relayout() override;
    void paintEvent(QPaintEvent* event) override;
    QString toolTipAt(const QPoint& position) const override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;

private:
    int rowHeight() const { return fontMetrics().height() + 2; }
    void paintRow(QPainter& painter, std::size_t row) const;
    void paintName(QPainter& painter, std::size_t row) const;

    std::shared_ptr<const TrackStore> store_;
    std::vector<int> tops_;  // of the rows, before scrolling
};
}  // namespace pipescope
