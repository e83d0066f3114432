#include "gui/style/elided_label.h"
#include "gui/style/message_bar.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/track_view.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/answer_bar.h"
#include "gui/window/scenario_tools.h"
#include "gui/window/shortcut_overlay.h"
#include "tests/gui/window/main_window_fixture.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <QDockWidget>
#include <QLabel>
#include <QMenuBar>
#include <QRegularExpression>
#include <QTest>

namespace pipescope {
namespace {
/// Traces with missing parts.
class WindowTroubles : public MainWindowTest {
protected:
    QString laneCell(int lane, const char* key) {
        const auto* table = window_.findChild<QDockWidget*>(QStringLiteral("lanes"))->findChild<FilteredTable*>();
        const QAbstractItemModel& model = *table->table().model();
        for (int column = 0; column < model.columnCount(); ++column) {
            if (model.headerData(column, Qt::Horizontal, kExportRole).toString() == QLatin1String(key)) {
                return model.index(lane, column).data().toString();
            }
        }
        ADD_FAILURE() << "no column " << key;
        return {};
    }

    QString lineAbove() {
        QStringList lines;
        for (const auto* label : window_.page()->findChildren<ElidedLabel*>()) {
            lines << label->text();
        }
        return lines.join(QLatin1Char('\n'));
    }
};

TEST_F(WindowTroubles, SaysOfASimulatedTraceWhatIsWrongWithIt) {
    const auto path = temporaryPath("simulated.sqlite");
    const auto shows = [&](const char* sql) {
        writeSimulatedTrace(path);
        SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec(sql);
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience)) << window_.messages().text().toStdString();
        settle();
    };
    const auto panel = [&] { return window_.scenarios().tools(); };
    shows("");
    EXPECT_FALSE(window_.page()->answer().messagesButton().isVisible());
    window_.files().closePage(window_.page());
    shows("UPDATE PIPESCOPE_TASK SET end = end + 1000 WHERE kind = 'loss'");
    EXPECT_TRUE(window_.page()->answer().messagesButton().isVisible());
    EXPECT_TRUE(window_.page()->messages().text().contains(QStringLiteral("not those of its profile")));
    ASSERT_NE(panel(), nullptr);
    EXPECT_FALSE(panel()->model().isEmpty());
    window_.files().closePage(window_.page());
    shows("UPDATE PIPESCOPE_PROFILE SET profile = '{}'");
    EXPECT_TRUE(window_.page()->messages().text().contains(QStringLiteral("No what-if")));
    EXPECT_TRUE(simulated().isVisible());
    ASSERT_NE(panel(), nullptr);
    EXPECT_TRUE(panel()->model().isEmpty());
    bool told = false;
    for (const auto* label : panel()->panel().findChildren<QLabel*>()) {
        told = told || label->text().contains(QStringLiteral("cannot be simulated"));
    }
    EXPECT_TRUE(told) << "the panel gives the reason too";
}

TEST_F(WindowTroubles, SetsNoOtherPipelineBesideARunOfAnUnknownOne) {
    const auto path = temporaryPath("unknown.sqlite");
    writeSampleTrace(path, {});
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec("DELETE FROM PIPESCOPE_RUN WHERE key = 'configuration'");
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience)) << window_.messages().text().toStdString();
    settle();
    auto* tools = window_.scenarios().tools();
    ASSERT_NE(tools, nullptr);
    EXPECT_TRUE(tools->model().isEmpty());
    EXPECT_EQ(window_.page()->document()->simulated, nullptr);
    bool told = false;
    for (const auto* label : tools->panel().findChildren<QLabel*>()) {
        told = told || label->text().contains(QStringLiteral("does not say what was run"));
    }
    EXPECT_TRUE(told);
}

TEST_F(WindowTroubles, ShowsTheThreadsOfATraceWithoutTasks) {
    const auto path = temporaryPath("only_ranges.sqlite");
    {
        TraceWriter writer(path, IfExists::replace);
        for (int k = 0; k < 3; ++k) {
            NvtxRecord range;
            range.text = "read a batch";
            range.start = 2'000 + 40'000 * k;
            range.end = range.start + 30'000;
            range.global_tid = 9;
            writer.add_range(range);
        }
        writer.close();
    }
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience)) << window_.messages().text().toStdString();
    settle();
    EXPECT_TRUE(window_.page()->views().tracks().isVisible());
    EXPECT_FALSE(measured().isVisible());
    EXPECT_FALSE(simulated().isVisible());
    EXPECT_TRUE(window_.page()->answer().messagesButton().isVisible());
    EXPECT_TRUE(window_.page()->messages().text().contains(QStringLiteral("no task of a pipeline")));
    EXPECT_GT(window_.page()->axis().total().length(), 80'000);
    // There is nothing to select, compare or fit, and all keys must cope.
    window_.page()->views().tracks().setFocus();
    for (const ShortcutLine& line : shortcutLines(*window_.menuBar())) {
        const QKeySequence keys(line.keys.split(QStringLiteral(", "))[0]);
        const bool ofMenus = line.group != QStringLiteral("In a timeline");
        if (ofMenus && keys.count() == 1 && keys[0].keyboardModifiers() == Qt::NoModifier &&
            keys[0].key() != Qt::Key_F1) {
            QTest::keyClick(&window_.page()->views().tracks(), keys[0].key());
        }
    }
    window_.page()->navigation().goToTime(50'000);
    window_.grab();
}

TEST_F(WindowTroubles, WarnsOfLostRangesAndGivesNoBubbleOfThem) {
    const auto path = temporaryPath("lossy_window.sqlite");
    for (const std::int64_t dropped : {0, 17}) {
        writeSampleTrace(path, {}, dropped);
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        settle();
        const bool lossy = dropped > 0;
        MessageBar& bar = window_.page()->messages();
        EXPECT_EQ(window_.page()->answer().messagesButton().isVisible(), lossy);
        EXPECT_FALSE(bar.isVisible()) << "it would push the timelines down";
        EXPECT_EQ(bar.text().contains(QStringLiteral("lost 17 of")), lossy) << bar.text().toStdString();
        const QString facts = headlineOf(window_, Source::measured);
        EXPECT_EQ(facts.contains(QStringLiteral("bubble not given, ranges were lost")), lossy) << facts.toStdString();
        EXPECT_EQ(facts.contains(QLatin1Char('%')), !lossy);
        EXPECT_EQ(laneCell(0, "measured_bubble_fraction").contains(QLatin1Char('%')), !lossy);
        EXPECT_TRUE(laneCell(0, "simulated_bubble_fraction").contains(QLatin1Char('%')));
        EXPECT_TRUE(headlineOf(window_, Source::simulated).contains(QStringLiteral("bubble ")));
        EXPECT_EQ(headlineOf(window_, Source::simulated).contains(QStringLiteral("points")), !lossy);
        EXPECT_EQ(lineAbove().contains(QRegularExpression(QStringLiteral("bubble [^·]*measured"))), !lossy)
            << lineAbove().toStdString();
    }
}
}  // namespace
}  // namespace pipescope
