#pragma once

#include "gui/style/task_style.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/time_ruler.h"

#include <QAbstractScrollArea>

#include <functional>
#include <optional>
#include <vector>

class QPainter;

namespace pipescope {
/// What a drag does, from the first movement to the release of the button. With a `drop`, it changes nothing before,
/// and Esc takes it back.
struct DragTool {
    std::function<void(const QPoint& to)> move = nullptr;
    std::function<void(const QPoint& at)> drop = nullptr;
    std::function<void(QPainter&, const QPoint& at)> paint = nullptr;  ///< shows what dropping here would do
    bool grips = true;                                                 ///< the content
};

/// A view of content on the shared time axis, to the right of a column of lane names. Wheel, drag, pinch and keys move
/// the TimeAxisModel, and thereby all its views. Subclasses draw the content.
class AxisView : public QAbstractScrollArea {
    Q_OBJECT

public:
    /// `axis` must outlive the view.
    explicit AxisView(TimeAxisModel& axis, QWidget* parent = nullptr);

    TimeAxisModel& axis() const { return axis_; }
    /// The content's rectangle in viewport pixels. Its left and right edges match the axis' window.
    QRect lanesRect() const;
    /// Converts between viewport pixels and times of the recording.
    std::int64_t timeAtPixel(double x) const;
    double pixelAtTime(std::int64_t time) const;
    /// Sets the width of the lane name column. All views of an axis must use the same width to align.
    void setGutter(int width);
    /// Width of the widest of these names, within limits.
    int gutterFor(const std::vector<LaneInfo>& lanes) const;
    /// "lane 0 · cuda:0"
    static QString titleOf(const LaneInfo& lane, std::size_t index);
    /// True if the content is higher than the view.
    bool overflows() const { return overflows_; }
    /// Drawn names beside the content, in viewport pixels. They never overlap: low lanes have a name here and there.
    struct DrawnName {
        QRect rect;
        QString text;
    };
    virtual std::vector<DrawnName> drawnNames() const { return {}; }

    /// Drawn labels of the ruler, complete and not overlapping, in viewport pixels.
    using RulerLabel = pipescope::RulerLabel;
    std::vector<RulerLabel> rulerLabels() const;
    /// Part of the ruler that shows something else than times, in viewport pixels; empty: none.
    virtual QRectF rulerPlate() const { return {}; }
    /// Plate with the cursor's time on the ruler, in viewport pixels. Empty while no cursor is visible.
    QRectF cursorPlate() const;
    QString cursorText() const;

Q_SIGNALS:
    void overflowChanged();
    /// Ctrl + Alt + wheel: the user wants higher (1) or lower (-1) lanes.
    void rowHeightWanted(int by);

protected:
    /// Pixels reserved above the content for a ruler.
    virtual int topMargin() const { return 0; }
    /// Fits the content to the view's size, and calls setContentHeight.
    virtual void relayout() = 0;
    /// The pointer moved without a button, or left the view (nullopt).
    virtual void hover(std::optional<QPoint>) {}
    virtual void click(const QPoint&, Qt::KeyboardModifiers) {}
    /// A context menu opens here.
    virtual void rightClick(const QPoint& position) { click(position, Qt::NoModifier); }
    /// HTML; empty: none.
    virtual QString toolTipAt(const QPoint&) const { return {}; }
    /// Snaps the end of a measured range to a time near the pointer.
    virtual std::int64_t placeAt(const QPoint& position) const { return timeAtPixel(position.x()); }

    /// What a drag that begins here does. A press without a drag is a click.
    virtual DragTool toolFor(const QMouseEvent& press);
    /// Paints what a drag would do now.
    void paintDrag(QPainter& painter) const;
    const TimelineColors& colors() const { return colors_; }
    void setContentHeight(int height);
    /// The band that a name belongs to, in viewport pixels.
    struct NamedBand {
        QString full;   ///< if the band is as high as a line of text
        QString brief;  ///< otherwise
        int top = 0;
        int height = 0;
        int number = 0;  ///< of several bands, round numbers keep their names
        enum class Rank { lane, wanted, group } rank = Rank::lane;  ///< higher ranks keep their names
        QString figure = {};                                        ///< behind the name, never shortened
    };
    /// The names that have room, at most one in a line of text.
    std::vector<DrawnName> namesOf(std::vector<NamedBand> bands) const;
    struct NameParts {
        QString whole;  ///< the name
        QString tail;   ///< a figure behind it
        int room = 0;   ///< pixels, for the name
    };
    /// Shortened names that look alike get the part in which they differ.
    void tellApart(std::vector<DrawnName>& names, const std::vector<NameParts>& parts) const;
    QString fullestIn(const NamedBand& band, int width) const;
    void paintNames(QPainter& painter, const std::vector<DrawnName>& names) const;
    /// Draws a line below a lane, across the names.
    void paintNameLine(QPainter& painter, int y) const;
    int rulerHeight() const { return fontMetrics().height() + 8; }
    void paintRuler(QPainter& painter) const;
    /// Draws the cursor's time on a plate over the ruler.
    void paintCursorTime(QPainter& painter) const;
    /// Paints the marks too.
    void paintCursor(QPainter& painter) const;
    /// True if a part of the measured range is in view.
    bool showsRange() const;
    /// Plate with the range's length on the ruler; empty: none.
    QRectF rangePlate() const;
    /// Shades the measured range over the content. With `label`, prints its duration above it.
    void paintRange(QPainter& painter, bool label) const;

    void resizeEvent(QResizeEvent*) override { relayout(); }
    void changeEvent(QEvent* event) override;
    /// Esc takes back a drag.
    bool event(QEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool viewportEvent(QEvent* event) override;

private:
    struct Press {
        DragTool tool;
        Qt::MouseButton button = Qt::LeftButton;
        QPoint from;
        std::optional<QPoint> at = {};  // once moved
    };
    RulerTimes rulerTimes() const;
    Ruler ruler() const;
    /// Multiplies the window's length by the factor. The time at the viewport pixel keeps its place.
    void zoomAbout(double x, double factor);
    /// Handles pinch gestures of touchpad and touch screen. Returns true if the event was one.
    bool pinch(QEvent& event);
    bool moveByKey(const QKeyEvent& event);
    void paintMarks(QPainter& painter) const;
    void paintNoteEdges(QPainter& painter, const TimeMark& note) const;

    TimeAxisModel& axis_;
    TimelineColors colors_;
    std::optional<Press> press_;
    int gutter_ = 80;
    bool overflows_ = false;
};
}  // namespace pipescope
