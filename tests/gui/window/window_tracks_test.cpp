#include "gui/console/sql_console.h"
#include "gui/document/notes_file.h"
#include "gui/report/timeline_page.h"
#include "gui/timeline/track_view.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QFile>
#include <QInputDialog>
#include <QMenu>
#include <QPushButton>

#include <stdexcept>

namespace pipescope {
namespace {
class WindowTracks : public MainWindowTest {
protected:
    void SetUp() override {
        MainWindowTest::SetUp();
        QFile::remove(notesPathOf(path()));
        open(name());
    }
    static std::string name() {
        return std::string("tracks_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".sqlite";
    }
    QString path() { return QString::fromStdString(temporaryPath(name()).string()); }
    const TrackStore* tracks() { return window_.files().document()->tracks.get(); }
    void run(const QString& sql) {
        SqlConsole& console = window_.tables().console();
        console.setSql(sql);
        QSignalSpy finished(&console, &SqlConsole::finished);
        console.run();
        ASSERT_TRUE(finished.wait(kPatience));
    }
    /// The entries of the console's menu of tracks.
    QMenu& menu() {
        for (auto* button : window_.tables().console().findChildren<QPushButton*>()) {
            if (button->menu() != nullptr) {
                Q_EMIT button->menu()->aboutToShow();
                return *button->menu();
            }
        }
        throw std::runtime_error("no menu of tracks");
    }
    /// As the user who names the track in the dialog.
    void add(const QString& sql, const QString& called) {
        run(sql);
        QAction* const first = menu().actions().at(0);
        ASSERT_TRUE(first->isEnabled());
        first->trigger();
        auto* dialog = window_.page()->findChild<QInputDialog*>();
        ASSERT_NE(dialog, nullptr);
        dialog->setTextValue(called);
        QSignalSpy changed(&window_.page()->tracks(), &PageTracks::changed);
        dialog->accept();
        ASSERT_TRUE(changed.wait(kPatience));
        settle();
    }

    const QString slow_ = QStringLiteral(
        "SELECT start, end, kind || microBatch AS name, lane FROM PIPESCOPE_TASK WHERE source = 'measured' AND kind = "
        "'backward'");
};

TEST_F(WindowTracks, OfAQueryAreDrawnAndKeptBesideTheTrace) {
    ASSERT_EQ(tracks(), nullptr);
    const TimeWindow before = window_.page()->axis().window();
    add(slow_, QStringLiteral("slow"));
    ASSERT_NE(tracks(), nullptr);
    ASSERT_EQ(tracks()->rows.size(), window_.files().document()->measured->lanes().size());
    EXPECT_EQ(tracks()->rows[0].name, "slow, lane 0");
    EXPECT_TRUE(tracks()->textOf({0, 0}).starts_with("backward"));
    EXPECT_TRUE(window_.page()->views().tracks().isVisible());
    EXPECT_EQ(window_.page()->axis().window(), before) << "the view stays";
    EXPECT_EQ(readTracks(path()), (std::vector<QueryTrack>{{QStringLiteral("slow"), slow_}}));

    window_.files().closePage(window_.page());
    settle();
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(path());
    ASSERT_TRUE(loaded.wait(kPatience));
    ASSERT_TRUE(QTest::qWaitFor([this] { return tracks() != nullptr; }, kPatience)) << "they come back with the file";
    EXPECT_EQ(tracks()->rows[0].name, "slow, lane 0");
}

TEST_F(WindowTracks, AreCountersAndReplacedAndRemoved) {
    add(QStringLiteral("SELECT start AS time, end - start AS value FROM PIPESCOPE_TASK WHERE source = 'measured'"),
        QStringLiteral("lengths"));
    ASSERT_NE(tracks(), nullptr);
    EXPECT_EQ(tracks()->counters.size(), 1U);
    add(slow_, QStringLiteral("lengths"));
    EXPECT_TRUE(tracks()->counters.empty());
    EXPECT_FALSE(tracks()->rows.empty());
    QAction* const last = menu().actions().constLast();
    EXPECT_EQ(last->text(), QStringLiteral("Remove the track “lengths”"));
    QSignalSpy changed(&window_.page()->tracks(), &PageTracks::changed);
    last->trigger();
    ASSERT_TRUE(changed.wait(kPatience));
    EXPECT_EQ(tracks(), nullptr);
    EXPECT_FALSE(QFile::exists(notesPathOf(path())));
}

TEST_F(WindowTracks, ComeAndGoWithUndoAndRedo) {
    const auto undo = [this](const char* name) {
        for (QAction* action : window_.findChildren<QAction*>()) {
            if (action->text().remove(QLatin1Char('&')).startsWith(QLatin1String(name))) {
                QSignalSpy changed(&window_.page()->tracks(), &PageTracks::changed);
                EXPECT_TRUE(action->isEnabled());
                action->trigger();
                EXPECT_TRUE(changed.wait(kPatience));
                settle();
                return;
            }
        }
        FAIL() << name;
    };
    const std::vector<QueryTrack> one{{QStringLiteral("slow"), slow_}};
    add(slow_, QStringLiteral("slow"));
    undo("Undo");
    EXPECT_EQ(tracks(), nullptr);
    EXPECT_TRUE(readTracks(path()).empty()) << "as in the file";
    undo("Redo");
    ASSERT_NE(tracks(), nullptr);
    EXPECT_EQ(readTracks(path()), one);
    QSignalSpy changed(&window_.page()->tracks(), &PageTracks::changed);
    menu().actions().constLast()->trigger();
    ASSERT_TRUE(changed.wait(kPatience));
    EXPECT_EQ(tracks(), nullptr);
    undo("Undo");
    ASSERT_NE(tracks(), nullptr) << "what was removed comes back";
    EXPECT_EQ(tracks()->rows[0].name, "slow, lane 0");
    EXPECT_EQ(readTracks(path()), one);
}

TEST_F(WindowTracks, OfBubblesReadTheTableThatIsMadeForAQuery) {
    add(QStringLiteral("SELECT start, end, cause AS name, lane FROM PIPESCOPE_BUBBLE WHERE source = 'measured'"),
        QStringLiteral("idle"));
    ASSERT_NE(tracks(), nullptr);
    EXPECT_FALSE(tracks()->rows.empty());
}

TEST_F(WindowTracks, AreNotOfferedWithoutTheirColumns) {
    run(QStringLiteral("SELECT id FROM PIPESCOPE_TASK"));
    EXPECT_FALSE(menu().actions().at(0)->isEnabled());
    EXPECT_TRUE(menu().actions().at(1)->text().contains(QStringLiteral("start, end and name")));
}

TEST_F(WindowTracks, ThatFailSaySoAndLeaveTheOthers) {
    writeTracks(path(), {{QStringLiteral("broken"), QStringLiteral("SELECT nothing FROM nowhere")},
                         {QStringLiteral("slow"), slow_}});
    window_.files().closePage(window_.page());
    settle();
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(path());
    ASSERT_TRUE(loaded.wait(kPatience));
    ASSERT_TRUE(QTest::qWaitFor([this] { return tracks() != nullptr; }, kPatience));
    settle();
    EXPECT_EQ(tracks()->rows[0].name, "slow, lane 0");
    EXPECT_TRUE(window_.page()->noteTrouble().startsWith(QStringLiteral("The track 'broken' is missing: ")))
        << window_.page()->noteTrouble().toStdString();
}

TEST_F(WindowTracks, StayWhenTheFileIsReadAgainAndGoToPages) {
    add(slow_, QStringLiteral("slow"));
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().reload();
    ASSERT_TRUE(loaded.wait(kPatience));
    ASSERT_NE(tracks(), nullptr);
    ASSERT_TRUE(QTest::qWaitFor([this] { return tracks()->rows.size() == 2; }, kPatience)) << "and are there once";
    settle();
    const QByteArray page = timelinePageData(pageSceneOf(*window_.page(), Theme::light));
    EXPECT_TRUE(page.contains("slow, lane 0"));
}
}  // namespace
}  // namespace pipescope
