#pragma once

#include "gui/style/task_style.h"
#include "gui/timeline/time_axis_model.h"

#include <QAbstractScrollArea>

#include <optional>
#include <vector>

class QPainter;

namespace pipescope {
/// A view whose content stands on the shared time axis, right of a column of lane names. Wheel, drag, pinch and keys
/// move the TimeAxisModel, and with it every view on it. What is drawn belongs to the subclasses.
class AxisView : public QAbstractScrollArea {
    Q_OBJECT

public:
    /// `axis` must outlive the view.
    explicit AxisView(TimeAxisModel& axis, QWidget* parent = nullptr);

    TimeAxisModel& axis() const { return axis_; }
    /// The content's rectangle in viewport pixels; its left and right edges are those of the axis' window.
    QRect lanesRect() const;
    /// Time of the recording at a viewport pixel, and back.
    std::int64_t timeAtPixel(double x) const;
    double pixelAtTime(std::int64_t time) const;
    /// Width of the column of lane names; the same for all views on an axis, or they would not align.
    void setGutter(int width);
    /// What the widest of these names needs, within reason.
    int gutterFor(const std::vector<LaneInfo>& lanes) const;
    /// "lane 0 · cuda:0"
    static QString titleOf(const LaneInfo& lane, std::size_t index);
    /// The content is higher than the view.
    bool overflows() const { return overflows_; }

Q_SIGNALS:
    void overflowChanged();

protected:
    /// Pixels above the content, for a ruler.
    virtual int topMargin() const { return 0; }
    /// Fits the content to the view's size and calls setContentHeight.
    virtual void relayout() = 0;
    /// The pointer moved without a button, or left (nothing).
    virtual void hover(std::optional<QPoint>) {}
    virtual void click(const QPoint&) {}
    /// Where a measured range begins or ends for the pointer.
    virtual std::int64_t placeAt(const QPoint& position) const { return timeAtPixel(position.x()); }

    const TimelineColors& colors() const { return colors_; }
    void setContentHeight(int height);
    void paintLaneName(QPainter& painter, const LaneInfo& lane, std::size_t index, int top, int height) const;
    /// The marks too.
    void paintCursor(QPainter& painter) const;
    /// The measured range, shaded over the content; with `label` its duration above it.
    void paintRange(QPainter& painter, bool label) const;

    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool viewportEvent(QEvent* event) override;

private:
    struct Drag {
        QPoint from;
        TimeWindow window;
        int scroll = 0;
        bool moved = false;
        bool measures = false;  // with Shift: it marks a range and moves nothing
    };
    /// Lengthens the window by the factor, with the time at a viewport pixel in its place.
    void zoomAbout(double x, double factor);
    /// Two fingers on a touchpad or a touch screen; whether the event was one of theirs.
    bool pinch(QEvent& event);
    bool moveByKey(const QKeyEvent& event);
    void paintMarks(QPainter& painter) const;

    TimeAxisModel& axis_;
    TimelineColors colors_;
    std::optional<Drag> drag_;
    int gutter_ = 80;
    bool overflows_ = false;
};
}  // namespace pipescope
