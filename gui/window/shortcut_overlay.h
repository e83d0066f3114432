#pragma once

#include <QList>
#include <QString>

class QDialog;
class QMenuBar;
class QWidget;

namespace pipescope {
/// A line of the list under "?".
struct ShortcutLine {
    QString group;  ///< the menu
    QString keys;
    QString what;
};

/// All menu entries with keys, read from the menus, followed by keys and pointer gestures of a timeline.
QList<ShortcutLine> shortcutLines(const QMenuBar& menus);
/// The list in two columns. The dialog deletes itself.
QDialog* createShortcutOverlay(const QMenuBar& menus, QWidget* parent);
}  // namespace pipescope
