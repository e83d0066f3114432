#include "gui/window/context_menus.h"

#include "gui/style/legend.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/track_view.h"
#include "gui/window/page_model.h"
#include "gui/window/search_bar.h"
#include "gui/window/step_strip.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QAction>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QDockWidget>
#include <QLineEdit>
#include <QMenu>
#include <QTableView>
#include <QTimer>

#include <functional>

namespace pipescope {
namespace {
QString asShown(QString text) {
    return text.remove(QLatin1Char('&')).remove(QChar(0x2026));
}

class ContextMenuTest : public MainWindowTest {
protected:
    /// The entries of the menu that `open` opens, with those disabled in brackets. Chooses the one named, if any.
    QStringList entriesOf(const std::function<void()>& open, const QString& choose = {}) {
        QStringList entries;
        QTimer poll;
        connect(poll, [&] {
            auto* menu = qobject_cast<QMenu*>(QApplication::activePopupWidget());
            if (menu == nullptr) {
                return;
            }
            poll.stop();
            QAction* chosen = nullptr;
            for (QAction* action : menu->actions()) {
                const QString text = asShown(action->text());
                if (!action->isSeparator()) {
                    entries << (action->isEnabled() ? text : QStringLiteral("[%1]").arg(text));
                }
                chosen = !choose.isEmpty() && text == choose ? action : chosen;
            }
            menu->close();
            if (chosen != nullptr) {
                chosen->trigger();
            }
        });
        open();
        poll.stop();
        return entries;
    }
    QStringList entriesAt(QWidget& widget, const QPoint& at, const QString& choose = {}) {
        return entriesOf(
            [&] {
                QContextMenuEvent event(QContextMenuEvent::Mouse, at, widget.mapToGlobal(at));
                QApplication::sendEvent(&widget, &event);
            },
            choose);
    }
    QTableView& table(const char* dock) {
        auto* found = window_.findChild<QDockWidget*>(QString::fromLatin1(dock));
        found->show();
        found->raise();
        settle();
        return *found->findChild<QTableView*>();
    }
    TimeAxisModel& axis() { return window_.page()->axis(); }

private:
    static void connect(QTimer& timer, const std::function<void()>& run) {
        QObject::connect(&timer, &QTimer::timeout, run);
        timer.start(0);
    }
};

TEST_F(ContextMenuTest, OfATimelineActsOnWhatWasClicked) {
    open("context.sqlite");
    window_.page()->navigation().goTo(Source::measured, task_);
    axis().select(std::nullopt);
    const QPoint at = measured().rectOf(slice(Source::measured, task_)).center().toPoint();
    const QStringList entries =
        entriesAt(*measured().viewport(), at, QStringLiteral("Collapse or expand the selected lane"));
    ASSERT_TRUE(axis().selection());
    EXPECT_EQ(axis().selection()->slice, slice(Source::measured, task_));
    for (const char* entry :
         {"Export this chart", "Fit the selection, or the step", "Zoom in", "Back",
          "Next task of the kind, or bubble of the cause", "Pin the selected lane to the top, or unpin it",
          "Mark this place", "Annotate the range"}) {
        EXPECT_TRUE(entries.contains(QString::fromLatin1(entry)))
            << entry << " in " << entries.join(u';').toStdString();
    }
    EXPECT_TRUE(entries.contains(QStringLiteral("[Forward]"))) << "there is nothing to go forward to";
    const std::optional<LaneId> lane = window_.page()->model().selectedLane();
    ASSERT_TRUE(lane);
    EXPECT_TRUE(window_.page()->model().arrangement().collapsed.contains(*lane));
    // Without a lane, nothing acts on one.
    axis().showAll();
    const QStringList free = entriesAt(*measured().viewport(), {measured().viewport()->width() - 2, 2});
    EXPECT_TRUE(free.contains(QStringLiteral("[Collapse or expand the selected lane]")))
        << free.join(u';').toStdString();
    EXPECT_TRUE(free.contains(QStringLiteral("[Zoom out]")) && free.contains(QStringLiteral("[Show all]")));
}

TEST_F(ContextMenuTest, OfATaskFindsHidesMeasuresAndCopies) {
    open("context_task.sqlite");
    window_.page()->navigation().goTo(Source::measured, task_);
    const QPoint at = measured().rectOf(slice(Source::measured, task_)).center().toPoint();
    const QStringList entries = entriesAt(*measured().viewport(), at, QStringLiteral("Measure the selection"));
    EXPECT_TRUE(entries.contains(QStringLiteral("Compare with"))) << entries.join(u';').toStdString();
    const Slice task = window_.files().document()->measured->slice(slice(Source::measured, task_));
    ASSERT_TRUE(axis().range());
    EXPECT_EQ(axis().range()->start, task.start.count());
    EXPECT_EQ(axis().range()->length(), task.duration().count());
    entriesAt(*measured().viewport(), at, QStringLiteral("Copy the description"));
    EXPECT_TRUE(QApplication::clipboard()->text().startsWith(QStringLiteral("backward of micro-batch 2")))
        << QApplication::clipboard()->text().toStdString();
    entriesAt(*measured().viewport(), at, QStringLiteral("Find the same tasks"));
    EXPECT_EQ(window_.search().field().text(), QStringLiteral("backward partition 1"));
    entriesAt(*measured().viewport(), at, QStringLiteral("Hide tasks of this kind"));
    EXPECT_TRUE(contains(window_.page()->model().choice().hiddenKinds, TaskKind::backward));
}

TEST_F(ContextMenuTest, OfATableCopiesItsRowAndExports) {
    open("context_table.sqlite");
    QTableView& lanes = table("lanes");
    lanes.setCurrentIndex({});
    EXPECT_EQ(entriesAt(*lanes.viewport(), {2, 2}),
              (QStringList{QStringLiteral("Export this table"), QStringLiteral("[Copy the row]")}));
    lanes.selectRow(1);
    QApplication::clipboard()->clear();
    entriesAt(*lanes.viewport(), lanes.visualRect(lanes.model()->index(1, 0)).center(), QStringLiteral("Copy the row"));
    const QStringList cells = QApplication::clipboard()->text().split(QLatin1Char('\t'));
    EXPECT_EQ(cells.size(), lanes.model()->columnCount());
    EXPECT_EQ(cells.front(), lanes.model()->index(1, 0).data().toString());
    // There is no second timeline whose tasks could lack a twin: nothing to copy, but the empty table can be written.
    EXPECT_TRUE(entriesAt(*table("unmatched").viewport(), {2, 2}).contains(QStringLiteral("[Copy the row]")));
}

TEST_F(ContextMenuTest, OfTheStripAndTheLegendActOnThem) {
    SampleRun run;
    run.steps = 6;
    open("context_strip.sqlite", run);
    StepStrip& strip = window_.page()->stepStrip();
    const std::int32_t slowest = strip.history().steps[*strip.history().slowest].step;
    const QStringList entries = entriesAt(strip, strip.rect().center(), QStringLiteral("Slowest step"));
    EXPECT_TRUE(entries.contains(QStringLiteral("Next step"))) << entries.join(u';').toStdString();
    EXPECT_EQ(window_.page()->model().step(), slowest);
    auto& legend = *window_.page()->findChild<Legend*>();
    EXPECT_TRUE(entriesAt(legend, {2, 2}).contains(QStringLiteral("[Show all kinds]")));
    Q_EMIT legend.kindClicked(TaskKind::forward, false);
    EXPECT_TRUE(entriesAt(legend, {2, 2}, QStringLiteral("Show all kinds")).contains(QStringLiteral("Show all kinds")));
    EXPECT_TRUE(window_.page()->model().choice().hiddenKinds.none());
    EXPECT_FALSE(entriesAt(window_.page()->minimap(), {200, 5}).isEmpty());
}

TEST_F(ContextMenuTest, OpensByKeyForWhatHasTheFocus) {
    open("context_key.sqlite");
    for (QWidget* each : {static_cast<QWidget*>(&measured()), static_cast<QWidget*>(&table("lanes")),
                          static_cast<QWidget*>(&window_.page()->stepStrip())}) {
        activate();  // the menu before was a window
        each->setFocus();
        ASSERT_EQ(window_.focusWidget(), each) << each->metaObject()->className();
        EXPECT_FALSE(entriesOf([&] { QTest::keyClick(each, Qt::Key_F10, Qt::ShiftModifier); }).isEmpty())
            << each->metaObject()->className();
    }
}
}  // namespace
}  // namespace pipescope
