#pragma once

#include "gui/timeline/axis_view.h"
#include "gui/timeline/item_row.h"
#include "gui/timeline/timeline_layout.h"

#include <memory>
#include <optional>
#include <string>

namespace pipescope {
/// Rows of items on the shared time axis, which the pointer finds and keys walk along. Subclasses know what the items
/// are, and paint them.
class RowsView : public AxisView {
    Q_OBJECT

public:
    explicit RowsView(TimeAxisModel& axis, QWidget* parent = nullptr);

    /// Offset of the items' times: a simulated step starts at 0 and is drawn at the start of the measured one.
    void setShift(std::int64_t ns);
    std::int64_t shift() const { return shift_; }
    /// The rows as drawn, from the top of the lanes.
    const TimelineLayout& visibleLayout() const { return *sharedLayout(); }
    /// Selects the item `by` places later in the row of the selected one, or the first visible one without a selection.
    void moveSelection(int by);

Q_SIGNALS:
    /// The user selected an item, or cleared the selection.
    void picked(std::optional<pipescope::SliceRef> item);

protected:
    /// One of the layout's rows.
    virtual const ItemRow& itemsOf(std::uint32_t row) const = 0;
    virtual std::optional<SliceRef> selectedItem() const = 0;
    /// The user clicked on the header of a group.
    virtual void clickGroup(const std::string& group) = 0;
    /// In times of the items. Empty where none is.
    virtual std::optional<TimeRange> rangeAt(const QPoint& position) const = 0;

    /// Selects as a click does, but collapses no group.
    void rightClick(const QPoint& position) override;
    /// Snaps to the nearest edge of an item in the row below the pointer, within a few pixels.
    std::int64_t placeAt(const QPoint& position) const override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

    void setLayout(TimelineLayout layout);
    /// Before scrolling.
    const TimelineLayout& wholeLayout() const { return *layout_; }
    const std::shared_ptr<const TimelineLayout>& sharedLayout() const;
    TimeWindow ownWindow() const { return shifted(axis().window(), -shift_); }
    /// The item's time at a pixel.
    std::int64_t ownTimeAt(const QPoint& position) const { return timeAtPixel(position.x() + 0.5) - shift_; }
    /// Pixels below the top of the lanes.
    int layoutY(const QPoint& position) const { return position.y() - lanesRect().top(); }
    bool isInGutter(const QPoint& position) const;
    virtual const GroupBand* headerAt(const QPoint& position) const;
    /// Number of the item at the position, which must be in the row, or beside it by a few pixels.
    std::optional<std::uint32_t> itemAt(const ItemRow& row, const QPoint& position) const;
    /// The item of the layout's rows.
    std::optional<SliceRef> itemAt(const QPoint& position) const;
    /// Rectangle of a band beside the names, in viewport pixels; empty if it is.
    QRect rectOf(const Band& band) const;
    /// Scrolls vertically until the band of the whole layout is visible, below `above` pixels that do not scroll.
    void revealBand(const Band& band, int above = 0);

private:
    std::int64_t shift_ = 0;
    std::shared_ptr<const TimelineLayout> layout_ = std::make_shared<const TimelineLayout>();
    mutable std::shared_ptr<const TimelineLayout> visible_;  // scrolled by visibleScroll_; null: to be made anew
    mutable int visibleScroll_ = 0;
};
}  // namespace pipescope
