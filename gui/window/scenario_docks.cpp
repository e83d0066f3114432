#include "gui/window/scenario_docks.h"

#include "gui/plan/cluster_plan_view.h"
#include "gui/plan/plan_view.h"
#include "gui/style/icons.h"
#include "gui/style/message_bar.h"
#include "gui/what_if/advice_panel.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/dock_set.h"
#include "gui/window/file_tabs.h"
#include "gui/window/page_actions.h"
#include "gui/window/scenario_tools.h"

#include <QAction>
#include <QDockWidget>
#include <QFileDialog>
#include <QLabel>
#include <QMainWindow>
#include <QMenu>
#include <QPointer>
#include <QStackedWidget>
#include <QUndoGroup>
#include <QUndoStack>

namespace pipescope {
namespace {
/// A place for the panels of all pages.
QStackedWidget& createStack(QWidget& parent) {
    auto* stack = new QStackedWidget(&parent);
    auto* nothing = new QLabel(ScenarioDocks::tr("Open a profile, or a trace that holds one."), stack);
    nothing->setAlignment(Qt::AlignCenter);
    nothing->setWordWrap(true);
    stack->addWidget(nothing);
    return *stack;
}

QDockWidget& createWhatIfDock(QMainWindow& window) {
    auto* dock = new QDockWidget(ScenarioDocks::tr("What if"), &window);
    dock->setObjectName(QStringLiteral("whatIf"));
    dock->setWidget(&createStack(window));
    window.addDockWidget(Qt::RightDockWidgetArea, dock);
    dock->hide();
    return *dock;
}

QStackedWidget& stackOf(QDockWidget& dock) {
    return *static_cast<QStackedWidget*>(dock.widget());
}

void bringUp(DockSet& docks, QDockWidget& dock) {
    docks.bringUp(dock);
    dock.widget()->setFocus();
}

/// Likewise, with room for a form beside a table and a chart.
void bringUpTall(DockSet& docks, QMainWindow& window, QDockWidget& dock) {
    bringUp(docks, dock);
    const int wanted = window.height() * 2 / 5;
    const bool isBelow = !dock.isFloating() && window.dockWidgetArea(&dock) == Qt::BottomDockWidgetArea;
    if (isBelow && dock.height() < wanted) {
        window.resizeDocks({&dock}, {wanted}, Qt::Vertical);
    }
}
}  // namespace

ScenarioDocks::ScenarioDocks(QMainWindow& window, DockSet& docks, FileTabs& files)
    : QObject(&window),
      window_(window),
      docks_(docks),
      files_(files),
      whatIf_(createWhatIfDock(window)),
      advice_(docks.add(tr("What to change"), "advice", createStack(window), PanelGroup::change)),
      balance_(docks.add(tr("Balance"), "balance", createStack(window), PanelGroup::change)),
      pins_(docks.add(tr("Scenarios"), "scenarios", createStack(window), PanelGroup::change)),
      plan_(docks.add(tr("Plan"), "plan", createStack(window), PanelGroup::change)),
      clusterPlan_(docks.add(tr("Cluster plan"), "clusterPlan", *new ClusterPlanView(&window), PanelGroup::change)),
      undo_(new QUndoGroup(this)) {
    docks.share(whatIf_);
    docks.showOnDemand(clusterPlan_);
    connect(&files_, &FileTabs::pageChanged, this, &ScenarioDocks::refresh);
    connect(&clusterPlan(), &ClusterPlanView::opened, &files_, [this](const QString& path) { files_.open(path); });
}

ClusterPlanView& ScenarioDocks::clusterPlan() const {
    return *static_cast<ClusterPlanView*>(clusterPlan_.widget());
}

void ScenarioDocks::tryMove(const Move& move) {
    if (ScenarioTools* shown = tools(); shown != nullptr && !shown->model().isEmpty()) {
        shown->tryMove(move);
        bringUp(docks_, whatIf_);
    }
}

void ScenarioDocks::showAdvice(std::optional<RootCause> against) {
    ScenarioTools* shown = tools();
    if (against && shown != nullptr) {
        const std::span<const MoveKind> kinds = moves_against(*against);
        shown->advice().selectKind({kinds.begin(), kinds.end()});
    }
    bringUp(docks_, advice_);
}

ScenarioTools* ScenarioDocks::tools() {
    PageModel* page = files_.page() != nullptr ? &files_.page()->model() : nullptr;
    if (page == nullptr || !page->recorded()) {
        return nullptr;
    }
    auto* tools = page->findChild<ScenarioTools*>(QString(), Qt::FindDirectChildrenOnly);
    if (tools != nullptr) {
        return tools;
    }
    tools = new ScenarioTools(*page, &window_);
    stackOf(whatIf_).addWidget(&tools->panel());
    stackOf(advice_).addWidget(&tools->advice());
    stackOf(balance_).addWidget(&tools->balance());
    stackOf(pins_).addWidget(&tools->pins());
    stackOf(plan_).addWidget(&tools->plan());
    undo_->addStack(&tools->model().undoStack());
    files_.page()->notes().setUndoStack(&tools->model().undoStack());
    files_.page()->tracks().setUndoStack(&tools->model().undoStack());
    connect(&tools->advice(), &AdvicePanel::bubblesAsked, this, &ScenarioDocks::bubblesAsked);
    connect(tools, &ScenarioTools::pinned, this, [this] { bringUp(docks_, pins_); });
    connect(tools, &ScenarioTools::said, this, [page = QPointer(files_.page())](const QString& text) {
        if (page != nullptr) {
            page->messages().showMessage(MessageBar::Kind::note, text);
        }
    });
    connect(tools, &ScenarioTools::outdated, this, [page = QPointer(files_.page())](const QString& text) {
        if (page != nullptr && page->messages().text() == text) {
            page->refreshNotes();
        }
    });
    connect(tools, &ScenarioTools::opened, this, [this] { bringUp(docks_, whatIf_); });
    if (!page->recorded()->measured && page->recorded()->run.profile) {
        whatIf_.show();  // a bare profile is for what-if scenarios
    }
    return tools;
}

void ScenarioDocks::refresh() {
    ScenarioTools* shown = tools();
    if (shown != nullptr) {
        shown->refresh();
    }
    const auto choose = [shown](QDockWidget& dock, auto panelOf) {
        QStackedWidget& stack = stackOf(dock);
        stack.setCurrentWidget(shown != nullptr ? &(shown->*panelOf)() : stack.widget(0));
        stack.setFocusProxy(stack.currentWidget());
    };
    choose(whatIf_, &ScenarioTools::panel);
    choose(advice_, &ScenarioTools::advice);
    choose(balance_, &ScenarioTools::balance);
    choose(pins_, &ScenarioTools::pins);
    choose(plan_, &ScenarioTools::plan);
    const bool none = shown == nullptr && files_.document() == nullptr;
    for (QDockWidget* dock : {&advice_, &balance_, &pins_, &plan_}) {
        docks_.setPresent(*dock, none || (shown != nullptr && !shown->model().isEmpty()));
    }
    const TraceDocument* document = files_.document();
    clusterPlan().setProfile(document != nullptr ? document->run.profile : std::nullopt);
    undo_->setActiveStack(shown != nullptr ? &shown->model().undoStack() : nullptr);
}

void ScenarioDocks::fillMenu(QMenu& menu, PageActions& actions) {
    QAction* undo = undo_->createUndoAction(this, tr("&Undo"));
    QAction* redo = undo_->createRedoAction(this, tr("&Redo"));
    undo->setShortcut(Qt::CTRL | Qt::Key_Z);  // the standard adds F14, which no keyboard has
    redo->setShortcuts(QKeySequence::Redo);
    menu.addActions({undo, redo});
    menu.addSeparator();
    const auto show = [&](const QString& text, const QKeySequence& key, QDockWidget& dock) {
        return menu.addAction(text, key, this, [this, &dock] { bringUp(docks_, dock); });
    };
    asTool(*show(tr("&What-if panel"), QKeySequence(Qt::CTRL | Qt::Key_I), whatIf_), Tool::what_if);
    asTool(*show(tr("What to &change"), QKeySequence(Qt::CTRL | Qt::Key_J), advice_), Tool::advice);
    show(tr("&Balance editor"), QKeySequence(Qt::CTRL | Qt::Key_B), balance_);
    show(tr("&Scenarios side by side"), QKeySequence(Qt::CTRL | Qt::Key_U), pins_);
    menu.addAction(tr("&Plan"), QKeySequence(Qt::CTRL | Qt::Key_P), this,
                   [this] { bringUpTall(docks_, window_, plan_); });
    menu.addAction(tr("Plan for a clus&ter"), this, [this] { bringUpTall(docks_, window_, clusterPlan_); });
    menu.addSeparator();
    const auto act = [&](const QString& text, const QKeySequence& key, void (*run)(ScenarioTools&)) {
        actions.track(*menu.addAction(text, key, this, [this, run] {
            ScenarioTools* shown = tools();
            if (shown != nullptr && !shown->model().isEmpty()) {
                run(*shown);
            }
        }));
    };
    act(tr("&Optimal balance"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_B),
        [](ScenarioTools& t) { t.model().applyBalance(BalanceAlgorithm::optimal); });
    act(tr("P&in this scenario"), QKeySequence(Qt::CTRL | Qt::Key_D), [](ScenarioTools& t) { t.pin(); });
    act(tr("Back to &as recorded"), QKeySequence(Qt::CTRL | Qt::Key_0),
        [](ScenarioTools& t) { t.model().backToRecorded(); });
    menu.addSeparator();
    act(tr("Move the task &earlier in its lane"), QKeySequence(Qt::ALT | Qt::SHIFT | Qt::Key_Left),
        [](ScenarioTools& t) { t.moveTask(-1); });
    act(tr("Move the task &later in its lane"), QKeySequence(Qt::ALT | Qt::SHIFT | Qt::Key_Right),
        [](ScenarioTools& t) { t.moveTask(1); });
    act(tr("Save schedule as CS&V…"), {}, [](ScenarioTools& t) {
        const QString path = QFileDialog::getSaveFileName(&t.panel(), tr("Save the schedule"), tr("schedule.csv"),
                                                          tr("Schedules (*.csv)"));
        if (!path.isEmpty()) {
            t.saveSchedule(path);
        }
    });
}
}  // namespace pipescope
