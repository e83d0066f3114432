#include "gui/plan/plan_view.h"
#include "gui/style/message_bar.h"
#include "gui/tables/filtered_table.h"
#include "gui/what_if/balance_bar.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/scenario_tools.h"
#include "gui/window/search_bar.h"
#include "gui/window/shortcut_overlay.h"
#include "tests/gui/window/dialog_answer.h"
#include "tests/gui/window/main_window_fixture.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <QClipboard>
#include <QDialog>
#include <QDockWidget>
#include <QDoubleSpinBox>
#include <QInputDialog>
#include <QLineEdit>
#include <QMap>
#include <QMenuBar>
#include <QScrollBar>
#include <QTableView>
#include <QTest>
#include <QUndoStack>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

/// Presses every key listed under "?" in a state in which its effect is visible. Fails for a listed key without effect,
/// and for a listed key unknown to this test.
class WindowKeys : public MainWindowTest {
protected:
    /// The preparation, and the check whether the key had its effect.
    struct Case {
        std::function<void()> prepare;
        std::function<bool()> acted;
    };

    void SetUp() override {
        MainWindowTest::SetUp();
        QGuiApplication::setQuitOnLastWindowClosed(false);  // Ctrl+Q is one of the keys
        SampleRun run;
        run.partitions = 6;
        const auto path = temporaryPath("keys.sqlite");
        writeSampleTrace(path, run);
        nameProcesses(path);
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        tools().model().setPatience(1h);
        window_.resize(1300, 520);
        scrollLanes();
        settle();
    }

    /// Names lanes as in a merged trace of two processes.
    static void nameProcesses(const std::filesystem::path& path) {
        SQLite::Database database(path.string(), SQLite::OPEN_READWRITE);
        for (int lane = 0; lane < 6; ++lane) {
            const std::string name = "lane " + std::to_string(lane);
            SQLite::Statement change(database, "UPDATE PIPESCOPE_RUN SET value = replace(value, ?, ?)");
            change.bind(1, '"' + name + '"');
            change.bind(2, '"' + name + (lane < 3 ? " (rank 0, host a)\"" : " (rank 1, host b)\""));
            change.exec();
        }
    }
    /// Makes lanes so high that they scroll.
    void scrollLanes() {
        LaneArrangement arrangement;
        arrangement.rowHeight = 60;
        window_.page()->model().setArrangement(arrangement);
    }
    LaneArrangement arrangement() { return window_.page()->model().arrangement(); }
    /// An action on a lane, whose arrangement must change.
    Case arranges(std::function<bool()> acted) {
        return {[this] {
                    scrollLanes();
                    selectTask();
                },
                std::move(acted)};
    }

    ScenarioTools& tools() { return *window_.scenarios().tools(); }
    ScenarioModel& model() { return tools().model(); }
    TimeAxisModel& axis() { return window_.page()->axis(); }
    QDockWidget& dock(const char* name) { return *window_.findChild<QDockWidget*>(QString::fromLatin1(name)); }
    QScrollBar& bar() { return *measured().verticalScrollBar(); }

    /// Shows the middle half of the recording, so that there is room on both sides.
    void showMiddle() {
        const TimeRange total = axis().total();
        axis().show({total.start + total.length() / 4, total.end - total.length() / 4});
        measured().setFocus();
        axis().setCursor(std::nullopt);
        before_ = axis().window();
    }

    void selectTask() {
        window_.page()->model().select(Source::measured, slice(Source::measured, task_));
        measured().setFocus();
        selected_ = axis().selection()->slice;
    }

    bool selectedAnother() { return axis().selection() && axis().selection()->slice != selected_; }
    const TaskKey selectedKey() { return window_.files().document()->measured->slice(axis().selection()->slice).key; }

    Case moves(std::function<bool(const TimeWindow& now)> as) {
        return {[this] { showMiddle(); }, [this, as] { return as(axis().window()); }};
    }
    Case compares(CompareMode mode) {
        return {[this, mode] {
                    MarkChoice other;
                    other.mode = mode == CompareMode::overlay ? CompareMode::difference : CompareMode::overlay;
                    window_.page()->model().setChoice(other);
                    measured().setFocus();
                },
                [this, mode] { return window_.page()->model().choice().mode == mode; }};
    }
    Case toggles(bool MarkChoice::*choice) {
        return {[this, choice] {
                    was_ = window_.page()->model().choice().*choice;
                    measured().setFocus();
                },
                [this, choice] { return window_.page()->model().choice().*choice != was_; }};
    }
    Case asks(const char* proposed) {
        return {[this] {
                    measured().setFocus();
                    dialog_ = std::make_unique<DialogAnswer>();
                },
                [this, proposed] { return dialog_->answered() && dialog_->proposed() == QLatin1String(proposed); }};
    }
    Case bringsUp(const char* name) {
        return {[this, name] { dock(name).hide(); }, [this, name] { return dock(name).isVisible(); }};
    }
    Case finds() {
        return {[this] {
                    window_.search().start();
                    QSignalSpy searched(&window_.search(), &SearchBar::searched);
                    window_.search().field().setText(QStringLiteral("forward") + QString(++count_, QLatin1Char(' ')));
                    ASSERT_TRUE(searched.wait(kPatience));
                    measured().setFocus();
                    ASSERT_TRUE(axis().selection());
                    selected_ = axis().selection()->slice;
                },
                [this] { return selectedAnother(); }};
    }
    Case opensSearch() {
        return {[this] {
                    window_.search().hide();
                    measured().setFocus();
                },
                [this] { return window_.search().isVisible() && window_.search().field().hasFocus(); }};
    }
    Case goesToMark(int by) {
        return {[this, by] {
                    showMiddle();
                    const TimeRange total = axis().total();
                    axis().setMarks({{by > 0 ? total.end - 1000 : total.start + 1000, {}}});
                },
                [this] {
                    const std::int64_t at = axis().marks().front().time;
                    const double from = static_cast<double>(at - axis().window().start);
                    return from >= 0 && from <= axis().window().length;
                }};
    }
    Case plays(std::function<void()> prepare, std::function<bool()> acted) {
        return {[this, prepare] {
                    model().backToRecorded();
                    measured().setFocus();
                    prepare();
                },
                acted};
    }

    QMap<QString, Case> menuCases();
    void addScenarioCases(QMap<QString, Case>& cases);
    QMap<QString, Case> viewCases();

    void press(const QString& keys) {
        const QKeySequence sequence = QKeySequence::fromString(keys, QKeySequence::NativeText);
        ASSERT_EQ(sequence.count(), 1) << keys.toStdString();
        QWidget* const focused = QApplication::focusWidget() != nullptr ? QApplication::focusWidget() : &window_;
        QTest::keyClick(focused, sequence[0].key(), sequence[0].keyboardModifiers());
        settle();
    }

    void check(const QString& keys, const Case& each, const std::function<void()>& act) {
        SCOPED_TRACE(keys.toStdString());
        ASSERT_NO_FATAL_FAILURE(activate());
        ASSERT_NO_FATAL_FAILURE(each.prepare());
        settle();
        EXPECT_FALSE(each.acted()) << "there is nothing to see in this state";
        act();
        EXPECT_TRUE(QTest::qWaitFor([&] { return each.acted(); }, kPatience));
        dialog_.reset();
    }

    TimeWindow before_;
    std::int64_t at_ = 0;
    SliceRef selected_;
    bool was_ = false;
    int count_ = 0;
    std::unique_ptr<DialogAnswer> dialog_;
    std::unique_ptr<QSignalSpy> spy_;
};

QMap<QString, WindowKeys::Case> WindowKeys::menuCases() {
    const auto text = [](const char* words) { return QString::fromUtf8(words); };
    const auto focusAndSelect = [this] { selectTask(); };
    QMap<QString, Case> cases;
    cases[text("Open")] = asks("");
    cases[text("Open a folder")] = {[this] {
                                        measured().setFocus();
                                        dialog_ = std::make_unique<DialogAnswer>();
                                    },
                                    [this] { return dialog_->answered(); }};
    cases[text("Reload")] = {[this] { spy_ = std::make_unique<QSignalSpy>(&window_.files(), &FileTabs::loaded); },
                             [this] { return !spy_->isEmpty(); }};
    cases[text("Interactive page")] = asks("timeline.html");
    cases[text("Copy the tab as an image")] = {[] { QApplication::clipboard()->clear(); },
                                               [] { return !QApplication::clipboard()->image().isNull(); }};
    cases[text("The table or chart with the focus")] = asks("measured.png");
    cases[text("Image of the tab")] = asks("pipescope.png");
    cases[text("Close tab")] = {[this] {
                                    if (window_.files().pages().size() == 1) {
                                        open("another.sqlite");
                                    }
                                    count_ = static_cast<int>(window_.files().pages().size());
                                },
                                [this] { return window_.files().pages().size() == count_ - 1; }};
    cases[text("Quit")] = {[this] { window_.show(); }, [this] { return !window_.isVisible(); }};
    cases[text("Fit the selection, or the step")] = {
        [this] {
            selectTask();
            axis().showAll();
        },
        [this] { return measured().rectOf(selected_).width() > measured().lanesRect().width() / 5; }};
    cases[text("Show all")] = moves([this](const TimeWindow& now) { return now == windowOf(axis().total()); });
    cases[text("Zoom in")] = moves([this](const TimeWindow& now) { return now.length < before_.length * 0.8; });
    cases[text("Zoom out")] = moves([this](const TimeWindow& now) { return now.length > before_.length * 1.2; });
    cases[text("Move left")] = moves([this](const TimeWindow& now) { return now.start < before_.start; });
    cases[text("Move right")] = moves([this](const TimeWindow& now) { return now.start > before_.start; });
    cases[text("Move left by half")] = moves([this](const TimeWindow& now) {
        return now.start < before_.start - static_cast<std::int64_t>(before_.length * 0.45);
    });
    cases[text("Move right by half")] = moves([this](const TimeWindow& now) {
        return now.start > before_.start + static_cast<std::int64_t>(before_.length * 0.45);
    });
    for (const auto& [words, by] : {std::pair{"Move the cursor left", -1}, {"Move the cursor right", 1}}) {
        cases[text(words)] = {[this] {
                                  showMiddle();
                                  at_ = axis().window().start + static_cast<std::int64_t>(axis().window().length / 2);
                                  axis().setCursor(at_);
                              },
                              [this, by = by] {
                                  const std::int64_t now = axis().cursor().value_or(at_);
                                  return by > 0 ? now > at_ : now < at_;
                              }};
    }
    cases[text("Back")] = {[this] {
                               showMiddle();
                               axis().showAll();
                           },
                           [this] { return axis().window() == before_; }};
    cases[text("Forward")] = {[this] {
                                  axis().showAll();
                                  showMiddle();
                                  axis().goBack();
                              },
                              [this] { return axis().window() == before_; }};
    cases[text("Fit all lanes")] = arranges([this] { return !arrangement().rowHeight; });
    cases[text("Higher lanes")] = arranges([this] { return arrangement().rowHeight > 60; });
    cases[text("Lower lanes")] = arranges([this] { return arrangement().rowHeight < 60; });
    cases[text("Collapse or expand the selected lane")] =
        arranges([this] { return arrangement().collapsed.contains(LaneId{task_.partition}); });
    cases[text("Pin the selected lane to the top, or unpin it")] =
        arranges([this] { return arrangement().pinned.contains(LaneId{task_.partition}); });
    cases[text("Move the selected lane up")] =
        arranges([this] { return !arrangement().order.empty() && arrangement().order[0] == LaneId{task_.partition}; });
    cases[text("Move the selected lane down")] =
        arranges([this] { return !arrangement().order.empty() && arrangement().order[2] == LaneId{task_.partition}; });
    cases[text("Group lanes by process or host")] = {[this] {
                                                         scrollLanes();
                                                         measured().setFocus();
                                                     },
                                                     [this] { return arrangement().grouped; }};
    cases[text("Collapse or expand the group of the selected lane")] = {
        [this] {
            scrollLanes();
            window_.page()->lanes().toggleGrouping();
            window_.page()->model().selectLane(Source::measured, LaneId{1});
            measured().setFocus();
        },
        [this] { return !arrangement().collapsedGroups.empty(); }};
    cases[text("Side by side")] = compares(CompareMode::side_by_side);
    cases[text("Overlay")] = compares(CompareMode::overlay);
    cases[text("Difference")] = compares(CompareMode::difference);
    cases[text("Causes of bubbles")] = toggles(&MarkChoice::causes);
    cases[text("Critical path")] = toggles(&MarkChoice::criticalPath);
    cases[text("Show all kinds")] = {[this] {
                                         MarkChoice choice = window_.page()->model().choice();
                                         choice.hiddenKinds.set();
                                         window_.page()->model().setChoice(choice);
                                         measured().setFocus();
                                     },
                                     [this] { return window_.page()->model().choice().hiddenKinds.none(); }};
    cases[text("Find")] = opensSearch();
    cases[text("Find from the timeline")] = opensSearch();
    cases[text("Next hit")] = finds();
    cases[text("Previous hit")] = finds();
    for (const char* walk : {"Next task or bubble of the lane", "Previous task or bubble of the lane"}) {
        cases[text(walk)] = {focusAndSelect, [this] { return selectedAnother(); }};
    }
    for (const char* walk :
         {"Next task of the kind, or bubble of the cause", "Previous task of the kind, or bubble of the cause"}) {
        cases[text(walk)] = {focusAndSelect, [this] { return selectedAnother() && selectedKey().kind == task_.kind; }};
    }
    cases[text("Clear the selection")] = {focusAndSelect, [this] { return !axis().selection(); }};
    cases[text("Begin or end a measured range")] = {[this] {
                                                        showMiddle();
                                                        axis().setRange(std::nullopt);
                                                        axis().setCursor(axis().total().start + 1'000'000);
                                                    },
                                                    [this] { return axis().range().has_value(); }};
    cases[text("Mark this place")] = {[this] {
                                          showMiddle();
                                          axis().setMarks({});
                                      },
                                      [this] { return axis().marks().size() == 1; }};
    cases[text("Annotate the range")] = {[this] {
                                             for (auto* asked : window_.findChildren<QInputDialog*>()) {
                                                 delete asked;
                                             }
                                             selectTask();
                                         },
                                         [this] { return window_.findChild<QInputDialog*>() != nullptr; }};
    for (const int by : {1, -1}) {
        cases[text(by > 0 ? "Next step" : "Previous step")] = {
            [this] {
                window_.page()->model().selectStep(1);
                measured().setFocus();
            },
            [this, by] { return window_.page()->model().step() == 1 + by; }};
    }
    cases[text("Next mark")] = goesToMark(1);
    cases[text("Previous mark")] = goesToMark(-1);
    cases[text("Find a command")] = {[this] { delete window_.findChild<QDialog*>(QStringLiteral("palette")); },
                                     [this] {
                                         auto* palette = window_.findChild<QDialog*>(QStringLiteral("palette"));
                                         return palette != nullptr && palette->isVisible();
                                     }};
    cases[text("Shortcuts")] = {[this] {
                                    for (auto* open : window_.findChildren<QDialog*>(QStringLiteral("shortcuts"))) {
                                        delete open;
                                    }
                                    measured().setFocus();
                                },
                                [this] {
                                    auto* list = window_.findChild<QDialog*>(QStringLiteral("shortcuts"));
                                    return list != nullptr && list->isVisible();
                                }};
    addScenarioCases(cases);
    return cases;
}

void WindowKeys::addScenarioCases(QMap<QString, Case>& cases) {
    const auto text = [](const char* words) { return QString::fromUtf8(words); };
    const auto changeBatch = [this] { tools().panel().batch().box().setValue(24); };
    const auto batch = [this] { return model().scenario().options.batch; };
    cases[text("Undo")] = plays(changeBatch, [batch] { return batch() != 24; });
    cases[text("Redo")] = plays(
        [this, changeBatch] {
            changeBatch();
            model().undoStack().undo();
        },
        [batch] { return batch() == 24; });
    cases[text("What-if panel")] = bringsUp("whatIf");
    cases[text("What to change")] = bringsUp("advice");
    cases[text("Balance editor")] = bringsUp("balance");
    cases[text("Scenarios side by side")] = bringsUp("scenarios");
    cases[text("Plan")] = bringsUp("plan");
    cases[text("Optimal balance")] = plays(
        [this] {
            Scenario uneven = model().scenario();
            uneven.options.balance = Balance({5, 1});
            model().change(uneven, QStringLiteral("balance"));
        },
        [this] { return model().scenario().options.balance.layers_per_partition().front() < 5; });
    cases[text("Pin this scenario")] =
        plays([this] { tools().pins().clear(); }, [this] { return tools().pins().scenarios().size() == 1; });
    for (const char* move : {"Move the task earlier in its lane", "Move the task later in its lane"}) {
        cases[text(move)] = plays(
            [this] {
                ASSERT_TRUE(QTest::qWaitFor([this] { return !model().isBehind(); }, kPatience));
                window_.page()->navigation().goTo(Source::simulated, {0, TaskKind::forward, 0, 1, -1});
            },
            [this] { return model().scenario().options.schedule.file() != nullptr; });
    }
    cases[text("Back to as recorded")] = plays(changeBatch, [this] { return model().isAsRecorded(); });
}

QMap<QString, WindowKeys::Case> WindowKeys::viewCases() {
    const auto scrolls = [this](int from, bool down) {
        return Case{[this, from] {
                        measured().setFocus();
                        bar().setValue(from < 0 ? bar().maximum() : from);
                        count_ = bar().value();
                    },
                    [this, down] { return down ? bar().value() > count_ : bar().value() < count_; }};
    };
    QMap<QString, Case> cases;
    cases[QStringLiteral("←")] = moves([this](const TimeWindow& now) { return now.start < before_.start; });
    cases[QStringLiteral("→")] = moves([this](const TimeWindow& now) { return now.start > before_.start; });
    cases[QStringLiteral("↑")] = scrolls(-1, false);
    cases[QStringLiteral("↓")] = scrolls(0, true);
    cases[QStringLiteral("Page up")] = scrolls(-1, false);
    cases[QStringLiteral("Page down")] = scrolls(0, true);
    return cases;
}

TEST_F(WindowKeys, OfTheListEachDoWhatItSays) {
    const QMap<QString, Case> cases = menuCases();
    int pressed = 0;
    for (const ShortcutLine& line : shortcutLines(*window_.menuBar())) {
        if (line.group == QStringLiteral("In a timeline")) {
            continue;
        }
        ASSERT_TRUE(cases.contains(line.what)) << line.what.toStdString();
        for (const QString& keys : line.keys.split(QStringLiteral(", "))) {
            check(line.what + QStringLiteral(": ") + keys, cases[line.what], [&] { press(keys); });
            window_.show();
            for (auto* dialog : window_.findChildren<QDialog*>()) {
                dialog->close();
            }
            settle();
            ++pressed;
        }
    }
    EXPECT_GT(pressed, 50);
}

TEST_F(WindowKeys, OfTimelinesMoveAndScroll) {
    ASSERT_GT(bar().maximum(), 0) << "all lanes are in view";
    const QMap<QString, Case> cases = viewCases();
    const QMap<QString, Qt::Key> keys{
        {QStringLiteral("←"), Qt::Key_Left},         {QStringLiteral("→"), Qt::Key_Right},
        {QStringLiteral("↑"), Qt::Key_Up},           {QStringLiteral("↓"), Qt::Key_Down},
        {QStringLiteral("Page up"), Qt::Key_PageUp}, {QStringLiteral("Page down"), Qt::Key_PageDown}};
    int pressed = 0;
    for (const ShortcutLine& line : shortcutLines(*window_.menuBar())) {
        for (const QString& name : line.keys.split(QStringLiteral(", "))) {
            if (line.group != QStringLiteral("In a timeline") || !keys.contains(name)) {
                continue;
            }
            check(name, cases[name], [&] { QTest::keyClick(&measured(), keys[name]); });
            ++pressed;
        }
    }
    EXPECT_EQ(pressed, keys.size());
    // Faster with Shift.
    showMiddle();
    QTest::keyClick(&measured(), Qt::Key_Right);
    const std::int64_t step = axis().window().start - before_.start;
    QTest::keyClick(&measured(), Qt::Key_Right, Qt::ShiftModifier);
    EXPECT_GT(axis().window().start - before_.start, 3 * step);
}

TEST_F(WindowKeys, OfTimelinesAreLettersWhereOneTypes) {
    window_.search().start();
    const TimeWindow before = axis().window();
    QTest::keyClicks(&window_.search().field(), QStringLiteral("was dfmnp/"));
    EXPECT_EQ(window_.search().field().text(), QStringLiteral("was dfmnp/"));
    EXPECT_EQ(axis().window(), before);
    EXPECT_TRUE(axis().marks().empty());
}

TEST_F(WindowKeys, ActFromATableToo) {
    activate();
    dock("lanes").raise();
    settle();
    QTableView& table = window_.tables().lanes().table();
    showMiddle();
    table.setFocus();
    table.selectRow(0);
    const TimeWindow before = axis().window();
    QTest::keyClick(&table, Qt::Key_W);
    EXPECT_LT(axis().window().length, before.length) << "zooms in";
    QTest::keyClick(&table, Qt::Key_3);
    EXPECT_EQ(window_.page()->model().choice().mode, CompareMode::difference);
    const TimeWindow zoomed = axis().window();
    QTest::keyClick(&table, Qt::Key_End);
    QTest::keyClick(&table, Qt::Key_Down);
    EXPECT_GT(table.currentIndex().row(), 0) << "a table keeps the keys that move in it";
    QTest::keyClick(&table, Qt::Key_Slash);
    EXPECT_FALSE(table.hasFocus()) << "the table's own filter";
    EXPECT_FALSE(window_.search().isVisible());
    QTest::keyClicks(QApplication::focusWidget(), QStringLiteral("sw3"));
    EXPECT_EQ(axis().window(), zoomed) << "a field for text keeps all letters";
}
}  // namespace
}  // namespace pipescope
