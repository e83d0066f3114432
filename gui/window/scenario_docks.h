#pragma once

#include <QObject>

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

private:
    void refresh();

    QMainWindow& window_;
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
