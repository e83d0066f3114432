#pragma once

#include "gui/timeline/rows_view.h"
#include "gui/timeline/track_store.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
/// Threads, streams and counters on the shared time axis, by process and device: one row per nesting depth, one bar per
/// range, with its name if it fits. Arrows lead from and to the selected range (PartSelection::Kind::range).
class TrackView : public RowsView {
    Q_OBJECT

public:
    explicit TrackView(TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Null: nothing to show.
    void setStore(std::shared_ptr<const TrackStore> store);
    const TrackStore* store() const { return store_.get(); }
    bool empty() const { return !store_ || store_->empty(); }
    /// Shows a ruler, for a page without timelines.
    void setRulerShown(bool shown);
    /// Width that shows the names of the rows, within limits.
    int gutterForNames() const;
    std::optional<SliceRef> rangeAtPixel(const QPoint& position) const { return itemAt(position); }
    /// Index of the counter at this place.
    std::optional<std::size_t> counterAtPixel(const QPoint& position) const;
    /// Rectangle of a row in viewport pixels; empty while its group is collapsed.
    QRect rowRect(std::uint32_t row) const { return rectOf(visibleLayout().bandOf(row)); }
    QRect counterRect(std::uint32_t counter) const { return rectOf(visibleLayout().bandBelowOf(counter)); }
    /// Header of a group; empty if there is only one group.
    QRect groupRect(const std::string& group) const;
    bool isCollapsed(const std::string& group) const { return collapsed_.contains(group); }
    /// Expands the group and scrolls until the row or counter is visible. Does not move the time axis.
    void revealRow(std::uint32_t row);
    void revealCounter(std::uint32_t counter);
    /// "12.5 GiB", "3"
    QString valueText(std::size_t counter, double value) const;
    /// "0 to 12.5 GiB"; of a constant counter its value.
    QString extentText(std::size_t counter) const;
    /// The process or device of all rows and counters, whose name no row has; empty if there are several.
    QString onlyGroup() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {300, topMargin() + 2 * rowHeight()}; }

protected:
    int topMargin() const override { return rulerShown_ ? rulerHeight() : 0; }
    void relayout() override;
    const ItemRow& itemsOf(std::uint32_t row) const override { return store_->rows[row]; }
    std::optional<SliceRef> selectedItem() const override;
    /// Hides the rows of a group, or shows them again.
    void clickGroup(const std::string& group) override;
    std::optional<TimeRange> rangeAt(const QPoint& position) const override;
    void click(const QPoint& position, Qt::KeyboardModifiers modifiers) override;
    void paintEvent(QPaintEvent* event) override;
    QString toolTipAt(const QPoint& position) const override;

private:
    int rowHeight() const { return fontMetrics().height() + 2; }
    /// Expands the group.
    void open(const std::string& group);
    void paintGroup(QPainter& painter, const GroupBand& group) const;
    void paintRow(QPainter& painter, const RowBand& row) const;
    void paintCounter(QPainter& painter, const RowBand& row) const;
    /// A line of text beside a row.
    void paintName(QPainter& painter, const QRect& row, const QString& text, Qt::TextElideMode mode,
                   const QColor& color) const;
    void paintSelected(QPainter& painter) const;
    void paintArrow(QPainter& painter, const SliceRef& from, const SliceRef& to) const;

    std::shared_ptr<const TrackStore> store_;
    std::vector<std::uint8_t> colorOfText_;
    std::set<std::string> collapsed_;
    bool rulerShown_ = false;
};
}  // namespace pipescope
