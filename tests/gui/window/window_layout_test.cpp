// The whole window with each panel in front, at three sizes and in both themes: nothing may be cut off. With
// PIPESCOPE_PICTURES=FOLDER in the environment it leaves the pictures there, to be looked at.
#include "gui/style/elided_label.h"
#include "gui/style/theme.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QAbstractButton>
#include <QAbstractScrollArea>
#include <QAbstractSpinBox>
#include <QDir>
#include <QDockWidget>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QToolButton>

namespace pipescope {
namespace {
class WindowLayout : public MainWindowTest {
protected:
    void TearDown() override { applyTheme(Theme::light); }
};

/// Content of a scroll area may reach beyond its view.
bool scrolls(const QWidget& widget) {
    for (const QWidget* each = &widget; each->parentWidget() != nullptr; each = each->parentWidget()) {
        const auto* area = qobject_cast<const QAbstractScrollArea*>(each->parentWidget()->parentWidget());
        if (area != nullptr && area->viewport() == each->parentWidget()) {
            return true;
        }
    }
    return false;
}

QString nameOf(const QWidget& widget) {
    QString name = QString::fromLatin1(widget.metaObject()->className());
    if (const auto* label = qobject_cast<const QLabel*>(&widget)) {
        name += QStringLiteral(" \"%1\"").arg(label->text());
    } else if (const auto* button = qobject_cast<const QAbstractButton*>(&widget)) {
        name += QStringLiteral(" \"%1\"").arg(button->text());
    }
    return QStringLiteral("%1 %2x%3").arg(name).arg(widget.width()).arg(widget.height());
}

/// Qt's own parts, laid out by what holds them.
bool isPartOfAnother(const QWidget& widget) {
    return widget.inherits("QDockWidgetTitleButton") || widget.parentWidget()->inherits("QAbstractSpinBox") ||
           widget.parentWidget()->inherits("QComboBox");
}

/// Why the widget does not show all it has to say; empty if it does.
QString cutOff(const QWidget& widget) {
    if (const auto* box = qobject_cast<const QAbstractSpinBox*>(&widget)) {
        // Its hint is about the largest value there may ever be.
        const int needed = box->fontMetrics().horizontalAdvance(box->text());
        return box->findChild<QLineEdit*>()->contentsRect().width() < needed
                   ? QStringLiteral("its text needs %1").arg(needed)
                   : QString();
    }
    const QSize least = widget.minimumSizeHint();
    if (widget.width() < least.width() || widget.height() < least.height()) {
        return QStringLiteral("needs %1x%2").arg(least.width()).arg(least.height());
    }
    if (!scrolls(widget) && !widget.parentWidget()->rect().contains(widget.geometry())) {
        return QStringLiteral("reaches beyond its parent");
    }
    if (const auto* label = qobject_cast<const QLabel*>(&widget); label != nullptr && !label->text().isEmpty()) {
        if (label->wordWrap()) {
            const int needed = label->heightForWidth(label->width());
            return needed > label->height() ? QStringLiteral("needs %1 high").arg(needed) : QString();
        }
        return label->width() < label->sizeHint().width()
                   ? QStringLiteral("needs %1 wide").arg(label->sizeHint().width())
                   : QString();
    }
    if (const auto* button = qobject_cast<const QAbstractButton*>(&widget); button != nullptr) {
        const int needed = button->fontMetrics().horizontalAdvance(button->text().remove(QLatin1Char('&')));
        return button->width() < needed ? QStringLiteral("its text needs %1").arg(needed) : QString();
    }
    return {};
}

QStringList cutOffIn(const QWidget& window) {
    QStringList found;
    for (const QWidget* widget : window.findChildren<QWidget*>()) {
        // Qt moves a panel behind another's tab out of the window, and calls it visible.
        const bool seen = widget->isVisible() && widget->window() == &window && !widget->visibleRegion().isEmpty();
        if (seen && !isPartOfAnother(*widget) && qobject_cast<const ElidedLabel*>(widget) == nullptr) {
            const QString why = cutOff(*widget);
            if (!why.isEmpty()) {
                found << nameOf(*widget) + QStringLiteral(" ") + why;
            }
        }
    }
    return found;
}

TEST_F(WindowLayout, CutsNothingOffWithAnyPanelAtAnySizeInEitherTheme) {
    const QByteArray folder = qgetenv("PIPESCOPE_PICTURES");
    SampleRun run;
    run.partitions = 4;
    run.chunks = 8;
    window_.resize(1280, 800);
    open("layout.sqlite", run);
    window_.select(Source::measured, slice(Source::measured, {1, TaskKind::backward, 1, 2, -1}));
    for (const Theme theme : {Theme::light, Theme::dark}) {
        applyTheme(theme);
        for (const QSize size : {QSize(1280, 800), QSize(1920, 1080), QSize(3840, 2160)}) {
            window_.resize(size);
            for (QDockWidget* dock : window_.findChildren<QDockWidget*>(QString(), Qt::FindDirectChildrenOnly)) {
                const bool before = dock->isVisible();
                dock->show();
                dock->raise();
                settle();
                const QString name = QStringLiteral("%1-%2-%3")
                                         .arg(dock->objectName())
                                         .arg(size.width())
                                         .arg(theme == Theme::dark ? QStringLiteral("dark") : QStringLiteral("light"));
                const QImage picture = window_.grab().toImage();
                EXPECT_EQ(picture.size(), size) << name.toStdString();
                EXPECT_EQ(cutOffIn(window_).join(QLatin1Char('\n')).toStdString(), "") << name.toStdString();
                if (!folder.isEmpty()) {
                    picture.save(QDir(QString::fromLocal8Bit(folder)).filePath(name + QStringLiteral(".png")));
                }
                dock->setVisible(before);
            }
        }
    }
}
}  // namespace
}  // namespace pipescope
