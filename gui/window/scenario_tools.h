#pragma once

#include "gui/document/scenario.h"
#include "gui/timeline/timeline_store.h"

#include <QList>
#include <QObject>
#include <QPointer>
#include <QWidget>

#include <optional>

namespace pipescope {
class RestedWork;
class AdvicePanel;
class BalanceEditor;
class PageModel;
class PinnedScenarios;
class PlanView;
class ScenarioModel;
class WhatIfPanel;
struct Move;

/// What-if tools for one page: the scenario of its profile, and the panels that change it. Keeps the page's simulated
/// half up to date. The window shows the panels of its current page in docks. Threading: the GUI thread.
class ScenarioTools : public QObject {
    Q_OBJECT

public:
    /// Owned by the page's model. The panels belong to `panelParent` until a dock takes them.
    ScenarioTools(PageModel& page, QWidget* panelParent);
    ~ScenarioTools() override;

    ScenarioModel& model() const { return *model_; }
    WhatIfPanel& panel() const { return *panel_; }
    AdvicePanel& advice() const { return *advice_; }
    BalanceEditor& balance() const { return *balance_; }
    PinnedScenarios& pins() const { return *pins_; }
    PlanView& plan() const { return *plan_; }

    /// Updates the tools from the page's file. Keeps the scenario if profile and configuration are unchanged.
    void refresh();
    /// Makes the pipeline of a move of the recorded one the scenario, which Ctrl+Z takes back.
    void tryMove(const Move& move);
    /// Pins the present scenario for comparison.
    void pin();
    /// Moves the selected simulated task by that many places in its lane, and simulates again. Says what came of it.
    void moveTask(int by);
    /// Writes the simulated order of tasks as a schedule's CSV. Says why if it cannot.
    void saveSchedule(const QString& path);

Q_SIGNALS:
    void pinned();
    /// A candidate of the plan, or a pinned scenario, became the present one.
    void opened();
    /// The result of a request, as a sentence.
    void said(const QString& text);
    /// That sentence no longer describes the scenario.
    void outdated(const QString& text);

private:
    void change(const Scenario& scenario, const QString& what);
    void open(const Scenario& scenario, const QString& what);
    void show();
    void compare();
    void moveTaskBefore(SliceRef slice, std::uint32_t before);
    /// The simulation whose tasks can be moved; null if there is none, which it says.
    const Simulation* movable();
    /// Puts the task at this place of its lane.
    void moveTaskTo(const Simulation& simulation, const TaskKey& task, std::size_t index);
    void tellMove();

    PageModel& page_;
    ScenarioModel* model_;
    WhatIfPanel* panel_;
    AdvicePanel* advice_;
    BalanceEditor* balance_;
    PinnedScenarios* pins_;
    PlanView* plan_;
    QList<QPointer<QWidget>> panels_;  // may be destroyed with their window
    RestedWork* compareTimer_;
    int numPinned_ = 0;
    struct MovedTask {
        TaskKey task;
        Nanoseconds before{0};  // the step without noise
    };
    std::optional<MovedTask> moved_;  // its simulation is under way
    struct ToldMove {
        QString text;
        Scenario of;
    };
    std::optional<ToldMove> told_;
};
}  // namespace pipescope
