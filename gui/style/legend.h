#pragma once

#include "gui/style/task_style.h"
#include "schedule/task_key.h"

#include <QBrush>
#include <QColor>
#include <QString>
#include <QWidget>

#include <vector>

namespace pipescope {
/// An additional line of the legend.
struct LegendEntry {
    QColor ground;
    QBrush over;  ///< pattern over the ground; Qt::NoBrush: none
    QString name;

    friend bool operator==(const LegendEntry&, const LegendEntry&) = default;
};

/// Legend of colours and patterns: a swatch and a name for each kind that occurs, and for the bubble. Wraps into as
/// many lines as necessary.
class Legend : public QWidget {
    Q_OBJECT

public:
    explicit Legend(QWidget* parent = nullptr);
    void setKinds(std::vector<TaskKind> kinds);
    /// Adds entries beyond the kinds, such as causes of bubbles or lateness. `instead`: omits the kinds, whose colours
    /// are not in use.
    void setEntries(std::vector<LegendEntry> entries, bool instead);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return {0, lineHeight() + 4}; }
    bool hasHeightForWidth() const override { return true; }
    int heightForWidth(int width) const override;

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent*) override { setFixedHeight(heightForWidth(width())); }
    void changeEvent(QEvent* event) override;

private:
    struct Item {
        LegendEntry entry;
        Pattern pattern = Pattern::plain;
        int height = 12;
    };
    std::vector<Item> items() const;
    /// Calls `place(item, x, line)` for each item. Returns the number of lines.
    template <class Place>
    int layOut(int width, Place&& place) const;
    int lineHeight() const { return fontMetrics().height() + 4; }
    void fit();

    std::vector<TaskKind> kinds_;
    std::vector<LegendEntry> entries_;
    bool instead_ = false;
};
}  // namespace pipescope
