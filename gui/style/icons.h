#pragma once

#include <QIcon>

class QAction;
class QToolButton;
class QWidget;

namespace pipescope {
/// One of the line icons of gui/style/icons, in the text colour of the palette: faint while disabled, in the
/// highlight's colour while on. Throws Error if there is no icon of that name.
QIcon lineIcon(const QString& name, const QPalette& palette);
/// Gives the action a line icon, which follows the theme by refreshIcons().
QAction& withIcon(QAction& action, const char* name);
/// Name of the action's line icon; empty if it has none.
QString iconOf(const QAction& action);
/// Draws the icons of all actions of the window, and of its buttons made by iconButton(), in the colours of its
/// palette.
void refreshIcons(QWidget& window);
/// A flat button with an icon, whose name and tool tip are `text`.
QToolButton* iconButton(const char* icon, const QString& text, QWidget* parent);
}  // namespace pipescope
