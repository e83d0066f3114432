#pragma once

#include "gui/style/task_style.h"
#include "schedule/task_key.h"

#include <QBrush>
#include <QColor>
#include <QString>
#include <QWidget>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// An additional line of the legend.
struct LegendEntry {
    QColor ground;
    QBrush over;  ///< pattern over the ground; Qt::NoBrush: none
    QString name;
    int id = -1;  ///< for entryClicked(); -1: a click does nothing
    bool hidden = false;
    QString about = {};  ///< tool tip of an entry that cannot be clicked
    QColor top = {};     ///< of the swatch, if it differs

    friend bool operator==(const LegendEntry&, const LegendEntry&) = default;
};

/// Legend of colours and patterns: a swatch and a name for each kind that occurs, and for the bubble, unless an entry
/// that can be clicked stands for it. Wraps into as many lines as necessary, or shows as much as fits in some lines and
/// an item that shows the rest. With setClickable() it is a filter: items can be clicked, or reached with the arrow
/// keys and chosen with Space.
class Legend : public QWidget {
    Q_OBJECT

public:
    explicit Legend(QWidget* parent = nullptr);
    void setKinds(std::vector<TaskKind> kinds);
    /// Copies are drawn in this colour, that of their links, instead of their own; an invalid one: in their own.
    void setCopyColor(const QColor& color);
    /// Adds entries beyond the kinds, such as causes of bubbles or lateness. `instead`: omits the kinds, whose colours
    /// are not in use.
    void setEntries(std::vector<LegendEntry> entries, bool instead);
    void setClickable();
    /// Shows at most this many lines, at least one, until the user asks for the rest. Precondition: setClickable().
    void setMostLines(int lines);
    /// The lines of all items, in pixels, or of so many lines.
    int heightOfAll(int width) const;
    int heightOfLines(int lines) const { return lines * lineHeight() + kRim; }
    /// Draws these kinds as hidden.
    void setHidden(const KindSet& kinds);
    /// Rectangles of the items in widget pixels, in order, with their names.
    std::vector<std::pair<QString, QRect>> places() const;
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {0, heightOfLines(1)}; }
    bool hasHeightForWidth() const override { return true; }
    int heightForWidth(int width) const override;

Q_SIGNALS:
    /// The user wants to hide the kind, or to show it again. `only`: to hide all others.
    void kindClicked(pipescope::TaskKind kind, bool only);
    void entryClicked(int id, bool only);

protected:
    bool event(QEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent*) override { fit(); }
    void changeEvent(QEvent* event) override;

private:
    struct Item {
        LegendEntry entry;
        Pattern pattern = Pattern::plain;
        int height = 12;
        std::optional<TaskKind> kind = {};
        bool unfolds = false;  ///< shows the rest, or hides it again; without a swatch

        bool isClickable() const { return kind || entry.id >= 0 || unfolds; }
    };
    static constexpr int kRim = 4;  // pixels above and below all lines
    std::vector<Item> items() const;
    /// As many items as the lines hold, and one that unfolds the rest.
    std::vector<Item> shownItems(int width) const;
    Item unfolding(const QString& name) const;
    int swatchWidth(const Item& item) const;
    /// Calls `place(item, x, line)` for each item. Returns the number of lines.
    template <class Place>
    int layOut(const std::vector<Item>& items, int width, Place&& place) const;
    int linesOf(const std::vector<Item>& items, int width) const;
    int lineHeight() const { return fontMetrics().height() + 4; }
    void fit();
    /// The item's name, shortened if it is wider than the legend.
    QString textIn(const Item& item, int x) const;
    QRect placeOf(const Item& item, int x, int line) const;
    std::optional<std::size_t> itemAt(const QPoint& position) const;
    std::optional<std::size_t> clickableAt(const QPoint& position) const;
    void choose(std::size_t index, bool only);
    QString toolTipAt(const QPoint& position) const;

    std::vector<TaskKind> kinds_;
    QColor copyColor_;
    std::vector<LegendEntry> entries_;
    bool instead_ = false;
    bool clickable_ = false;
    KindSet hidden_;
    int mostLines_ = std::numeric_limits<int>::max();
    bool unfolded_ = false;
    std::size_t current_ = 0;  // the item that the keyboard has reached
};
}  // namespace pipescope
