#include "gui/window/menu_entries.h"

#include <QMenu>
#include <QMenuBar>

namespace pipescope {
namespace {
/// As a menu shows the text: one & marks a mnemonic, two are an &.
QString plain(const QString& text) {
    QString shown;
    for (qsizetype k = 0; k < text.size(); ++k) {
        k += text[k] == QLatin1Char('&') ? 1 : 0;
        shown += k < text.size() ? QString(text[k]) : QString();
    }
    return shown.remove(QChar(0x2026));
}

void collect(QMenu& menu, QStringList above, QList<MenuEntry>& entries) {
    Q_EMIT menu.aboutToShow();
    above << plain(menu.title());
    for (QAction* action : menu.actions()) {
        if (action->menu() != nullptr) {
            collect(*action->menu(), above, entries);
        } else if (!action->isSeparator() && action->isVisible()) {
            entries.push_back({above, action});
        }
    }
}
}  // namespace

QString withoutMnemonics(QString text) {
    return text.replace(QLatin1Char('&'), QLatin1String("&&"));
}

QString MenuEntry::text() const {
    return plain(action->text());
}

QString MenuEntry::keys() const {
    QStringList keys;
    for (const QKeySequence& each : action->shortcuts()) {
        keys << each.toString(QKeySequence::NativeText);
    }
    return keys.join(QStringLiteral(", "));
}

QList<MenuEntry> menuEntries(const QMenuBar& menus) {
    QList<MenuEntry> entries;
    for (QAction* action : menus.actions()) {
        if (action->menu() != nullptr) {
            collect(*action->menu(), {}, entries);
        }
    }
    return entries;
}
}  // namespace pipescope
