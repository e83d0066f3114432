#include "gui/window/scenario_tools.h"

#include "gui/document/document_verdict.h"
#include "gui/document/schedule_edit.h"
#include "gui/document/throughput.h"
#include "gui/plan/plan_view.h"
#include "gui/style/number_format.h"
#include "gui/style/save_file.h"
#include "gui/style/task_style.h"
#include "gui/style/work_pool.h"
#include "gui/what_if/advice_panel.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/page_model.h"
#include "simulator/plan/advice.h"

#include <QUndoStack>
#include <QWidget>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace pipescope {
namespace {
constexpr int kCompareDelay = 200;  // ms without a change before tasks are matched with the measured ones
}  // namespace

ScenarioTools::ScenarioTools(PageModel& page, QWidget* panelParent)
    : QObject(&page),
      page_(page),
      model_(new ScenarioModel(this)),
      panel_(new WhatIfPanel(*model_, panelParent)),
      advice_(new AdvicePanel(*model_, panelParent)),
      balance_(new BalanceEditor(*model_, panelParent)),
      pins_(new PinnedScenarios(panelParent)),
      plan_(new PlanView(panelParent)),
      compareTimer_(new RestedWork(kCompareDelay, *this, [this] { compare(); })) {
    panels_ = {panel_, advice_, balance_, pins_, plan_};
    connect(model_, &ScenarioModel::simulated, this, &ScenarioTools::show);
    connect(model_, &ScenarioModel::scenarioChanged, this, [this] { plan_->follow(model_->scenario().options); });
    connect(panel_, &WhatIfPanel::pinRequested, this, &ScenarioTools::pin);
    connect(advice_, &AdvicePanel::tried, this, &ScenarioTools::change);
    connect(advice_, &AdvicePanel::said, this, &ScenarioTools::said);
    connect(pins_, &PinnedScenarios::opened, this,
            [this](const Scenario& scenario) { open(scenario, tr("pinned scenario")); });
    connect(plan_, &PlanView::opened, this,
            [this](const Scenario& scenario) { open(scenario, tr("candidate of the plan")); });
    connect(&page_, &PageModel::moveRequested, this, &ScenarioTools::moveTaskBefore);
    refresh();
}

ScenarioTools::~ScenarioTools() {
    // They refer to the model, which is being destroyed; docks that hold them may live on.
    for (const QPointer<QWidget>& panel : panels_) {
        delete panel.data();
    }
}

void ScenarioTools::refresh() {
    const std::shared_ptr<const TraceDocument>& document = page_.recorded();
    const std::optional<Scenario> recorded = document ? recordedScenario(*document) : std::nullopt;
    // A measured run whose pipeline is not known must not stand beside another one.
    const bool isKnown = document && (recorded || !document->measured);
    const std::optional<CheckedProfile> profile = isKnown ? document->run.profile : std::nullopt;
    const std::optional<StepOnCluster> onCluster = recorded ? document->run.on_cluster : std::nullopt;
    const std::optional<ModelError> error = recorded ? modelErrorOf(*document) : std::nullopt;
    const bool same = profile && model_->profile() && *profile == *model_->profile() &&
                      (!recorded || *recorded == model_->recorded()) &&
                      onCluster == (model_->layout() ? std::optional(model_->layout()->step) : std::nullopt);
    plan_->setModelError(error);
    if (same) {
        model_->setModelError(error);
        if (const std::optional<StepBand> band = recorded ? document->simulation->noise : std::nullopt) {
            model_->setRecordedBand(*band);
        }
        if (!model_->isAsRecorded() && model_->result() && page_.document() == page_.recorded() && !page_.baseline()) {
            show();  // the file was read again, or read further
        }
        return;
    }
    const QString why = document ? QString::fromStdString(document->run.why_not_simulated) : QString();
    panel_->setReason(why);
    advice_->setReason(why);
    if (!profile && model_->isEmpty()) {
        return;
    }
    pins_->clear();
    numPinned_ = 0;
    panel_->figures().setBatchUnknown(document && is_batch_unknown(document->run));
    model_->setProfile(profile, recorded, document && document->measured,
                       recorded ? document->simulation->noise : std::nullopt, document && document->noiseLeftOut,
                       onCluster);
    model_->setModelError(error);
    plan_->setProfile(profile, model_->recorded().options,
                      onCluster ? QString::fromStdString(part_text(*onCluster)) : QString());
}

void ScenarioTools::show() {
    tellMove();
    if (model_->isAsRecorded() && page_.baseline()) {
        return;  // a run before stays until there is a scenario
    }
    if (model_->isAsRecorded() && page_.recorded() && page_.recorded()->simulated) {
        page_.showRecorded();
        compareTimer_->stop();
        return;
    }
    page_.showScenario(*model_->result());
    if (page_.recorded() && page_.recorded()->measured) {
        compareTimer_->start();
    }
}

void ScenarioTools::compare() {
    const std::shared_ptr<const SimulatedScenario> result = model_->result();
    const std::shared_ptr<const TraceDocument> document = page_.recorded();
    if (!document || !document->measured || !result || !result->runs() || result->noisePending) {
        return;  // pending noise brings another result
    }
    runInPool(
        *this, [document, result] { return compareWithMeasured(*document, *result); },
        [this, result](const std::optional<Comparison>& comparison) {
            if (comparison) {
                page_.showComparison(*result, *comparison);
            }
        },
        [this](const QString& error) { Q_EMIT said(error); });
}

void ScenarioTools::pin() {
    const QString name = model_->isAsRecorded() ? (model_->hasRecording() ? tr("As recorded") : tr("Default"))
                                                : tr("Scenario %1").arg(numPinned_ + 1);
    const std::size_t before = pins_->scenarios().size();
    pins_->pin(model_->resultWithNoise(), name);
    numPinned_ += pins_->scenarios().size() > before && !model_->isAsRecorded() ? 1 : 0;
    Q_EMIT pinned();
}

const Simulation* ScenarioTools::movable() {
    const std::shared_ptr<const SimulatedScenario>& result = model_->result();
    if (page_.baseline()) {
        Q_EMIT said(tr("This is an earlier run. File ▸ Back to the simulation shows the simulated timeline."));
    } else if (!result || !result->runs()) {
        Q_EMIT said(tr("There is no scenario that can run."));
    } else if (model_->isBehind()) {
        Q_EMIT said(tr("The scenario is still being simulated."));
    } else {
        return &result->simulation;
    }
    return nullptr;
}

void ScenarioTools::moveTask(int by) {
    const Simulation* simulation = movable();
    const std::optional<TaskSelection>& selection = page_.axis().selection();
    const std::optional<SliceRef> slice = selection ? selection->in(Source::simulated) : std::nullopt;
    if (simulation == nullptr || !slice) {
        if (simulation != nullptr) {
            Q_EMIT said(tr("Select a task of the simulated timeline to move it."));
        }
        return;
    }
    const TaskKey task = page_.document()->simulated->slice(*slice).key;
    try {
        const PlaceInLane place = placeInLane(tableOf(*simulation), task);
        if (by < 0 ? place.index == 0 : place.index + 1 == place.count) {
            Q_EMIT said(by < 0 ? tr("%1 is the first task of its lane.").arg(taskName(task))
                               : tr("%1 is the last task of its lane.").arg(taskName(task)));
            return;
        }
        moveTaskTo(*simulation, task, by < 0 ? place.index - 1 : place.index + 1);
    } catch (const Error& error) {
        Q_EMIT said(QString::fromUtf8(error.what()));
    }
}

void ScenarioTools::moveTaskBefore(SliceRef slice, std::uint32_t before) {
    const Simulation* simulation = movable();
    if (simulation == nullptr) {
        return;
    }
    const TimelineStore& store = *page_.document()->simulated;
    const TaskKey task = store.slice(slice).key;
    try {
        const ScheduleTable table = tableOf(*simulation);
        const PlaceInLane place = placeInLane(table, task);
        // Recomputes and losses between them have no place of their own.
        std::set<TaskKey> ahead;
        for (std::uint32_t index = 0; index < std::min<std::size_t>(before, store.rows()[slice.row].start.size());
             ++index) {
            TaskKey key = store.slice({slice.row, index}).key;
            if (key.step == task.step) {  // others are of steps that overlap it
                key.step = 0;
                ahead.insert(key);
            }
        }
        TaskKey own = task;
        own.step = 0;
        ahead.erase(own);
        const std::vector<TaskKey> tasks = tasksOf(table, place.lane);
        const auto index = std::ranges::count_if(tasks, [&](const TaskKey& each) { return ahead.contains(each); });
        if (static_cast<std::size_t>(index) != place.index) {
            moveTaskTo(*simulation, task, static_cast<std::size_t>(index));
        }
    } catch (const Error& error) {
        Q_EMIT said(QString::fromUtf8(error.what()));
    }
}

void ScenarioTools::moveTaskTo(const Simulation& simulation, const TaskKey& task, std::size_t index) {
    const Schedule schedule = withTaskAt(simulation, task, index);
    const Nanoseconds before = figures_without_noise(simulation).step;
    const Scenario next = withSchedule(*model_->profile(), model_->scenario(), schedule);
    moved_ = MovedTask{task, before};
    change(next, tr("place of %1").arg(taskName(task)));
}

void ScenarioTools::tellMove() {
    if (told_ && !(model_->scenario() == told_->of)) {
        Q_EMIT outdated(std::exchange(told_, std::nullopt)->text);
    }
    if (!moved_ || model_->isBehind()) {
        return;
    }
    const MovedTask moved = *std::exchange(moved_, std::nullopt);
    const SimulatedScenario& result = *model_->result();
    if (!result.runs()) {
        Q_EMIT said(result.messages.front().text);
        return;
    }
    const Nanoseconds step = figures_without_noise(result.simulation).step;
    const auto ratio =
        static_cast<double>(step.count()) / static_cast<double>(std::max<std::int64_t>(1, moved.before.count()));
    told_ = ToldMove{tr("Moved %1: step time %2 without noise (%3 relative to the previous order).")
                         .arg(taskName(moved.task), formatDuration(step.count()), formatShareChange(ratio - 1)),
                     model_->scenario()};
    Q_EMIT said(told_->text);
}

void ScenarioTools::saveSchedule(const QString& path) {
    const Simulation* simulation = movable();
    if (simulation == nullptr) {
        return;
    }
    try {
        saveFile(path, QByteArray::fromStdString(to_csv(tableOf(*simulation))));
        Q_EMIT said(tr("Wrote %1. Simulate it with --schedule, and the other options as they are.").arg(path));
    } catch (const Error& error) {
        Q_EMIT said(QString::fromUtf8(error.what()));
    }
}

void ScenarioTools::tryMove(const Move& move) {
    change(asAsked(move.simulation.options, model_->recorded().deviceType), QString::fromStdString(move.title));
}

void ScenarioTools::change(const Scenario& scenario, const QString& what) {
    model_->startGesture();
    model_->change(scenario, what);
}

void ScenarioTools::open(const Scenario& scenario, const QString& what) {
    change(scenario, what);
    Q_EMIT opened();
}
}  // namespace pipescope
