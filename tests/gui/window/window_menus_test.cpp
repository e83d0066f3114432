#include "gui/style/elided_label.h"
#include "gui/style/message_bar.h"
#include "gui/what_if/scenario_model.h"
#include "gui/window/scenario_tools.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QDockWidget>
#include <QFile>
#include <QLabel>
#include <QMenu>
#include <QMenuBar>
#include <QPushButton>
#include <QSet>
#include <QSettings>
#include <QTest>

namespace pipescope {
namespace {
QString plain(QString text) {
    return text.remove(QLatin1Char('&')).remove(QChar(0x2026));
}

/// Opens the menu and its submenus like a click, and returns the entries by text.
void openAll(QMenu& menu, QMap<QString, QAction*>& entries) {
    menu.popup({10, 10});
    QApplication::processEvents();
    EXPECT_TRUE(menu.isVisible()) << menu.title().toStdString();
    QSet<QString> mnemonics;
    for (QAction* action : menu.actions()) {
        if (action->isSeparator()) {
            continue;
        }
        EXPECT_FALSE(action->text().isEmpty());
        const qsizetype at = action->text().indexOf(QLatin1Char('&'));
        if (at >= 0) {
            const QString letter = action->text().mid(at + 1, 1).toLower();
            EXPECT_FALSE(mnemonics.contains(letter))
                << "two entries of " << menu.title().toStdString() << " have the letter " << letter.toStdString();
            mnemonics.insert(letter);
        }
        entries[plain(action->text())] = action;
    }
    const QList<QAction*> actions = menu.actions();
    menu.close();
    for (QAction* action : actions) {
        if (action->menu() != nullptr) {
            openAll(*action->menu(), entries);
        }
    }
}

class WindowMenus : public MainWindowTest {
protected:
    QMap<QString, QAction*> entries() {
        QMap<QString, QAction*> all;
        for (QAction* action : window_.menuBar()->actions()) {
            openAll(*action->menu(), all);
        }
        return all;
    }

    QStringList greyed() {
        QStringList names;
        const QMap<QString, QAction*> all = entries();
        for (auto each = all.begin(); each != all.end(); ++each) {
            if (!each.value()->isEnabled()) {
                names << each.key();
            }
        }
        return names;
    }
};

TEST_F(WindowMenus, GreyWhatNeedsAFileUntilOneIsOpen) {
    const QMap<QString, QAction*> all = entries();
    EXPECT_GT(all.size(), 60);
    const QStringList none = greyed();
    for (const char* always : {"Open", "Open recent", "Quit", "Memory", "System", "Light", "Dark", "Shortcuts",
                               "About PipeScope", "What-if panel", "Plan", "Tasks", "SQL"}) {
        const QString name = QString::fromUtf8(always);
        EXPECT_TRUE(all.contains(name) && all[name]->isEnabled()) << always;
    }
    for (const char* needy : {"Reload",
                              "Interactive page",
                              "Copy the tab as an image",
                              "The table or chart with the focus",
                              "Image of the tab",
                              "Rows of the SQL query",
                              "Close tab",
                              "Fit the selection, or the step",
                              "Zoom in",
                              "Back",
                              "Difference",
                              "Critical path",
                              "Find",
                              "Next hit",
                              "Next task or bubble of the lane",
                              "Mark this place",
                              "Undo",
                              "Redo",
                              "Optimal balance",
                              "Pin this scenario",
                              "Back to as recorded"}) {
        EXPECT_TRUE(none.contains(QString::fromUtf8(needy))) << needy;
    }
    open("menus.sqlite");
    QStringList some = greyed();
    some.removeAll(QStringLiteral("Single changes"));  // computed in the background, at its own pace
    EXPECT_EQ(some.join(QLatin1Char(';')).toStdString(),
              "Back to the simulation;Candidates for a cluster;Candidates of the plan;Chart of the plan;"
              "Chart of the plan for a cluster;Clear the selection;Collapse or expand the group of the selected lane;"
              "Collapse or expand the selected lane;Copy the description;Find the same tasks;Fit all lanes;Forward;"
              "Group lanes by process or host;Hide tasks of this kind;Histogram of durations;Measure the selection;"
              "Move the selected lane down;Move the selected lane up;Next mark;No file was opened yet;"
              "Pin the selected lane to the top, or unpin it;Pinned scenarios;Previous mark;Redo;Reset the lanes;"
              "Show all kinds;Threads and streams;Timelines of pinned scenarios;Undo");
    window_.page()->model().selectLane(Source::measured, LaneId{1}, false);
    window_.page()->axis().goBack();
    window_.page()->navigation().addMark();
    const QStringList able = greyed();
    for (const char* entry : {"Collapse or expand the selected lane", "Clear the selection", "Forward", "Next mark"}) {
        EXPECT_FALSE(able.contains(QString::fromUtf8(entry))) << entry;
    }
    window_.scenarios().tools()->pin();
    Scenario other = window_.scenarios().tools()->model().scenario();
    other.options.batch = 32;
    window_.scenarios().tools()->model().change(other, QStringLiteral("batch"));
    const QStringList now = greyed();
    for (const char* isAble : {"Pinned scenarios", "Timelines of pinned scenarios", "Undo"}) {
        EXPECT_FALSE(now.contains(QString::fromUtf8(isAble))) << isAble;
    }
    window_.files().closePage(window_.page());
    settle();
    EXPECT_TRUE(greyed().contains(QStringLiteral("Zoom in")));
}

TEST_F(WindowMenus, SwitchPanelsAndTheMemoryOffAndOn) {
    open("panels.sqlite");
    const QMap<QString, QAction*> all = entries();
    EXPECT_TRUE(window_.page()->views().memory().isVisible());
    all[QStringLiteral("Memory")]->trigger();
    EXPECT_FALSE(window_.page()->views().memory().isVisible());
    all[QStringLiteral("Memory")]->trigger();
    EXPECT_TRUE(window_.page()->views().memory().isVisible());
    for (auto* dock : window_.findChildren<QDockWidget*>()) {
        if (dock->objectName() == QLatin1String("whatIf")) {
            continue;  // its entry is in the menu of what-if
        }
        QAction* const action = all[plain(dock->windowTitle())];
        ASSERT_NE(action, nullptr) << dock->windowTitle().toStdString();
        const bool shown = !dock->isHidden();
        dock->toggleViewAction()->trigger();
        EXPECT_NE(!dock->isHidden(), shown) << dock->windowTitle().toStdString();
        dock->toggleViewAction()->trigger();
        EXPECT_EQ(!dock->isHidden(), shown);
    }
}

TEST(WindowRecentFiles, AreOpenedFromTheMenuAndAMissingOneIsTold) {
    QSettings settings(QString::fromStdString(temporaryPath("recent_menu.ini").string()), QSettings::IniFormat);
    settings.clear();
    MainWindow window(&settings);
    window.show();
    const auto recent = [&] {
        for (QMenu* menu : window.menuBar()->findChildren<QMenu*>()) {
            if (plain(menu->title()) == QStringLiteral("Open recent")) {
                menu->popup({10, 10});  // filled when it opens
                menu->close();
                return menu->actions();
            }
        }
        return QList<QAction*>();
    };
    ASSERT_EQ(recent().size(), 1);
    EXPECT_FALSE(recent()[0]->isEnabled());
    QStringList paths;
    for (const char* name : {"recent_a.sqlite", "recent_b.sqlite"}) {
        const auto path = temporaryPath(name);
        writeSampleTrace(path);
        paths.prepend(QString::fromStdString(path.string()));
        QSignalSpy loaded(&window.files(), &FileTabs::loaded);
        window.files().open(paths[0]);
        ASSERT_TRUE(loaded.wait(kPatience));
    }
    ASSERT_EQ(recent().size(), 2);
    EXPECT_EQ(recent()[0]->text(), paths[0]);  // the latest first
    EXPECT_EQ(recent()[1]->text(), paths[1]);
    window.files().closePage(window.page());
    window.files().closePage(window.page());
    ASSERT_EQ(window.page(), nullptr);
    {
        QSignalSpy loaded(&window.files(), &FileTabs::loaded);
        recent()[1]->trigger();
        ASSERT_TRUE(loaded.wait(kPatience));
    }
    EXPECT_EQ(window.page()->path(), paths[1]);
    EXPECT_EQ(recent()[0]->text(), paths[1]);
    QFile::remove(paths[0]);
    QSignalSpy failed(&window.files(), &FileTabs::failed);
    recent()[1]->trigger();
    ASSERT_TRUE(failed.wait(kPatience));
    EXPECT_TRUE(window.messages().text().contains(QStringLiteral("recent_b.sqlite")));
    EXPECT_EQ(window.files().pages().size(), 1);
}

TEST_F(WindowMenus, ShowThePlanForAClusterWhereItIsAskedFor) {
    open("on_demand.sqlite");
    const auto* dock = window_.findChild<QDockWidget*>(QStringLiteral("clusterPlan"));
    ASSERT_NE(dock, nullptr);
    EXPECT_TRUE(dock->isHidden());
    QAction* action = entries().value(QStringLiteral("Plan for a cluster"));
    ASSERT_NE(action, nullptr);
    action->trigger();
    settle();
    EXPECT_FALSE(dock->isHidden());
    EXPECT_GT(dock->height(), window_.height() / 3) << "with room for its form";
}

TEST_F(WindowMenus, LeaveEveryEmptyPanelWithAWordOnWhatToDo) {
    QPushButton* openButton = nullptr;
    for (auto* button : window_.findChildren<QPushButton*>()) {
        openButton =
            button->isVisible() && button->text().contains(QStringLiteral("Open a trace")) ? button : openButton;
    }
    EXPECT_NE(openButton, nullptr);
    open("emptied.sqlite");
    window_.files().closePage(window_.page());
    settle();
    const QMap<QString, QString> wanted{{QStringLiteral("details"), QStringLiteral("Click a task")},
                                        {QStringLiteral("marks"), QStringLiteral("M sets a mark")},
                                        {QStringLiteral("clusterPlan"), QStringLiteral("Name a model")}};
    int panels = 0;
    for (auto* dock : window_.findChildren<QDockWidget*>()) {
        SCOPED_TRACE(dock->objectName().toStdString());
        dock->show();
        dock->raise();
        settle();
        const auto said = [dock] {
            QStringList texts;
            for (const auto* label : dock->findChildren<QLabel*>()) {
                texts << (label->isVisible() ? label->text() : QString());
            }
            for (const auto* label : dock->findChildren<ElidedLabel*>()) {
                texts << (label->isVisible() ? label->text() : QString());
            }
            return texts.join(QLatin1Char('\n'));
        };
        const QString word = wanted.value(dock->objectName(), QStringLiteral("pen a "));
        EXPECT_TRUE(QTest::qWaitFor([&] { return said().contains(word); }, kPatience)) << said().toStdString();
        ++panels;
    }
    EXPECT_EQ(panels, 16);
}

TEST_F(WindowMenus, KeepKeysFromTheTimelinesWhileTheyAreOpen) {
    open("menu_keys.sqlite");
    activate();
    window_.page()->focusTimeline();
    const bool causes = window_.page()->model().choice().causes;
    QMenu& file = *window_.menuBar()->actions().front()->menu();
    file.popup({10, 10});
    QApplication::processEvents();
    ASSERT_TRUE(file.isVisible());
    QTest::keyClick(&window_, Qt::Key_B);  // Back to the simulation, and causes of bubbles
    EXPECT_EQ(window_.page()->model().choice().causes, causes);
    file.close();
    QTest::keyClick(&measured(), Qt::Key_B);
    EXPECT_NE(window_.page()->model().choice().causes, causes);
}
}  // namespace
}  // namespace pipescope
