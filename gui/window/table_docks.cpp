#include "gui/window/table_docks.h"

#include "base/error.h"
#include "gui/console/sql_console.h"
#include "gui/document/area_statistics.h"
#include "gui/document/bubble_table.h"
#include "gui/document/document_verdict.h"
#include "gui/style/message_bar.h"
#include "gui/tables/bubble_panel.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/selection_panel.h"
#include "gui/tables/slow_step_facts.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/table_models.h"
#include "gui/tables/task_table.h"
#include "gui/timeline/track_view.h"
#include "gui/window/dock_set.h"
#include "gui/window/document_page.h"
#include "gui/window/file_tabs.h"
#include "gui/window/marks_panel.h"
#include "gui/window/session_state.h"
#include "gui/window/step_strip.h"
#include "gui/window/timeline_stack.h"
#include "trace/foreign/chrome_import.h"

#include <nlohmann/json.hpp>

#include <QDockWidget>
#include <QHeaderView>
#include <QTableView>

#include <algorithm>
#include <iterator>

namespace pipescope {
namespace {
constexpr int kSliderRest = 150;  // ms

/// False if the range is of another event, because the file was replaced. A joined trace names copies by their
/// direction.
bool isEventOf(const std::string& range, const nlohmann::json& event) {
    if (!event.is_object() || !event.contains("name") || event["name"] == range) {
        return event.is_object();
    }
    const nlohmann::json category = event.value("cat", nlohmann::json());
    return category == "gpu_memcpy" || category == "gpu_memset";
}

/// Why a table that compares tasks is empty. `all`: what holds for all tasks if they are compared; `shown` may be null.
QString whyNoTasks(const TraceDocument* shown, const QString& all) {
    if (shown != nullptr && !shown->whyNoTwins.empty()) {
        return TableDocks::tr("Tasks are not compared: %1.").arg(QString::fromStdString(shown->whyNoTwins));
    }
    if (shown != nullptr && shown->measured && shown->simulated) {
        return shown->whyNotCompared.empty()
                   ? all
                   : TableDocks::tr("No comparison: this file %1.").arg(QString::fromStdString(shown->whyNotCompared));
    }
    return TableDocks::tr("Open a trace that has a measured and a simulated timeline to compare them.");
}
}  // namespace

TableDocks::TableDocks(DockSet& docks, FileTabs& files, SessionState& session, MessageBar& messages, QWidget* window)
    : QObject(window),
      docks_(docks),
      files_(files),
      messages_(messages),
      selection_(new SelectionPanel(window)),
      stepReason_(new SelectionPanel(window)),
      laneModel_(new LaneTableModel(this)),
      lanes_(new FilteredTable(*laneModel_, tr("Lanes"), tr("Open a trace to see what its lanes did."), window)),
      bubbles_(new BubblePanel(window)),
      differenceModel_(new DifferenceTableModel(this)),
      differences_(new FilteredTable(*differenceModel_, tr("Largest differences"), {}, window)),
      tasks_(new TaskTable(window)),
      statistics_(new StatisticsPanel(window)),
      marks_(new MarksPanel(window)),
      unmatchedModel_(new UnmatchedTableModel(this)),
      unmatched_(new FilteredTable(*unmatchedModel_, tr("Unmatched tasks"), {}, window)),
      console_(new SqlConsole(window)) {
    QDockWidget& dock = docks.add(tr("Selection"), "details", *selection_);
    connect(&files_, &FileTabs::picked, &dock, [&dock] {
        if (!dock.isHidden()) {
            dock.raise();  // another panel may stand in front, such as what-if
        }
    });
    connect(&files_, &FileTabs::selectionChanged, this, &TableDocks::refreshSelection);
    addLanesAndDifferences(docks);
    addBubbles(docks);
    addStepReason(docks);
    addTasks(docks);
    addUnmatched(docks);
    addConsole(docks, session);
    connect(&files_, &FileTabs::pageChanged, this, &TableDocks::refreshPresence);
    connect(&files_, &FileTabs::simulationChanged, this, &TableDocks::refreshPresence);
}

void TableDocks::show(const VerdictPart& part) {
    if (files_.document() == nullptr || part.evidence == Evidence::none || part.evidence == Evidence::change) {
        return;
    }
    const bool ofLanes = part.evidence == Evidence::lanes;
    if (QDockWidget* dock = docks_.find(ofLanes ? QStringLiteral("lanes") : QStringLiteral("bubbles"))) {
        docks_.bringUp(*dock);
    }
    if (ofLanes) {
        if (part.lane) {
            lanes_->table().selectRow(lanes_->rows().mapFromSource(laneModel_->index(part.lane->value(), 0)).row());
            files_.page()->navigation().goToLane(*part.lane);
        }
        return;
    }
    bubbles_->listCause(part.cause);
}

void TableDocks::showBubbles(RootCause root) {
    if (QDockWidget* dock = docks_.find(QStringLiteral("bubbles"))) {
        docks_.bringUp(*dock);
    }
    bubbles_->listRoot(root);
}

void TableDocks::listTasks(const QString& text) {
    if (QDockWidget* dock = docks_.find(QStringLiteral("tasks"))) {
        docks_.bringUp(*dock);
    }
    tasks_->filter().setText(text);
}

void TableDocks::addStepReason(DockSet& docks) {
    QDockWidget& dock = docks.add(tr("Why this step"), "stepReason", *stepReason_, PanelGroup::find);
    stepReason_->setAccessibleName(tr("Why this step is slow"));
    stepReason_->setEmptyText(tr("No step to explain"),
                              tr("Open a trace of several steps: a step is compared with the median one. Or click a "
                                 "lane's name: the lane is compared with the median one."));
    connect(&files_, &FileTabs::pageAdded, this, [this, &dock](const DocumentPage& page) {
        connect(&page.stepStrip(), &StepStrip::picked, this, [this, &dock] {
            QDockWidget* details = docks_.find(QStringLiteral("details"));
            if (details != nullptr && !details->isHidden()) {
                details->raise();
            }
            if (docks_.group() == PanelGroup::find && !dock.isHidden()) {
                dock.raise();
            }
        });
    });
}

void TableDocks::refreshStepReason() {
    const std::shared_ptr<const TraceDocument> shown =
        files_.document() != nullptr ? files_.page()->model().recorded() : nullptr;
    const StepAnalysis* analysis = shown != nullptr ? files_.page()->model().analysis() : nullptr;
    const std::int32_t step = shown != nullptr ? files_.page()->model().step() : 0;
    if (analysis == nullptr) {
        explained_.reset();
        slow_.reset();
        laneDifference_.reset();
        stepReason_->setFacts({});
        return;
    }
    const std::optional<PartSelection>& selected = files_.page()->axis().part();
    const bool isLane = selected && selected->isLane() && shown->measured;
    const std::optional<PartSelection> part = isLane ? selected : std::nullopt;
    if (explained_ == shown && explainedStep_ == step && explainedPart_ == part) {
        return;
    }
    if (explained_ != shown || explainedStep_ != step) {
        slow_ = whySlow(*shown, *analysis, files_.page()->stepStrip().history(), step);
    }
    explained_ = shown;
    explainedStep_ = step;
    explainedPart_ = part;
    laneDifference_ = part ? whySlow(*analysis, step, part->lane, part->comparedWith) : std::nullopt;
    stepReason_->setFacts(laneDifference_ ? laneDifferenceFacts(*shown, *laneDifference_)
                          : slow_         ? slowStepFacts(*shown, *slow_)
                                          : SelectionFacts{});
}

void TableDocks::refreshPresence() {
    const TraceDocument* shown = files_.document();
    const auto present = [this](const char* name, bool is) {
        if (QDockWidget* dock = docks_.find(QString::fromLatin1(name))) {
            docks_.setPresent(*dock, is);
        }
    };
    const bool hasTasks = shown == nullptr || !hasOnlyTracks(*shown);
    const bool hasTwo = shown == nullptr || (shown->measured && shown->simulated);
    for (const char* name : {"bubbles", "tasks"}) {
        present(name, hasTasks);
    }
    present("statistics", shown == nullptr || !countable(*shown).empty());
    present("stepReason", shown == nullptr || (shown->measured && (shown->measured->steps().size() > 1 ||
                                                                   shown->measured->lanes().size() > 1)));
    present("differences", hasTwo);
    present("unmatched", hasTwo);
    present("sql", shown == nullptr || shown->run.origin != TraceOrigin::profile);
}

void TableDocks::addLanesAndDifferences(DockSet& docks) {
    docks.add(tr("Lanes"), "lanes", *lanes_, PanelGroup::find);
    lanes_->keepNamesBesideFigures();
    docks.add(tr("Largest differences"), "differences", *differences_, PanelGroup::find);
    connect(lanes_, &FilteredTable::picked, this, [this](const QModelIndex& index) {
        const TraceDocument& shown = *files_.document();  // the model has one row per lane or thread, in order
        if (hasOnlyTracks(shown) && shown.tracks) {
            files_.page()->views().tracks().revealRow(
                threadsOf(*shown.tracks).at(static_cast<std::size_t>(index.row())).first);
            return;
        }
        files_.page()->navigation().goToLane(LaneId{index.row()});
    });
    connect(differences_, &FilteredTable::picked, this, [this](const QModelIndex& index) {
        if (const std::optional<ComparedTask> row = differenceModel_->rowAt(index.row())) {
            files_.page()->navigation().goTo(Source::measured, row->task);
        }
    });
    connect(&files_, &FileTabs::pageChanged, this, &TableDocks::refreshSummaries);
    connect(&files_, &FileTabs::stepChanged, this, &TableDocks::refreshSummaries);
    connect(&files_, &FileTabs::simulationChanged, this, &TableDocks::refreshSummaries);
}

void TableDocks::refreshSummaries() {
    const TraceDocument* shown = files_.document();
    lanes_->setEmptyText(shown == nullptr ? files_.page() != nullptr ? tr("The trace is being read.")
                                                                     : tr("Open a trace to see what its lanes did.")
                                          : tr("This file has no lanes, since it holds no tasks of a pipeline."));
    constexpr int kFirstOfLanesOnly = 2;                                  // threads have a name and a busy time
    for (int column = 1; column < laneModel_->columnCount(); ++column) {  // odd ones are measured, even ones simulated
        const bool has = shown == nullptr || (column % 2 == 1 ? shown->measured : shown->simulated) != nullptr;
        const bool isOfThreads = shown != nullptr && hasOnlyTracks(*shown);
        lanes_->table().setColumnHidden(column, isOfThreads ? column >= kFirstOfLanesOnly : !has);
    }
    laneModel_->setTwoRuns(shown != nullptr && shown->baseline);
    differenceModel_->setTwoRuns(shown != nullptr && shown->baseline);
    laneModel_->setRows(shown == nullptr        ? std::vector<LaneFacts>{}
                        : hasOnlyTracks(*shown) ? threadFacts(*shown)
                                                : laneFacts(*shown, files_.page()->model().step()));
    differenceModel_->setDocument(shown != nullptr ? files_.page()->document() : nullptr);
    differenceModel_->setRows(shown != nullptr && shown->comparison ? shown->comparison->worst
                                                                    : std::vector<ComparedTask>{});
    const bool isCompared = shown != nullptr && shown->comparison;
    differences_->setEmptyText(
        whyNoTasks(shown, isCompared ? tr("All tasks took equally long.") : tr("The tasks are not compared yet.")));
    refreshSelection();
}

void TableDocks::refreshSelection() {
    arguments_.drop();
    refreshStepReason();
    const TraceDocument* shown = files_.document();
    const StepAnalysis* analysis = shown != nullptr ? files_.page()->model().analysis() : nullptr;
    if (analysis == nullptr) {
        selection_->setFacts({});
        return;
    }
    const TimeAxisModel& axis = files_.page()->axis();
    SelectionFacts facts =
        factsOf(*shown, *analysis, files_.page()->model().step(), axis.selection(), axis.part(), &axis);
    if (facts.ofWholeStep && slow_) {
        const QString reason = QString::fromStdString(slow_step_text(*slow_));
        facts.text = facts.text.isEmpty() ? reason : reason + QLatin1Char(' ') + facts.text;
    } else if (axis.part() && axis.part()->kind == PartSelection::Kind::lane && laneDifference_) {
        const QString reason = QString::fromStdString(lane_difference_text(*laneDifference_));
        facts.text = facts.text.isEmpty() ? reason : reason + QLatin1Char(' ') + facts.text;
    }
    selection_->setFacts(std::move(facts));
    if (axis.part() && axis.part()->kind == PartSelection::Kind::range && !selection_->facts().isEmpty()) {
        addArguments(axis.part()->range);
    }
}

void TableDocks::addArguments(const SliceRef& range) {
    const TrackStore& tracks = *files_.document()->tracks;
    const TrackRow& row = tracks.rows[range.row];
    const std::uint32_t event = row.event.empty() ? 0 : row.event[range.index];
    if (event == 0) {
        return;
    }
    arguments_.start(
        *this,
        [path = tracks.eventFiles.empty() ? files_.page()->path().toStdString() : tracks.eventFiles.at(row.file),
         name = selection_->facts().title.toStdString(), event](const std::function<bool()>&) {
            try {
                const nlohmann::json found = event_of_chrome(path, event - 1);
                return argumentFacts(isEventOf(name, found) ? found : nlohmann::json());
            } catch (const Error&) {
                return std::vector<FactSection>{};  // the file is gone or was replaced
            }
        },
        [this](std::vector<FactSection> sections) {
            SelectionFacts facts = selection_->facts();
            std::move(sections.begin(), sections.end(), std::back_inserter(facts.sections));
            selection_->setFacts(std::move(facts));
        },
        [this](const QString& error) { messages_.showMessage(MessageBar::Kind::error, error); });
}

void TableDocks::addBubbles(DockSet& docks) {
    docks.add(tr("Bubbles"), "bubbles", *bubbles_, PanelGroup::find);
    connect(bubbles_, &BubblePanel::picked, this, [this](Source source, const Bubble& bubble) {
        const Bubble chosen = bubble;
        files_.page()->navigation().goTo(source, chosen);
    });
    connect(&files_, &FileTabs::pageChanged, this, &TableDocks::refreshBubbles);
    connect(&files_, &FileTabs::stepChanged, this, &TableDocks::refreshBubbles);
    refreshAtRest(&TableDocks::refreshBubbles);
    connect(&files_, &FileTabs::selectionChanged, bubbles_, [this] { bubbles_->select(files_.page()->axis().part()); });
}

void TableDocks::refreshBubbles() {
    const TraceDocument* shown = files_.document();
    const StepAnalysis* analysis = shown != nullptr ? files_.page()->model().analysis() : nullptr;
    bubbles_->setAnalysis(analysis, shown, shown != nullptr ? files_.page()->model().step() : 0);
    if (shown != nullptr) {
        bubbles_->select(files_.page()->axis().part());
    }
}

void TableDocks::addTasks(DockSet& docks) {
    docks.add(tr("Tasks"), "tasks", *tasks_, PanelGroup::find);
    docks.add(tr("Statistics"), "statistics", *statistics_, PanelGroup::find);
    docks.add(tr("Marks and notes"), "marks", *marks_, PanelGroup::data);
    const auto show = [this](Source source, SliceRef slice) {
        if (files_.page() != nullptr) {
            files_.page()->navigation().show(source, slice);
        }
    };
    const auto showError = [this](const QString& text) { messages_.showMessage(MessageBar::Kind::error, text); };
    connect(statistics_, &StatisticsPanel::rangeMeasured, this, [this] {
        if (QDockWidget* dock = docks_.find(QStringLiteral("statistics"))) {
            docks_.bringUp(*dock);
        }
    });
    connect(tasks_, &TaskTable::picked, this, show);
    connect(statistics_, &StatisticsPanel::picked, this, &TableDocks::showCounted);
    connect(statistics_, &StatisticsPanel::searchAsked, this, &TableDocks::searchAsked);
    connect(tasks_, &TaskTable::failed, this, showError);
    connect(statistics_, &StatisticsPanel::failed, this, showError);
    connect(marks_, &MarksPanel::picked, this,
            [this](std::int64_t time) { files_.page()->navigation().goToTime(time); });
    connect(marks_, &MarksPanel::rangePicked, this, [this](const TimeRange& range) {
        const TimeRange shown = range;
        files_.page()->axis().show({shown.start - shown.length() / 10, shown.end + shown.length() / 10});
    });
    connect(&files_, &FileTabs::pageChanged, this, &TableDocks::refreshTasks);
    connect(&files_, &FileTabs::stepChanged, this, &TableDocks::refreshTasks);
    refreshAtRest(&TableDocks::refreshTasks);
    connect(&files_, &FileTabs::selectionChanged, tasks_, [this] {
        const std::optional<TaskSelection>& selection = files_.page()->axis().selection();
        tasks_->select(selection ? selection->source : Source::measured,
                       selection ? std::optional(selection->slice) : std::nullopt);
    });
}

void TableDocks::showCounted(const CountedItem& item) {
    if (files_.page() == nullptr) {
        return;
    }
    PageNavigation& navigation = files_.page()->navigation();
    switch (item.of) {
        case Counted::measured_tasks: navigation.show(Source::measured, item.ref); break;
        case Counted::simulated_tasks: navigation.show(Source::simulated, item.ref); break;
        case Counted::kernels: navigation.showKernel(item.ref); break;
        case Counted::threads:
        case Counted::streams: navigation.show(item.ref); break;
    }
}

void TableDocks::refreshAtRest(void (TableDocks::*refresh)()) {
    auto* rest = new RestedWork(kSliderRest, *this, [this, refresh] { (this->*refresh)(); });
    connect(&files_, &FileTabs::simulationChanged, rest, qOverload<>(&QTimer::start));
}

void TableDocks::refreshTasks() {
    const bool isRead = files_.document() != nullptr;
    const std::shared_ptr<const TraceDocument> shown = isRead ? files_.page()->document() : nullptr;
    TimeAxisModel* axis = isRead ? &files_.page()->axis() : nullptr;
    const std::int32_t step = isRead ? files_.page()->model().step() : 0;
    tasks_->setDocument(shown, step);
    statistics_->setDocument(shown, axis, step);
    marks_->setAxis(axis);
}

void TableDocks::addUnmatched(DockSet& docks) {
    docks.add(tr("Unmatched"), "unmatched", *unmatched_, PanelGroup::find);
    connect(&files_, &FileTabs::pageChanged, this, &TableDocks::refreshUnmatched);
    connect(&files_, &FileTabs::stepChanged, this, &TableDocks::refreshUnmatched);
    refreshAtRest(&TableDocks::refreshUnmatched);
    connect(unmatched_, &FilteredTable::picked, this, [this](const QModelIndex& index) {
        const std::optional<UnmatchedTask> task = unmatchedModel_->rowAt(index.row());
        if (task && files_.page() != nullptr) {
            files_.page()->navigation().show(task->source, task->slice);
        }
    });
}

void TableDocks::refreshUnmatched() {
    const TraceDocument* shown = files_.document();
    const StepAnalysis* analysis = shown != nullptr ? files_.page()->model().analysis() : nullptr;
    unmatchedModel_->setTwoRuns(shown != nullptr && shown->baseline);
    unmatchedModel_->setDocument(shown != nullptr ? files_.page()->document() : nullptr);
    unmatchedModel_->setRows(analysis != nullptr ? analysis->matching().unmatched : std::vector<UnmatchedTask>{});
    unmatched_->setEmptyText(whyNoTasks(shown, tr("All tasks of this step have a twin.")));
}

void TableDocks::addConsole(DockSet& docks, SessionState& session) {
    docks.add(tr("SQL"), "sql", *console_, PanelGroup::data);
    console_->setHistory(session.value(kQueriesKey).toStringList());
    connect(console_, &SqlConsole::historyChanged, this,
            [this, &session] { session.setValue(kQueriesKey, console_->history()); });
    const auto offerBubbles = [this] {
        if (files_.document() == nullptr) {
            console_->setTables({});
            return;
        }
        console_->setTables([document = files_.page()->document(), step = files_.page()->model().step()](
                                const std::string& sql, const std::function<bool()>& cancelled) {
            return readsBubbles(sql) ? std::vector<SqlTable>{bubbleTable(*document, step, cancelled)}
                                     : std::vector<SqlTable>{};
        });
    };
    for (const auto signal : {&FileTabs::pageChanged, &FileTabs::stepChanged, &FileTabs::simulationChanged}) {
        connect(&files_, signal, console_, offerBubbles);
    }
    connect(&files_, &FileTabs::pageChanged, console_, [this] {
        if (files_.document() == nullptr) {
            console_->setFile({});
        } else if (files_.document()->run.origin == TraceOrigin::profile) {
            console_->setFile({}, tr("A profile is not a trace, so it cannot be queried with SQL."));
        } else {
            console_->setFile(files_.page()->path(), {},
                              [files = files_.page()->files()] { return files->database(); });
        }
    });
    connect(console_, &SqlConsole::taskPicked, this, [this](Source source, const TaskKey& task) {
        if (files_.page() != nullptr && !files_.page()->navigation().goTo(source, task)) {
            messages_.showMessage(MessageBar::Kind::note, tr("That task is not in the timelines."));
        }
    });
    console_->setTracks([this] { return files_.page() != nullptr ? files_.page()->tracks().names() : QStringList(); });
    connect(console_, &SqlConsole::trackAsked, this, [this](const QString& sql) {
        if (files_.document() != nullptr) {
            files_.page()->askForTrack(sql);
        }
    });
    connect(console_, &SqlConsole::trackRemoved, this, [this](const QString& name) {
        if (files_.document() != nullptr) {
            files_.page()->tracks().remove(name);
        }
    });
    connect(console_, &SqlConsole::timePicked, this, [this](std::int64_t ns) {
        if (files_.page() != nullptr) {
            files_.page()->navigation().goToTime(ns);
        }
    });
}
}  // namespace pipescope
