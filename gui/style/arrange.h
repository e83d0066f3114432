#pragma once

#include <QBoxLayout>
#include <QMargins>
#include <QWidget>

#include <cstddef>
#include <initializer_list>

namespace pipescope {
/// A widget or a layout in a row or column, and its share of the spare room; null is spare room alone.
struct Arranged {
    Arranged(QWidget* widget_, int stretch_ = 0) : widget(widget_), stretch(stretch_) {}
    Arranged(QLayout* layout_, int stretch_ = 0) : layout(layout_), stretch(stretch_) {}
    Arranged(std::nullptr_t, int stretch_) : stretch(stretch_) {}

    QWidget* widget = nullptr;
    QLayout* layout = nullptr;
    int stretch = 0;
};

/// Adds the items to a new row or column, which it returns.
inline QBoxLayout* arrange(QBoxLayout* layout, std::initializer_list<Arranged> items) {
    for (const Arranged& item : items) {
        if (item.widget != nullptr) {
            layout->addWidget(item.widget, item.stretch);
        } else if (item.layout != nullptr) {
            layout->addLayout(item.layout, item.stretch);
        } else {
            layout->addStretch(item.stretch);
        }
    }
    return layout;
}
/// Likewise, with these margins, and pixels between the items (-1: as the style has them).
inline QBoxLayout* arrange(QBoxLayout* layout, const QMargins& margins, int spacing,
                           std::initializer_list<Arranged> items) {
    layout->setContentsMargins(margins);
    layout->setSpacing(spacing);
    return arrange(layout, items);
}

/// The widget, with a name for screen readers and a tool tip.
template <class Widget>
Widget* named(Widget* widget, const QString& name, const QString& toolTip = {}) {
    widget->setAccessibleName(name);
    if (!toolTip.isEmpty()) {
        widget->setToolTip(toolTip);
    }
    return widget;
}
}  // namespace pipescope
