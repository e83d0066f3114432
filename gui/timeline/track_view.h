#pragma once

#include "gui/timeline/axis_view.h"
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
class TrackView : public AxisView {
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
    std::optional<TrackRef> rangeAtPixel(const QPoint& position) const;
    /// Index of the counter at this place.
    std::optional<std::size_t> counterAtPixel(const QPoint& position) const;
    /// Rectangle of a row in viewport pixels; empty while its group is collapsed.
    QRect rowRect(std::size_t row) const;
    QRect counterRect(std::size_t counter) const;
    /// Header of a group; empty if there is only one group.
    QRect groupRect(const std::string& group) const;
    /// Hides the rows of a group, or shows them again.
    void toggleGroup(const std::string& group);
    bool isCollapsed(const std::string& group) const { return collapsed_.contains(group); }
    /// Selects the range `by` places later in the row of the selected one, or the first visible one without a
    /// selection.
    void moveSelection(int by);
    /// Expands the group and scrolls until the row or counter is visible. Does not move the time axis.
    void revealRow(std::size_t row);
    void revealCounter(std::size_t counter);
    /// "12.5 GiB", "3"
    QString valueText(std::size_t counter, double value) const;
    /// "0 to 12.5 GiB"; of a constant counter its value.
    QString extentText(std::size_t counter) const;
    /// The process or device of all rows and counters, whose name no row has; empty if there are several.
    QString onlyGroup() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {300, topMargin() + 2 * rowHeight()}; }

Q_SIGNALS:
    /// The user selected a range, or cleared the selection.
    void picked(std::optional<pipescope::TrackRef> range);

protected:
    int topMargin() const override { return rulerShown_ ? rulerHeight() : 0; }
    void relayout() override;
    void click(const QPoint& position) override;
    void rightClick(const QPoint& position) override;
    void paintEvent(QPaintEvent* event) override;
    QString toolTipAt(const QPoint& position) const override;
    std::int64_t placeAt(const QPoint& position) const override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;

private:
    struct Band {
        enum class Kind { group, row, counter } kind = Kind::row;
        std::size_t index = 0;  // of the row or counter
        int top = 0;            // before scrolling
        int height = 0;
        std::string group = {};
    };
    int rowHeight() const { return fontMetrics().height() + 2; }
    int counterHeight() const { return 2 * fontMetrics().height() + 4; }
    const Band* bandOf(Band::Kind kind, std::size_t index) const;
    const Band* bandAt(const QPoint& position) const;
    QRect rectOf(const Band& band) const;
    void reveal(Band::Kind kind, std::size_t index, const std::string& group);
    std::optional<TrackRef> selected() const;
    void paintRow(QPainter& painter, const Band& band) const;
    void paintCounter(QPainter& painter, const Band& band) const;
    void paintName(QPainter& painter, const Band& band) const;
    void paintSelected(QPainter& painter) const;
    void paintArrow(QPainter& painter, const TrackRef& from, const TrackRef& to) const;

    std::shared_ptr<const TrackStore> store_;
    std::vector<std::uint8_t> colorOfText_;
    std::vector<Band> bands_;
    std::set<std::string> collapsed_;
    bool rulerShown_ = false;
};
}  // namespace pipescope
