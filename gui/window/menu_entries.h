#pragma once

#include <QAction>
#include <QList>
#include <QString>
#include <QStringList>

class QMenuBar;

namespace pipescope {
/// The text for a menu or a tab, which take an & for the mark of a mnemonic.
QString withoutMnemonics(QString text);

/// An entry of the menus.
struct MenuEntry {
    QStringList menus;  ///< the menus above it, outermost first
    QAction* action = nullptr;

    QString text() const;
    /// "Ctrl+F, F3"; empty without keys.
    QString keys() const;
};

/// All entries of the menus and their submenus, in order. Fills menus that are filled when they open.
QList<MenuEntry> menuEntries(const QMenuBar& menus);
}  // namespace pipescope
