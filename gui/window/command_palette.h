#pragma once

#include "gui/window/menu_entries.h"

#include <QDialog>
#include <QPointer>

class QLineEdit;
class QListWidget;

namespace pipescope {
/// Finds an entry of the menus by words, and runs it. Entries that are disabled are left out. The dialog deletes itself
/// when it closes.
class CommandPalette : public QDialog {
    Q_OBJECT

public:
    CommandPalette(const QMenuBar& menus, QWidget* parent);

    QLineEdit& words() const { return *words_; }
    QListWidget& list() const { return *list_; }

protected:
    /// Sends keys that move the choice from the line to the list.
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void fill();
    void runCurrent();

    QList<MenuEntry> entries_;
    QLineEdit* words_;
    QListWidget* list_;
};
}  // namespace pipescope
