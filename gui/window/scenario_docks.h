#pragma once

#include "analysis/root_causes.h"

#include <QObject>

#include <optional>

class QDockWidget;
class QMainWindow;
class QMenu;
class QUndoGroup;
class QWidget;

namespace pipescope {
class ClusterPlanView;
class DockSet;
class FileTabs;
class PageActions;
class ScenarioTools;
struct Move;

/// The docks of the what-if tools. They show the panels of the current page, whose tools are created when they are
/// first needed, and undo its changes.
class ScenarioDocks : public QObject {
    Q_OBJECT

public:
    /// All must outlive this object.
    ScenarioDocks(QMainWindow& window, DockSet& docks, FileTabs& files);

    /// Scenario tools of the current page's profile; null while there is no document.
    ScenarioTools* tools();
    void fillMenu(QMenu& menu, PageActions& actions);

    ClusterPlanView& clusterPlan() const;
    /// Makes the move's pipeline the scenario, and shows the what-if panel.
    void tryMove(const Move& move);
    /// Brings the list of changes to the front, with the best change against that root cause.
    void showAdvice(std::optional<RootCause> against = std::nullopt);

Q_SIGNALS:
    /// The user wants to see the bubbles of this root cause.
    void bubblesAsked(pipescope::RootCause root);

private:
    void refresh();

    QMainWindow& window_;
    DockSet& docks_;
    FileTabs& files_;
    QDockWidget& whatIf_;
    QDockWidget& advice_;
    QDockWidget& balance_;
    QDockWidget& pins_;
    QDockWidget& plan_;
    QDockWidget& clusterPlan_;
    QUndoGroup* undo_;
};
}  // namespace pipescope
