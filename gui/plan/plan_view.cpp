#include "gui/plan/plan_view.h"

#include "gui/plan/pareto_chart.h"
#include "gui/plan/plan_form.h"
#include "gui/plan/plan_table_model.h"
#include "gui/style/image_export.h"
#include "gui/style/number_format.h"
#include "gui/tables/table_export.h"
#include "simulator/model_error.h"

#include <QCheckBox>
#include <QFileDialog>
#include <QHeaderView>
#include <QPushButton>
#include <QTableView>

#include <algorithm>

namespace pipescope {
PlanView::PlanView(QWidget* parent, PlanRunner::Planner planner)
    : CandidatesView(parent),
      runner_(new PlanRunner(this, std::move(planner))),
      model_(new PlanTableModel(this)),
      filter_(new PlanFilter(this)) {
    filter_->setSourceModel(model_);
    auto* fits = new QCheckBox(tr("&fits"), this);
    auto* pareto = new QCheckBox(tr("Paret&o"), this);
    auto* saveTableAs = new QPushButton(tr("Save &table…"), this);
    auto* saveChartAs = new QPushButton(tr("Save &chart…"), this);
    form_ = new PlanForm(this);
    arrangeParts({.form = *form_,
                  .candidates = *filter_,
                  .tableName = tr("Candidates of the plan"),
                  .formName = tr("What is planned"),
                  .filterHint = tr("filter, such as: always 1f1b"),
                  .beside = {fits, pareto, saveTableAs, saveChartAs}});
    arrangeColumns();
    setFocusProxy(&form_->partitions());
    connect(fits, &QCheckBox::toggled, filter_, &PlanFilter::setFeasibleOnly);
    connect(pareto, &QCheckBox::toggled, filter_, &PlanFilter::setParetoOnly);
    connect(saveTableAs, &QPushButton::clicked, this, [this] { askForExport(false); });
    connect(saveChartAs, &QPushButton::clicked, this, [this] { askForExport(true); });
    connect(&button(), &QPushButton::clicked, this, [this] { runner_->isRunning() ? cancel() : start(); });
    connect(runner_, &PlanRunner::progressed, this, &PlanView::showProgress);
    connect(runner_, &PlanRunner::planned, this, &PlanView::showPlan);
    connect(runner_, &PlanRunner::failed, this, [this](const QString& text) {
        showRunning(false);
        say(text);
        Q_EMIT finished();
    });
    connect(form_, &PlanForm::refused, this, &PlanView::say);
    setProfile(std::nullopt, {});
}

PlanView::~PlanView() = default;

void PlanView::arrangeColumns() {
    table().setSortingEnabled(true);
    table().sortByColumn(PlanTableModel::rank, Qt::AscendingOrder);
    // Columns that matter for a choice come first, visible without scrolling. Files keep the model's order.
    QHeaderView& header = *table().horizontalHeader();
    int place = PlanTableModel::rank + 1;
    for (const PlanTableModel::Column column :
         {PlanTableModel::expectedStep, PlanTableModel::stepTime, PlanTableModel::peak, PlanTableModel::lanes}) {
        header.moveSection(header.visualIndex(column), place++);
    }
    table().setColumnHidden(PlanTableModel::expectedStep, true);
    table().resizeColumnsToContents();  // to the header, until there is a plan
}

void PlanView::follow(const PipelineOptions& options) {
    form_->follow(options);
}

void PlanView::setProfile(std::optional<CheckedProfile> profile, const PipelineOptions& options, const QString& part) {
    runner_->drop();
    profile_ = std::move(profile);
    ofPart_ = part.isEmpty()
                  ? QString()
                  : tr(" Steps, rates and costs are those of %1, without what follows it. Plan for a cluster "
                       "gives whole steps.")
                        .arg(part);
    form_->setOptions(options);
    model_->setPlan(nullptr);
    chart().setPlan(nullptr);
    button().setEnabled(profile_.has_value());
    showRunning(false);
    say(profile_ ? tr("Plan tries every combination with its best balance.") + ofPart_
                 : tr("Nothing to plan: this file has no profile."));
}

void PlanView::setModelError(const std::optional<ModelError>& error) {
    const QString text =
        error ? QLatin1Char(' ') + capitalised(QString::fromStdString(model_error_text(*error))) + QLatin1Char('.')
              : QString();
    ofError_ = text;
}

void PlanView::start() {
    if (!profile_) {
        return;
    }
    try {
        runner_->start(*profile_, form_->request(*profile_));
    } catch (const Error& error) {
        say(QString::fromUtf8(error.what()));
        return;
    }
    say(tr("Planning…"));
    showRunning(true);
}

QString PlanView::summary(const Plan& plan) const {
    QString text;
    if (plan.best) {
        const Simulation& best = plan.candidates[*plan.best].simulation;
        text = tr("Best: %1, %2, checkpoint %3, step %4.")
                   .arg(formatCount(best.lanes.size(), tr("lane"), tr("lanes")),
                        formatCount(best.micro_batches, tr("micro-batch"), tr("micro-batches")),
                        QString::fromStdString(to_string(best.options.checkpoint)),
                        formatDuration(expected_step(best).count()));
    } else if (plan.infeasible_because) {
        text = tr("Nothing fits: %1.").arg(QString::fromStdString(*plan.infeasible_because));
    }
    text += tr(" %1.").arg(formatCount(plan.candidates.size(), tr("candidate"), tr("candidates")));
    text = text.trimmed() + ofPart_ + ofError_;
    return plan.cancelled ? tr("Cancelled. %1").arg(text) : text;
}

void PlanView::showPlan(std::shared_ptr<const Plan> plan) {
    showRunning(false);
    say(summary(*plan));
    model_->setPlan(plan);
    const bool onDevices = std::any_of(plan->candidates.begin(), plan->candidates.end(),
                                       [](const PlanCandidate& each) { return !each.device_type.empty(); });
    table().setColumnHidden(PlanTableModel::device, !onDevices);
    table().setColumnHidden(PlanTableModel::expectedStep, !model_->hasNoise());
    chart().setPlan(std::move(plan));
    table().resizeColumnsToContents();
    table().setColumnWidth(PlanTableModel::balance, std::min(table().columnWidth(PlanTableModel::balance),
                                                             fontMetrics().averageCharWidth() * 24));
    if (filter_->rowCount() > 0) {
        table().selectRow(0);
    }
    Q_EMIT finished();
}

void PlanView::openCandidate(std::size_t candidate) {
    const PlanCandidate& each = model_->plan()->candidates[candidate];
    Q_EMIT opened(asAsked(each.simulation.options, each.device_type));
}

void PlanView::exportTable(const QString& path) const {
    saveTable(*filter_, path);
}

void PlanView::exportChart(const QString& path) const {
    saveImage(chart(), path);
}

void PlanView::askForExport(bool chart) {
    const QString path = QFileDialog::getSaveFileName(
        this, chart ? tr("Save the chart") : tr("Save the table"), chart ? tr("plan.png") : tr("plan.csv"),
        chart ? tr("Images (*.png *.svg *.pdf)") : tr("Tables (*.csv *.json)"));
    if (path.isEmpty()) {
        return;
    }
    try {
        chart ? exportChart(path) : exportTable(path);
        say(tr("Saved %1.").arg(path));
    } catch (const Error& error) {
        say(QString::fromUtf8(error.what()));
    }
}

bool PlanView::hasPlan() const {
    return model_->plan() != nullptr;
}
}  // namespace pipescope
