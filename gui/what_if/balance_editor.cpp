#include "gui/what_if/balance_editor.h"

#include "gui/style/arrange.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/what_if/balance_bar.h"
#include "gui/what_if/scenario_model.h"

#include <QComboBox>
#include <QLabel>
#include <QPushButton>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kCutControl = 1000;  // after the panel's controls; one for each cut
}  // namespace

BalanceEditor::BalanceEditor(ScenarioModel& model, QWidget* parent)
    : QWidget(parent), model_(model), bar_(new BalanceBar(this)) {
    hint_ = new QLabel(
        tr("Drag a cut; or Tab to it, ← → move it by a layer, with Shift by ten. Circles: the best cuts."), this);
    QPalette faint = hint_->palette();
    faint.setColor(QPalette::WindowText, faint.color(QPalette::PlaceholderText));
    hint_->setPalette(faint);
    hint_->setContentsMargins(8, 0, 8, 2);
    hint_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    arrange(new QVBoxLayout(this), {0, 4, 0, 0}, 2, {createTop(), {bar_, 1}, hint_});
    setFocusProxy(bar_);
    connect(bar_, &BalanceBar::gestureStarted, &model_, &ScenarioModel::startGesture);
    connect(bar_, &BalanceBar::cutMoved, this, [this](std::size_t cut, std::int64_t layer) {
        Scenario next = model_.scenario();
        next.options.balance = withCut(next.options.balance, cut, layer);
        model_.change(next, tr("cut %1").arg(cut + 1), kCutControl + static_cast<int>(cut));
    });
    connect(&model_, &ScenarioModel::profileChanged, this, &BalanceEditor::refresh);
    connect(&model_, &ScenarioModel::simulated, this, &BalanceEditor::refresh);
    connect(&model_, &ScenarioModel::optimalBalanceChanged, this, &BalanceEditor::refresh);
    refresh();
}

QWidget* BalanceEditor::createTop() {
    auto* top = new QWidget(this);
    facts_ = new ElidedLabel(top);
    auto* label = new QLabel(tr("Layers as &wide as their"), top);
    auto* width = named(new QComboBox(top), tr("What a layer's width stands for"));
    width->addItems({tr("time"), tr("memory"), tr("number")});
    label->setBuddy(width);
    connect(width, &QComboBox::currentIndexChanged, bar_,
            [this](int index) { bar_->setLayerWidth(static_cast<LayerWidth>(index)); });
    auto* best = new QPushButton(tr("Best &cuts"), top);
    best->setToolTip(tr("Cut where the simulated step is shortest"));
    connect(best, &QPushButton::clicked, &model_, [this] { model_.applyBalance(BalanceAlgorithm::optimal); });
    arrange(new QHBoxLayout(top), {8, 0, 8, 0}, -1, {{facts_, 1}, label, width, best});
    return top;
}

void BalanceEditor::refresh() {
    bar_->setEnabled(!model_.isEmpty());
    if (model_.isEmpty()) {
        facts_->setText(tr("No profile, no balance: open a profile, or a trace that holds one."));
        bar_->setScene({});
        return;
    }
    const Scenario& scenario = model_.scenario();
    const PipelineOptions& options = scenario.options;
    BalanceScene scene{
        model_.profile(), layerSums(*model_.profile(), scenario), options.balance, model_.optimalBalance(), {}, {}};
    const std::shared_ptr<const SimulatedScenario>& result = model_.result();
    if (result && result->runs() && result->scenario == scenario) {
        const Simulation& simulation = result->simulation;
        const std::vector<Bytes> limits = memory_limits_of(options.hardware, static_cast<int>(simulation.lanes.size()));
        for (const SimulatedPartition& partition : simulation.partitions) {
            if (simulation.memory_unknown) {
                break;
            }
            scene.peaks.push_back(simulation.lanes[partition.lane.index()].peak_bytes);
            if (!limits.empty()) {
                scene.limits.push_back(limits[partition.lane.index()]);
            }
        }
    }
    double longest = 0;
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        longest = std::max(longest, scene.sums.timeOf(options.balance.layers_of(PartitionId{static_cast<int>(j)})));
    }
    const double mean = scene.sums.time.back() / static_cast<double>(options.balance.num_partitions());
    QString facts = tr("Largest partition %1 a micro-batch").arg(formatDuration(static_cast<std::int64_t>(longest)));
    if (mean > 0) {
        facts += tr(", %1 above the mean").arg(formatShare(longest / mean - 1));
    }
    if (scene.ghost) {
        facts += *scene.ghost == options.balance ? tr("; these are the best cuts") : tr("; better cuts are known");
    }
    facts_->setText(facts);
    bar_->setScene(std::move(scene));
}

QString BalanceEditor::facts() const {
    return facts_->text();
}
}  // namespace pipescope
