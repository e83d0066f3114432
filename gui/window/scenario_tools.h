#pragma once

#include "gui/document/scenario.h"

#include <QList>
#include <QObject>
#include <QPointer>
#include <QWidget>

#include <memory>

class QTimer;

namespace pipescope {
class BalanceEditor;
class DocumentPage;
class PinnedScenarios;
class PlanView;
class ScenarioModel;
class WhatIfPanel;

/// What one page's profile can be played with: the scenario, and the panels that change it. It keeps the page's
/// simulated half in step with the scenario. The window puts the panels of its current page into docks.
/// Threading: the GUI thread.
class ScenarioTools : public QObject {
    Q_OBJECT

public:
    /// Belongs to the page; the panels belong to `panelParent`, until a dock takes them.
    ScenarioTools(DocumentPage& page, QWidget* panelParent);
    ~ScenarioTools() override;

    ScenarioModel& model() const { return *model_; }
    WhatIfPanel& panel() const { return *panel_; }
    BalanceEditor& balance() const { return *balance_; }
    PinnedScenarios& pins() const { return *pins_; }
    PlanView& plan() const { return *plan_; }

    /// Looks again at what the page's file holds. The same profile and configuration keep what is played with.
    void refresh();
    /// Keeps the present scenario to compare with.
    void pin();

Q_SIGNALS:
    void pinned();
    /// A candidate of the plan, or a pinned scenario, was made the present one.
    void opened();

private:
    void open(const Scenario& scenario, const QString& what);
    void show();
    void compare();

    DocumentPage& page_;
    ScenarioModel* model_;
    WhatIfPanel* panel_;
    BalanceEditor* balance_;
    PinnedScenarios* pins_;
    PlanView* plan_;
    QList<QPointer<QWidget>> panels_;  // a window that goes takes them along
    QTimer* compareTimer_;
    int numPinned_ = 0;
};
}  // namespace pipescope
