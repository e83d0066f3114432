#pragma once

#include "analysis/run_verdict.h"
#include "analysis/slow_step.h"
#include "gui/style/work_pool.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/track_store.h"

#include <QObject>

#include <cstdint>
#include <memory>
#include <optional>

class QDockWidget;

namespace pipescope {
class BubblePanel;
class DifferenceTableModel;
class DockSet;
class FileTabs;
class FilteredTable;
class LaneTableModel;
class MarksPanel;
class MessageBar;
class SelectionPanel;
class SessionState;
class SqlConsole;
class StatisticsPanel;
class TaskTable;
struct CountedItem;
struct TraceDocument;
class UnmatchedTableModel;

/// The panels that tell about the current page: the selection, lanes, bubbles, tasks, differences, statistics, marks,
/// and the SQL console. A click in one of them moves the page.
///
/// To add a panel: create it and its dock in a function of its own, and connect it to the signals of FileTabs, after
/// which it must look at the current page again.
class TableDocks : public QObject {
    Q_OBJECT

public:
    /// All must outlive this object; the window owns the panels.
    TableDocks(DockSet& docks, FileTabs& files, SessionState& session, MessageBar& messages, QWidget* window);

    /// Brings what a part of a verdict rests on to the front: the bubbles of its cause, or its lane. Nothing for a
    /// proposed change.
    void show(const VerdictPart& part);

    /// Brings the tasks that this text finds to the front, as a list.
    void listTasks(const QString& text);
    /// Brings the bubbles of this root cause to the front.
    void showBubbles(RootCause root);

    SelectionPanel& selection() const { return *selection_; }
    SelectionPanel& stepReason() const { return *stepReason_; }
    FilteredTable& lanes() const { return *lanes_; }
    BubblePanel& bubbles() const { return *bubbles_; }
    FilteredTable& differences() const { return *differences_; }
    FilteredTable& unmatched() const { return *unmatched_; }
    TaskTable& tasks() const { return *tasks_; }
    StatisticsPanel& statistics() const { return *statistics_; }
    MarksPanel& marks() const { return *marks_; }
    SqlConsole& console() const { return *console_; }

Q_SIGNALS:
    /// The user wants what this text finds.
    void searchAsked(const QString& text);

private:
    void addLanesAndDifferences(DockSet& docks);
    void addBubbles(DockSet& docks);
    void addTasks(DockSet& docks);
    void addUnmatched(DockSet& docks);
    void addConsole(DockSet& docks, SessionState& session);
    void refreshSummaries();
    void refreshSelection();
    void addStepReason(DockSet& docks);
    /// Explains the shown step, if it was not the last one explained.
    void refreshStepReason();
    /// Panels about which the file has nothing are absent.
    void refreshPresence();
    /// Reads the arguments of the selected range from its file, in a worker, and adds them to the facts.
    void addArguments(const SliceRef& range);
    void showCounted(const CountedItem& item);
    void refreshBubbles();
    /// Rebuilds a long list when a slider rests, not at every move.
    void refreshAtRest(void (TableDocks::*refresh)());
    void refreshTasks();
    void refreshUnmatched();

    DockSet& docks_;
    FileTabs& files_;
    MessageBar& messages_;
    SelectionPanel* selection_;
    SelectionPanel* stepReason_;
    LaneTableModel* laneModel_;
    FilteredTable* lanes_;
    BubblePanel* bubbles_;
    DifferenceTableModel* differenceModel_;
    FilteredTable* differences_;
    TaskTable* tasks_;
    StatisticsPanel* statistics_;
    MarksPanel* marks_;
    UnmatchedTableModel* unmatchedModel_;
    FilteredTable* unmatched_;
    SqlConsole* console_;
    LatestJob arguments_;
    std::shared_ptr<const TraceDocument> explained_;  // the document of `slow_`
    std::int32_t explainedStep_ = 0;
    std::optional<PartSelection> explainedPart_;
    std::optional<SlowStep> slow_;
    std::optional<LaneDifference> laneDifference_;  // instead of the step: a measured lane is selected
};
}  // namespace pipescope
