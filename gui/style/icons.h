#pragma once

#include <QIcon>
#include <QList>

class QAction;
class QToolButton;
class QWidget;

namespace pipescope {
/// One of the line icons of gui/style/icons, in the text colour of the palette: faint while disabled, in the
/// highlight's colour while on. Throws Error if there is no icon of that name.
QIcon lineIcon(const QString& name, const QPalette& palette);
/// Actions of the tool bar, from left to right.
enum class Tool {
    open,
    reload,
    compare,
    share,
    back,
    forward,
    fit,
    all,
    zoom_in,
    zoom_out,
    lanes,
    find,
    mark,
    annotate,
    what_if,
    advice,
    command
};
/// Puts the action on the tool bar. Its line icon follows the theme by refreshIcons().
QAction& asTool(QAction& action, Tool tool);
/// The word beside the icon of the main tools; empty for the others.
QString wordOf(const QAction& tool);
/// The tools among the window's actions, in their order; null: a separator.
QList<QAction*> toolsOf(const QWidget& window);
/// Draws the icons of all actions of the window, and of its buttons made by iconButton(), in the colours of its
/// palette.
void refreshIcons(QWidget& window);
/// A flat button with an icon, whose name and tool tip are `text`.
QToolButton* iconButton(const char* icon, const QString& text, QWidget* parent);
}  // namespace pipescope
