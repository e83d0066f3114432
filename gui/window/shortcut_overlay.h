#pragma once

#include <QList>
#include <QString>

class QDialog;
class QMenuBar;
class QWidget;

namespace pipescope {
/// One line of the list under "?".
struct ShortcutLine {
    QString group;  ///< the menu
    QString keys;
    QString what;
};

/// Every menu entry that has keys, read from the menus themselves, then what keys and pointer do in a timeline.
QList<ShortcutLine> shortcutLines(const QMenuBar& menus);
/// The list in two columns, as a dialog that deletes itself.
QDialog* createShortcutOverlay(const QMenuBar& menus, QWidget* parent);
}  // namespace pipescope
