#include "tests/gui/window/main_window_fixture.h"

#include "gui/document/notes_file.h"
#include "gui/report/timeline_page.h"
#include "gui/style/message_bar.h"
#include "gui/what_if/scenario_model.h"
#include "gui/window/marks_panel.h"
#include "gui/window/scenario_tools.h"

#include <QDir>
#include <QFile>
#include <QInputDialog>
#include <QUndoStack>

#include <algorithm>

namespace pipescope {
namespace {
class WindowNotes : public MainWindowTest {
protected:
    void SetUp() override {
        MainWindowTest::SetUp();
        QFile::remove(notes());
        open(name());
    }
    static std::string name() {
        return std::string("notes_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".sqlite";
    }
    QString path() { return QString::fromStdString(temporaryPath(name()).string()); }
    QString notes() { return notesPathOf(path()); }
    TimeAxisModel& axis() { return window_.page()->axis(); }
    QUndoStack& undo() { return window_.scenarios().tools()->model().undoStack(); }
    TimeRange firstTask() {
        const Slice first = window_.files().document()->measured->slice({0, 0});
        return {first.start.count(), first.end.count()};
    }
};

TEST_F(WindowNotes, AreAskedForAndKeptBesideTheTrace) {
    axis().setRange(firstTask());
    window_.page()->askForNote();
    auto* dialog = window_.page()->findChild<QInputDialog*>();
    ASSERT_NE(dialog, nullptr);
    dialog->setTextValue(QStringLiteral("warm-up"));
    dialog->accept();
    settle();
    ASSERT_EQ(readNotes(path()).size(), 1U);
    EXPECT_EQ(readNotes(path())[0].note, QStringLiteral("warm-up"));
    EXPECT_EQ(readNotes(path())[0].range(), firstTask());
    EXPECT_EQ(window_.tables().marks().model().rowCount(), 1);

    window_.files().closePage(window_.page());
    settle();
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(path());
    ASSERT_TRUE(loaded.wait(kPatience));
    settle();
    ASSERT_EQ(axis().marks().size(), 1U);
    EXPECT_EQ(axis().marks()[0].note, QStringLiteral("warm-up"));
}

TEST_F(WindowNotes, OnASelectionHaveItsRangeWithoutItsTwin) {
    const Slice recorded = window_.files().document()->measured->slice(slice(Source::measured, task_));
    const Slice predicted = window_.files().document()->simulated->slice(slice(Source::simulated, twin_));
    const std::int64_t shift = simulated().shift();
    ASSERT_NE(predicted.end.count() + shift, recorded.end.count());
    for (const Source source : {Source::measured, Source::simulated}) {
        window_.page()->model().select(source, slice(source, source == Source::measured ? task_ : twin_));
        ASSERT_TRUE(axis().selection()->twin);
        const Slice& selected = source == Source::measured ? recorded : predicted;
        const std::int64_t moved = source == Source::measured ? 0 : shift;
        EXPECT_EQ(window_.page()->navigation().selectedRange(),
                  (TimeRange{selected.start.count() + moved, selected.end.count() + moved}));
    }
    window_.page()->askForNote();
    auto* dialog = window_.page()->findChild<QInputDialog*>();
    ASSERT_NE(dialog, nullptr);
    dialog->setTextValue(QStringLiteral("slow"));
    dialog->accept();
    settle();
    ASSERT_EQ(readNotes(path()).size(), 1U);
    EXPECT_EQ(readNotes(path())[0].length, (predicted.end - predicted.start).count());
}

TEST_F(WindowNotes, AreUndoneAndRedoneInTheFileToo) {
    window_.page()->notes().annotate(firstTask(), QStringLiteral("first"));
    window_.page()->navigation().addMark();
    window_.tables().marks().model().setData(window_.tables().marks().model().index(0, MarksModel::note),
                                             QStringLiteral("better"));
    EXPECT_EQ(readNotes(path())[0].note, QStringLiteral("better"));
    undo().undo();
    EXPECT_EQ(readNotes(path())[0].note, QStringLiteral("first"));
    undo().undo();
    EXPECT_EQ(axis().marks().size(), 1U) << "the mark is gone, the note stays";
    undo().undo();
    EXPECT_TRUE(axis().marks().empty());
    EXPECT_FALSE(QFile::exists(notes()));
    undo().redo();
    EXPECT_EQ(readNotes(path())[0].note, QStringLiteral("first"));
}

TEST_F(WindowNotes, OfAnotherViewerStayInTheFileAndAreShown) {
    const auto texts = [](const std::vector<TimeMark>& marks) {
        std::vector<std::string> all;
        for (const TimeMark& mark : marks) {
            all.push_back(mark.note.toStdString());
        }
        std::sort(all.begin(), all.end());
        return all;
    };
    using Texts = std::vector<std::string>;
    PageNotes& page = window_.page()->notes();
    page.annotate(firstTask(), QStringLiteral("a, ours"));
    std::vector<TimeMark> theirs = readNotes(path());
    theirs.push_back({5, QStringLiteral("b, theirs"), 10});
    writeNotes(path(), theirs);

    page.annotate(firstTask(), QStringLiteral("c, ours"));
    EXPECT_EQ(texts(readNotes(path())), (Texts{"a, ours", "b, theirs", "c, ours"}));
    EXPECT_EQ(texts(axis().marks()), (Texts{"a, ours", "b, theirs", "c, ours"}));
    undo().undo();
    undo().undo();
    EXPECT_EQ(texts(readNotes(path())), (Texts{"b, theirs"}));
    undo().redo();
    writeNotes(path(), {{7, QStringLiteral("d, theirs"), 10}});  // removed ours
    undo().undo();
    EXPECT_EQ(texts(readNotes(path())), (Texts{"d, theirs"}));
    EXPECT_EQ(texts(axis().marks()), (Texts{"d, theirs"}));
}

TEST_F(WindowNotes, StandInALineBelowTheRulerWhereAClickMeasuresThem) {
    const int before = measured().lanesRect().top();
    window_.page()->notes().annotate(firstTask(), QStringLiteral("first"));
    axis().show({firstTask().start - firstTask().length(), firstTask().end + firstTask().length()});
    settle();
    EXPECT_GT(measured().lanesRect().top(), before);
    const QRectF note = measured().noteRects().at(0);
    EXPECT_NEAR(note.left(), measured().pixelAtTime(firstTask().start), 1);
    EXPECT_NEAR(note.right(), measured().pixelAtTime(firstTask().end), 1);
    EXPECT_EQ(pixel(measured(), note.topRight().toPoint() + QPoint(-2, 2)),
              measured().palette().color(QPalette::Highlight));
    QTest::mouseClick(measured().viewport(), Qt::LeftButton, {}, note.center().toPoint());
    EXPECT_EQ(axis().range(), firstTask());
    window_.tables().marks().model().remove(0);
    settle();
    EXPECT_EQ(measured().lanesRect().top(), before);
}

TEST_F(WindowNotes, AreOnInteractivePages) {
    window_.page()->notes().annotate(firstTask(), QStringLiteral("</script><b>first"));
    axis().showAll();
    const QByteArray page = timelinePageHtml(pageSceneOf(*window_.page(), Theme::light));
    EXPECT_TRUE(page.contains("\"rangeNotes\":[["));
    EXPECT_FALSE(page.contains("</script><b>first"));
}

TEST_F(WindowNotes, OfADamagedFileAreReportedAndTheFileIsKept) {
    window_.files().closePage(window_.page());
    settle();
    const QByteArray text("{\"format\": \"pipescope.no");
    {
        QFile file(notes());
        ASSERT_TRUE(file.open(QIODevice::WriteOnly));
        file.write(text);
    }
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(path());
    ASSERT_TRUE(loaded.wait(kPatience));
    settle();
    EXPECT_TRUE(window_.page()->messages().text().contains(QStringLiteral("notes.json")))
        << window_.page()->messages().text().toStdString();
    EXPECT_TRUE(pageSceneOf(*window_.page(), Theme::light).noteTrouble.contains(QStringLiteral("notes.json")));
    window_.page()->messages().hide();
    window_.page()->notes().annotate(firstTask(), QStringLiteral("lasts for the session"));
    EXPECT_TRUE(window_.page()->messages().isVisible()) << "the note is not saved, which is said again";
    EXPECT_EQ(axis().marks().size(), 1U);
    QFile file(notes());
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_EQ(file.readAll(), text);
}
TEST_F(WindowNotes, ThatCannotBeSavedAreAnErrorAboveAllOtherMessages) {
    QDir().mkpath(notes());  // a folder stands where the file would be
    testing::internal::CaptureStderr();
    window_.page()->notes().annotate(firstTask(), QStringLiteral("lost"));
    EXPECT_TRUE(QString::fromStdString(testing::internal::GetCapturedStderr()).contains(QStringLiteral("notes.json")));
    const MessageBar& bar = window_.page()->messages();
    EXPECT_TRUE(bar.isVisible());
    EXPECT_EQ(bar.accessibleName(), QStringLiteral("Error"));
    EXPECT_TRUE(bar.text().section(u'\n', 0, 0).contains(QStringLiteral("notes.json"))) << bar.text().toStdString();
    QDir(notes()).removeRecursively();
    window_.page()->notes().annotate(firstTask(), QStringLiteral("kept"));
    EXPECT_TRUE(!bar.isVisible() || bar.accessibleName() != QLatin1String("Error")) << bar.text().toStdString();
    EXPECT_EQ(readNotes(path()).size(), 2U);
}
}  // namespace
}  // namespace pipescope
