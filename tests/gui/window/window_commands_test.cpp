#include "gui/window/command_palette.h"
#include "gui/window/step_strip.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QLineEdit>
#include <QListWidget>
#include <QMenu>
#include <QMenuBar>

namespace pipescope {
namespace {
class WindowCommands : public MainWindowTest {
protected:
    CommandPalette* palette() {
        activate();
        QTest::keyClick(&window_, Qt::Key_K, Qt::ControlModifier);
        settle();
        return window_.findChild<CommandPalette*>();
    }
    static QStringList lines(const CommandPalette& palette) {
        QStringList lines;
        for (int row = 0; row < palette.list().count(); ++row) {
            lines << palette.list().item(row)->text();
        }
        return lines;
    }
};

TEST_F(WindowCommands, AreFoundByWordsAndRun) {
    SampleRun run;
    run.steps = 6;
    open("commands.sqlite", run);
    const StepHistory& history = window_.page()->stepStrip().history();
    window_.page()->model().selectStep(*history.slowest == 0 ? 1 : 0);
    CommandPalette* commands = palette();
    ASSERT_NE(commands, nullptr);
    EXPECT_GT(commands->list().count(), 40);
    QTest::keyClicks(&commands->words(), QStringLiteral("step SLOW"));
    ASSERT_EQ(commands->list().count(), 1) << lines(*commands).join(QLatin1Char('\n')).toStdString();
    QTest::keyClick(&commands->words(), Qt::Key_Return);
    settle();
    EXPECT_EQ(window_.page()->model().step(), history.steps[*history.slowest].step);
    EXPECT_EQ(window_.findChild<CommandPalette*>(), nullptr);
}

TEST_F(WindowCommands, AreChosenWithTheArrowKeysAndNamedWithTheirKeys) {
    open("commands.sqlite");
    CommandPalette* commands = palette();
    ASSERT_NE(commands, nullptr);
    QTest::keyClicks(&commands->words(), QStringLiteral("zoom"));
    ASSERT_GE(commands->list().count(), 2);
    EXPECT_TRUE(lines(*commands)[0].contains(QStringLiteral("View")));
    EXPECT_TRUE(lines(*commands)[0].contains(QStringLiteral("W"))) << lines(*commands)[0].toStdString();
    const double before = window_.page()->axis().window().length;
    QTest::keyClick(&commands->words(), Qt::Key_Down);
    EXPECT_EQ(commands->list().currentRow(), 1);
    QTest::keyClick(&commands->words(), Qt::Key_Up);
    QTest::keyClick(&commands->words(), Qt::Key_Return);
    settle();
    EXPECT_LT(window_.page()->axis().window().length, before);
}

TEST_F(WindowCommands, WithWholeWordsComeBeforeFilesWhoseNamesContainThem) {
    open("commands.sqlite");
    CommandPalette* commands = palette();
    ASSERT_NE(commands, nullptr);
    QTest::keyClicks(&commands->words(), QStringLiteral("sql"));
    const QStringList found = lines(*commands);
    ASSERT_GE(found.size(), 2) << "the panel, and a recent file";
    EXPECT_TRUE(found[0].startsWith(QStringLiteral("SQL")) || found[0].startsWith(QStringLiteral("✓ SQL")))
        << found.join(QLatin1Char('\n')).toStdString();
}

TEST(CommandPalette, PutsTheCommandOfThatVeryNameFirst) {
    QMenuBar menus;
    QMenu* menu = menus.addMenu(QStringLiteral("Tools"));
    for (const char* name : {"Planets", "Plan for a cluster", "Plan"}) {
        menu->addAction(QString::fromLatin1(name));
    }
    auto* commands = new CommandPalette(menus, nullptr);
    commands->words().setText(QStringLiteral("plan "));
    QStringList names;
    for (int row = 0; row < commands->list().count(); ++row) {
        names << commands->list().item(row)->text().section(QStringLiteral("    "), 0, 0);
    }
    EXPECT_EQ(names.join(QLatin1Char(',')), QStringLiteral("Plan,Plan for a cluster,Planets"));
    commands->close();
}

TEST_F(WindowCommands, ThatCannotRunAreLeftOut) {
    CommandPalette* commands = palette();
    ASSERT_NE(commands, nullptr);
    QTest::keyClicks(&commands->words(), QStringLiteral("slowest step"));
    EXPECT_EQ(commands->list().count(), 0) << "no file is open";
    QTest::keyClick(&commands->words(), Qt::Key_Return);
    EXPECT_TRUE(commands->isVisible());
    QTest::keyClick(&commands->words(), Qt::Key_Escape);
    settle();
    EXPECT_EQ(window_.findChild<CommandPalette*>(), nullptr);
}
}  // namespace
}  // namespace pipescope
