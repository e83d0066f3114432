#include "gui/style/number_format.h"
#include "gui/tables/selection_panel.h"
#include "gui/timeline/timeline_view.h"
#include "gui/window/session_state.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QAction>
#include <QDateTime>
#include <QMenuBar>

namespace pipescope {
namespace {
class WindowTimes : public MainWindowTest {
protected:
    /// Triggers an entry of View > Times, as a user does.
    void choose(const QString& text) {
        for (QAction* action : window_.findChildren<QAction*>()) {
            if (action->text().remove(QLatin1Char('&')) == text) {
                action->trigger();
                settle();
                return;
            }
        }
        ADD_FAILURE() << "no entry " << text.toStdString();
    }
    void setEpoch(std::optional<std::int64_t> epoch) {
        auto document = std::make_shared<TraceDocument>(*window_.files().document());
        document->utcEpoch = epoch;
        window_.files().setDocument(document);
        settle();
    }
    QString startOfSelection() {
        for (const FactSection& section : window_.tables().selection().facts().sections) {
            for (const FactRow& row : section.rows) {
                if (row.name == QStringLiteral("Start")) {
                    return row.measured;
                }
            }
        }
        return {};
    }
};

TEST_F(WindowTimes, CountFromTheStepTheFileOrMidnight) {
    open("times.sqlite");
    window_.page()->model().selectStep(2);
    settle();
    const SliceRef task = *window_.files().document()->measured->find({2, TaskKind::backward, 1, 2, -1});
    const Slice found = window_.files().document()->measured->slice(task);
    const std::int64_t inFile = found.start.count();
    const std::int64_t inStep = inFile - window_.page()->axis().origin();
    const std::int64_t length = found.duration().count();
    ASSERT_NE(inFile, inStep);
    window_.page()->model().select(Source::measured, task);
    settle();
    const QString first = measured().rulerLabels().front().text;
    EXPECT_EQ(startOfSelection(), formatInstant(inStep, length));

    choose(QStringLiteral("Since the start of the file"));
    EXPECT_EQ(startOfSelection(), formatInstant(inFile, length));
    EXPECT_NE(measured().rulerLabels().front().text, first);
    EXPECT_EQ(simulated().rulerLabels().front().text, measured().rulerLabels().front().text);

    constexpr std::int64_t kEpoch = 1'790'857'026'123'456'789;
    setEpoch(kEpoch);
    window_.page()->model().select(Source::measured, window_.files().document()->measured->find(found.key));
    choose(QStringLiteral("Clock time"));
    const QString second =
        QDateTime::fromSecsSinceEpoch((kEpoch + inFile) / 1'000'000'000).toString(QStringLiteral("HH:mm:ss"));
    EXPECT_TRUE(startOfSelection().startsWith(second)) << startOfSelection().toStdString();
    EXPECT_TRUE(measured().rulerLabels().front().text.startsWith(QLatin1Char('+'))) << "since a second of the day";

    setEpoch(std::nullopt);
    window_.page()->model().select(Source::measured, window_.files().document()->measured->find(found.key));
    settle();
    EXPECT_EQ(startOfSelection(), formatInstant(inFile, length)) << "the recording does not say when it started";
    choose(QStringLiteral("Since the start of the step"));
    EXPECT_EQ(startOfSelection(), formatInstant(inStep, length));
}

TEST_F(WindowTimes, AreTheSameOnEveryPage) {
    open("times_first.sqlite");
    choose(QStringLiteral("Since the start of the file"));
    open("times_second.sqlite");
    for (const DocumentPage* page : window_.files().pages()) {
        EXPECT_EQ(page->axis().timeStyle(), TimeStyle::file);
    }
}
}  // namespace
}  // namespace pipescope
