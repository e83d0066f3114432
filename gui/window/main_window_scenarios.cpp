#include "gui/plan/plan_view.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/main_window.h"
#include "gui/window/scenario_tools.h"

#include <QAction>
#include <QDockWidget>
#include <QLabel>
#include <QMenuBar>
#include <QStackedWidget>
#include <QUndoGroup>
#include <QUndoStack>

namespace pipescope {
namespace {
QStackedWidget* createStack(QWidget* parent) {
    auto* stack = new QStackedWidget(parent);
    auto* nothing = new QLabel(MainWindow::tr("Open a profile, or a trace that holds one."), stack);
    nothing->setAlignment(Qt::AlignCenter);
    nothing->setWordWrap(true);
    stack->addWidget(nothing);
    return stack;
}

void bringUp(QDockWidget& dock) {
    dock.show();
    dock.raise();
    dock.widget()->setFocus();
}
}  // namespace

void MainWindow::createScenarioDocks() {
    undo_ = new QUndoGroup(this);
    whatIfDock_ = new QDockWidget(tr("What if"), this);
    whatIfDock_->setObjectName(QStringLiteral("whatIf"));
    whatIfDock_->setWidget(createStack(this));
    addDockWidget(Qt::RightDockWidgetArea, whatIfDock_);
    whatIfDock_->hide();
    balanceDock_ = addDock(tr("Balance"), "balance", createStack(this));
    pinsDock_ = addDock(tr("Scenarios"), "scenarios", createStack(this));
    planDock_ = addDock(tr("Plan"), "plan", createStack(this));
    connect(this, &MainWindow::pageChanged, this, &MainWindow::refreshScenarioDocks);
}

ScenarioTools* MainWindow::scenarioTools() {
    DocumentPage* current = page();
    if (current == nullptr || !current->recorded()) {
        return nullptr;
    }
    auto* tools = current->findChild<ScenarioTools*>(QString(), Qt::FindDirectChildrenOnly);
    if (tools != nullptr) {
        return tools;
    }
    tools = new ScenarioTools(*current, this);
    for (const auto& [dock, panel] : {std::pair<QDockWidget*, QWidget*>{whatIfDock_, &tools->panel()},
                                      {balanceDock_, &tools->balance()},
                                      {pinsDock_, &tools->pins()},
                                      {planDock_, &tools->plan()}}) {
        static_cast<QStackedWidget*>(dock->widget())->addWidget(panel);
    }
    undo_->addStack(&tools->model().undoStack());
    connect(tools, &ScenarioTools::pinned, this, [this] { bringUp(*pinsDock_); });
    connect(tools, &ScenarioTools::opened, this, [this] { bringUp(*whatIfDock_); });
    if (!current->recorded()->measured && current->recorded()->run.profile) {
        whatIfDock_->show();  // a bare profile is for what-if scenarios
    }
    return tools;
}

void MainWindow::refreshScenarioDocks() {
    ScenarioTools* tools = scenarioTools();
    if (tools != nullptr) {
        tools->refresh();
    }
    const auto choose = [](QDockWidget& dock, QWidget* panel) {
        auto* stack = static_cast<QStackedWidget*>(dock.widget());
        stack->setCurrentWidget(panel != nullptr ? panel : stack->widget(0));
        stack->setFocusProxy(stack->currentWidget());
    };
    choose(*whatIfDock_, tools != nullptr ? &tools->panel() : nullptr);
    choose(*balanceDock_, tools != nullptr ? &tools->balance() : nullptr);
    choose(*pinsDock_, tools != nullptr ? &tools->pins() : nullptr);
    choose(*planDock_, tools != nullptr ? &tools->plan() : nullptr);
    undo_->setActiveStack(tools != nullptr ? &tools->model().undoStack() : nullptr);
}

void MainWindow::createWhatIfMenu() {
    QMenu* menu = menuBar()->addMenu(tr("&What if"));
    QAction* undo = undo_->createUndoAction(this, tr("&Undo"));
    QAction* redo = undo_->createRedoAction(this, tr("&Redo"));
    undo->setShortcuts(QKeySequence::Undo);
    redo->setShortcuts(QKeySequence::Redo);
    menu->addActions({undo, redo});
    menu->addSeparator();
    const auto show = [&](const QString& text, const QKeySequence& key, QDockWidget* dock) {
        menu->addAction(text, key, this, [dock] { bringUp(*dock); });
    };
    show(tr("&What-if panel"), QKeySequence(Qt::CTRL | Qt::Key_I), whatIfDock_);
    show(tr("&Balance editor"), QKeySequence(Qt::CTRL | Qt::Key_B), balanceDock_);
    show(tr("&Scenarios side by side"), QKeySequence(Qt::CTRL | Qt::Key_U), pinsDock_);
    show(tr("&Plan"), QKeySequence(Qt::CTRL | Qt::Key_P), planDock_);
    menu->addSeparator();
    const auto act = [&](const QString& text, const QKeySequence& key, std::function<void(ScenarioTools&)> run) {
        pageActions_ << menu->addAction(text, key, this, [this, run = std::move(run)] {
            ScenarioTools* tools = scenarioTools();
            if (tools != nullptr && !tools->model().isEmpty()) {
                run(*tools);
            }
        });
    };
    act(tr("&Optimal balance"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_B),
        [](ScenarioTools& tools) { tools.model().applyBalance(BalanceAlgorithm::optimal); });
    act(tr("P&in this scenario"), QKeySequence(Qt::CTRL | Qt::Key_D), [](ScenarioTools& tools) { tools.pin(); });
    act(tr("Back to &as recorded"), QKeySequence(Qt::CTRL | Qt::Key_0),
        [](ScenarioTools& tools) { tools.model().backToRecorded(); });
}
}  // namespace pipescope
