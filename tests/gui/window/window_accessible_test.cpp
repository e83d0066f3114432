#include "gui/window/shortcut_overlay.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QAbstractSpinBox>
#include <QAccessible>
#include <QComboBox>
#include <QDialog>
#include <QDockWidget>
#include <QLabel>
#include <QMenuBar>
#include <QTabBar>

namespace pipescope {
namespace {
using WindowAccessible = MainWindowTest;

/// Internal parts of Qt widgets, which screen readers treat as part of their parent.
bool isPartOfAnother(const QWidget& widget) {
    const auto* label = qobject_cast<const QLabel*>(&widget);
    if (label != nullptr && label->text().isEmpty()) {
        return true;  // there is nothing to read now
    }
    const auto* tabs = qobject_cast<const QTabBar*>(&widget);
    if (tabs != nullptr && tabs->count() == 0) {
        return true;  // it has the name of its current tab
    }
    return widget.focusProxy() != nullptr || qobject_cast<QAbstractSpinBox*>(widget.parentWidget()) != nullptr ||
           qobject_cast<QComboBox*>(widget.parentWidget()) != nullptr ||
           widget.window()->inherits("QComboBoxPrivateContainer");
}

/// Focusable widgets without a name.
QStringList namelessIn(QWidget& window) {
    QStringList nameless;
    for (QWidget* widget : window.findChildren<QWidget*>()) {
        if (widget->focusPolicy() == Qt::NoFocus || isPartOfAnother(*widget)) {
            continue;
        }
        QAccessibleInterface* accessible = QAccessible::queryAccessibleInterface(widget);
        if (accessible == nullptr || accessible->text(QAccessible::Name).isEmpty()) {
            QString path;
            for (const QWidget* each = widget; each != nullptr; each = each->parentWidget()) {
                path += QString::fromLatin1(each->metaObject()->className()) + QLatin1Char(' ') + each->objectName() +
                        QStringLiteral(" < ");
            }
            nameless << path;
        }
    }
    return nameless;
}

TEST_F(WindowAccessible, GivesAllThatTakesTheFocusAName) {
    EXPECT_EQ(namelessIn(window_).join(QLatin1Char('\n')).toStdString(), "") << "with nothing open";
    open("names.sqlite");
    for (QDockWidget* dock : window_.findChildren<QDockWidget*>()) {
        dock->raise();
    }
    settle();
    EXPECT_EQ(namelessIn(window_).join(QLatin1Char('\n')).toStdString(), "") << "with a trace";
    const std::unique_ptr<QDialog> keys(createShortcutOverlay(*window_.menuBar(), nullptr));
    EXPECT_EQ(namelessIn(*keys).join(QLatin1Char('\n')).toStdString(), "") << "of the list of keys";
}
}  // namespace
}  // namespace pipescope
