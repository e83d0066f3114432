#include "gui/console/sql_console.h"
#include "gui/style/message_bar.h"
#include "gui/tables/difference_table_model.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/lane_table_model.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/task_details.h"
#include "gui/tables/task_table.h"
#include "gui/tables/unmatched_table_model.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/window/main_window.h"
#include "gui/window/marks_panel.h"
#include "gui/window/window_settings.h"

#include <QDockWidget>
#include <QFile>
#include <QSettings>
#include <QTimer>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kSliderRest = 150;     // ms
constexpr int kNarrowWindow = 1200;  // too narrow for anything beside a table
constexpr int kWideWindow = 2400;    // a third of it suffices for the widest panel, the plan

bool isDatabase(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) && file.read(15) == "SQLite format 3";
}
}  // namespace

void MainWindow::createDocks() {
    details_ = new TaskDetails(this);
    laneModel_ = new LaneTableModel(this);
    differenceModel_ = new DifferenceTableModel(this);
    addDock(tr("Selected task"), "details", details_);
    auto* lanes = new FilteredTable(*laneModel_, tr("Lanes"), tr("Open a trace to see what its lanes did."), this);
    addDock(tr("Lanes"), "lanes", lanes);
    connect(lanes, &FilteredTable::picked, this, [this](const QModelIndex& index) {
        page()->goToLane(LaneId{index.row()});  // the model has one row per lane, in order
    });
    auto* differences =
        new FilteredTable(*differenceModel_, tr("Largest differences"),
                          tr("No comparison: open a trace that has a measured and a simulated timeline."), this);
    addDock(tr("Largest differences"), "differences", differences);
    connect(differences, &FilteredTable::picked, this, [this](const QModelIndex& index) {
        if (const std::optional<TaskKey> task = differenceModel_->taskOf(index)) {
            page()->goTo(Source::measured, *task);
        }
    });
    connectTables();
    createTaskTables();
    createUnmatchedTable();
    createConsole();
    createScenarioDocks();
}

void MainWindow::createTaskTables() {
    tasks_ = new TaskTable(this);
    statistics_ = new StatisticsPanel(this);
    marks_ = new MarksPanel(this);
    addDock(tr("Tasks"), "tasks", tasks_);
    addDock(tr("Statistics"), "statistics", statistics_);
    addDock(tr("Marks"), "marks", marks_);
    const auto show = [this](Source source, SliceRef slice) {
        if (page() != nullptr) {
            page()->select(source, slice);
            page()->showSelection();
        }
    };
    connect(tasks_, &TaskTable::picked, this, show);
    connect(statistics_, &StatisticsPanel::picked, this, show);
    connect(tasks_, &TaskTable::failed, this, &MainWindow::showError);
    connect(statistics_, &StatisticsPanel::failed, this, &MainWindow::showError);
    connect(marks_, &MarksPanel::picked, this, [this](std::int64_t time) { page()->goToTime(time); });
    const auto refresh = [this] {
        const auto shown = page() != nullptr ? page()->document() : nullptr;
        tasks_->setDocument(shown, shown ? step() : 0);
        statistics_->setDocument(shown, shown ? &axis() : nullptr, shown ? step() : 0);
        marks_->setAxis(shown ? &axis() : nullptr);
    };
    connect(this, &MainWindow::pageChanged, this, refresh);
    connect(this, &MainWindow::stepChanged, this, refresh);
    // Rebuilds task lists when a slider rests, not at every move.
    auto* rest = new QTimer(this);
    rest->setSingleShot(true);
    rest->setInterval(kSliderRest);
    connect(rest, &QTimer::timeout, this, refresh);
    connect(this, &MainWindow::simulationChanged, rest, qOverload<>(&QTimer::start));
    connect(this, &MainWindow::selectionChanged, tasks_, [this] {
        const std::optional<TaskSelection>& selection = axis().selection();
        tasks_->select(selection ? selection->source : Source::measured,
                       selection ? std::optional(selection->slice) : std::nullopt);
    });
}

void MainWindow::createUnmatchedTable() {
    unmatched_ = new UnmatchedTableModel(this);
    auto* table = new FilteredTable(*unmatched_, tr("Unmatched tasks"), {}, this);
    addDock(tr("Unmatched"), "unmatched", table);
    connect(this, &MainWindow::pageChanged, this, &MainWindow::refreshUnmatched);
    connect(this, &MainWindow::pageChanged, table, [this, table] {
        const bool pair = document() != nullptr && document()->measured && document()->simulated;
        table->setEmptyText(pair ? tr("All tasks of this step have a twin.")
                                 : tr("Open a trace that has a measured and a simulated timeline to compare them."));
    });
    connect(this, &MainWindow::stepChanged, this, &MainWindow::refreshUnmatched);
    connect(table, &FilteredTable::picked, this, [this](const QModelIndex& index) {
        if (const std::optional<UnmatchedTask> task = unmatched_->taskAt(index.row()); task && page() != nullptr) {
            page()->select(task->source, task->slice);
            page()->showSelection();
        }
    });
}

void MainWindow::refreshUnmatched() {
    const StepAnalysis* analysis = document() != nullptr ? page()->analysis() : nullptr;
    unmatched_->setTasks(analysis != nullptr ? analysis->matching().unmatched : std::vector<UnmatchedTask>{});
}

void MainWindow::createConsole() {
    console_ = new SqlConsole(this);
    addDock(tr("SQL"), "sql", console_);
    if (settings_ != nullptr) {
        console_->setHistory(settings_->value(QString(kQueriesKey)).toStringList());
    }
    connect(console_, &SqlConsole::historyChanged, this, [this] {
        if (settings_ != nullptr) {
            settings_->setValue(QString(kQueriesKey), console_->history());
        }
    });
    connect(this, &MainWindow::pageChanged, console_, [this] {
        if (document() == nullptr) {
            console_->setFile({});
        } else if (isDatabase(page()->path())) {
            console_->setFile(page()->path());
        } else {
            console_->setFile({}, tr("This file is not a database, so it cannot be queried with SQL."));
        }
    });
    connect(console_, &SqlConsole::taskPicked, this, [this](Source source, const TaskKey& task) {
        if (page() != nullptr && !page()->goTo(source, task)) {
            messages_->showMessage(MessageBar::Kind::note, tr("That task is not in the timelines."));
        }
    });
    connect(console_, &SqlConsole::timePicked, this, [this](std::int64_t ns) {
        if (page() != nullptr) {
            page()->goToTime(ns);
        }
    });
}

QDockWidget* MainWindow::addDock(const QString& title, const char* name, QWidget* content) {
    auto* dock = new QDockWidget(title, this);
    dock->setObjectName(QString::fromLatin1(name));
    dock->setWidget(content);
    addDockWidget(Qt::BottomDockWidgetArea, dock);
    docks_ << dock;
    return dock;
}

bool MainWindow::takesTab(const QWidget& widget) const {
    if (!(widget.focusPolicy() & Qt::TabFocus) || widget.focusProxy() != nullptr || !widget.isVisible() ||
        !widget.isEnabled() || widget.window() != this) {
        return false;
    }
    // Qt moves panels behind another tab outside the window, but still reports them as visible.
    const QList<QDockWidget*> docks = findChildren<QDockWidget*>(QString(), Qt::FindDirectChildrenOnly);
    return std::none_of(docks.begin(), docks.end(), [&](const QDockWidget* dock) {
        return dock->isAncestorOf(&widget) && !rect().intersects(dock->geometry());
    });
}

// Replaces Qt's order, which would lead to hidden tabs and in circles: a panel that passes on its focus goes to one of
// its own children, skipping everything in between.
bool MainWindow::focusNextPrevChild(bool next) {
    QWidget* const from = focusWidget() != nullptr ? focusWidget() : this;
    QWidget* to = from;
    do {
        to = next ? to->nextInFocusChain() : to->previousInFocusChain();
    } while (to != from && !takesTab(*to));
    if (to == from) {
        return false;
    }
    to->setFocus(next ? Qt::TabFocusReason : Qt::BacktabFocusReason);
    return true;
}

void MainWindow::connectTables() {
    connect(this, &MainWindow::pageChanged, this, &MainWindow::refreshTables);
    connect(this, &MainWindow::stepChanged, this, &MainWindow::refreshTables);
    connect(this, &MainWindow::simulationChanged, this, &MainWindow::refreshTables);
    connect(this, &MainWindow::selectionChanged, this, &MainWindow::refreshDetails);
}

void MainWindow::refreshTables() {
    const TraceDocument* shown = document();
    laneModel_->setFacts(shown != nullptr ? laneFacts(*shown, step()) : std::vector<LaneFacts>{});
    differenceModel_->setTasks(shown != nullptr && shown->comparison ? shown->comparison->worst
                                                                     : std::vector<ComparedTask>{});
    refreshDetails();
}

void MainWindow::refreshDetails() {
    const TraceDocument* shown = document();
    const std::optional<TaskSelection> selection = shown != nullptr ? axis().selection() : std::nullopt;
    if (selection) {
        details_->setFacts(taskFacts(*shown, *selection, step()), selection->source);
    } else {
        details_->clear();
    }
}

void MainWindow::showDocks() {
    if (docksShown_) {
        return;  // now controlled by the user
    }
    docksShown_ = true;
    // Places the selection beside the other docks, and in a wide window also the lanes. The others share the last place
    // as tabs.
    const qsizetype places = width() < kNarrowWindow ? 1 : width() < kWideWindow ? 2 : 3;
    for (qsizetype i = places; i < docks_.size(); ++i) {
        tabifyDockWidget(docks_[places - 1], docks_[i]);
    }
    for (QDockWidget* dock : docks_) {
        dock->show();  // after they are tabbed, or all of them side by side would widen the window
    }
    docks_[places - 1]->raise();
    const QByteArray state =
        settings_ != nullptr ? settings_->value(QString(kWindowStateKey)).toByteArray() : QByteArray();
    if (!restoreState(state, kWindowStateVersion)) {
        const QList<int> widths = {300, places < 3 ? 1200 : 500, 800};
        resizeDocks(docks_.mid(0, places), widths.mid(0, places), Qt::Horizontal);
        resizeDocks({docks_.front()}, {fontMetrics().height() * 12}, Qt::Vertical);
    }
}
}  // namespace pipescope
