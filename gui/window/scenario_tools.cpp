#include "gui/window/scenario_tools.h"

#include "gui/plan/plan_view.h"
#include "gui/style/work_pool.h"
#include "gui/what_if/advice_panel.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/page_model.h"

#include <QTimer>
#include <QUndoStack>
#include <QWidget>

#include <optional>

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
      compareTimer_(new QTimer(this)) {
    panels_ = {panel_, advice_, balance_, pins_, plan_};
    compareTimer_->setSingleShot(true);
    compareTimer_->setInterval(kCompareDelay);
    connect(compareTimer_, &QTimer::timeout, this, &ScenarioTools::compare);
    connect(model_, &ScenarioModel::simulated, this, &ScenarioTools::show);
    connect(model_, &ScenarioModel::scenarioChanged, this, [this] { plan_->follow(model_->scenario().options); });
    connect(panel_, &WhatIfPanel::pinRequested, this, &ScenarioTools::pin);
    connect(advice_, &AdvicePanel::tried, this, &ScenarioTools::change);
    connect(pins_, &PinnedScenarios::opened, this,
            [this](const Scenario& scenario) { open(scenario, tr("pinned scenario")); });
    connect(plan_, &PlanView::opened, this,
            [this](const Scenario& scenario) { open(scenario, tr("candidate of the plan")); });
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
    const std::shared_ptr<const Profile> profile = isKnown ? document->run.profile : nullptr;
    const bool same = profile && model_->profile() && *profile == *model_->profile() &&
                      (!recorded || *recorded == model_->recorded());
    if (same) {
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
    model_->setProfile(profile, recorded, document && document->measured,
                       recorded ? stepBand(*document->simulation) : std::nullopt);
    plan_->setProfile(profile, model_->recorded().options);
}

void ScenarioTools::show() {
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
        });
}

void ScenarioTools::pin() {
    const QString name = model_->isAsRecorded() ? (model_->hasRecording() ? tr("As recorded") : tr("Default"))
                                                : tr("Scenario %1").arg(numPinned_ + 1);
    const std::size_t before = pins_->scenarios().size();
    pins_->pin(model_->resultWithNoise(), name);
    numPinned_ += pins_->scenarios().size() > before && !model_->isAsRecorded() ? 1 : 0;
    Q_EMIT pinned();
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
