#include "gui/plan/plan_view.h"

#include "gui/plan/pareto_chart.h"
#include "gui/plan/plan_form.h"
#include "gui/plan/plan_table_model.h"
#include "gui/style/arrange.h"
#include "gui/style/enter_key.h"
#include "gui/style/image_export.h"
#include "gui/style/number_format.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"

#include <QCheckBox>
#include <QFileDialog>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QSplitter>
#include <QTableView>

#include <algorithm>

namespace pipescope {
PlanView::PlanView(QWidget* parent, PlanRunner::Planner planner)
    : QWidget(parent),
      runner_(new PlanRunner(this, std::move(planner))),
      model_(new PlanTableModel(this)),
      filter_(new PlanFilter(this)),
      chart_(new ParetoChart(this)) {
    filter_->setSourceModel(model_);
    createTable();
    auto* right = new QWidget(this);
    auto* results = new QSplitter(Qt::Horizontal, right);
    results->addWidget(table_);
    results->addWidget(chart_);
    results->setStretchFactor(0, 3);
    results->setStretchFactor(1, 2);
    arrange(new QVBoxLayout(right), {0, 0, 0, 0}, 2, {createTop(), {results, 1}});
    auto* split = new QSplitter(Qt::Horizontal, this);
    split->addWidget(createSide());
    split->addWidget(right);
    split->setStretchFactor(1, 1);
    split->setChildrenCollapsible(false);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, -1, {split});
    setFocusProxy(&form_->partitions());
    connectAll();
    setProfile(nullptr, {});
}

PlanView::~PlanView() = default;

void PlanView::createTable() {
    table_ = named(new QTableView(this), tr("Candidates of the plan"));
    table_->setModel(filter_);
    table_->setSortingEnabled(true);
    table_->sortByColumn(PlanTableModel::rank, Qt::AscendingOrder);
    makeCompact(*table_);
    table_->horizontalHeader()->setStretchLastSection(true);
    // Columns that matter for a choice come first, visible without scrolling. Files keep the model's order.
    QHeaderView& header = *table_->horizontalHeader();
    int place = PlanTableModel::rank + 1;
    for (const PlanTableModel::Column column :
         {PlanTableModel::expectedStep, PlanTableModel::stepTime, PlanTableModel::peak, PlanTableModel::lanes}) {
        header.moveSection(header.visualIndex(column), place++);
    }
    table_->setColumnHidden(PlanTableModel::expectedStep, true);
    table_->resizeColumnsToContents();  // to the header, until there is a plan
    table_->installEventFilter(this);
}

QWidget* PlanView::createSide() {
    auto* side = new QWidget(this);
    form_ = new PlanForm(side);
    auto* scroll = named(new QScrollArea(side), tr("What is planned"));
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setWidget(form_);
    scroll->setMinimumWidth(form_->sizeHint().width() + 16);
    run_ = new QPushButton(tr("&Plan"), side);
    progress_ = named(new QProgressBar(side), tr("Progress of the plan"));
    progress_->setRange(0, 1000);
    auto* line = arrange(new QHBoxLayout, {8, 0, 8, 4}, -1, {run_, {progress_, 1}});
    arrange(new QVBoxLayout(side), {0, 0, 0, 0}, -1, {{scroll, 1}, line});
    return side;
}

QWidget* PlanView::createTop() {
    auto* top = new QWidget(this);
    message_ = new QLabel(top);
    message_->setWordWrap(true);
    message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    filterText_ = new FilterLine(*table_, tr("Filter the candidates"), top);
    filterText_->setPlaceholderText(tr("filter, such as: always 1f1b"));
    filterText_->setMaximumWidth(fontMetrics().averageCharWidth() * 30);
    auto* fits = new QCheckBox(tr("&fits"), top);
    auto* pareto = new QCheckBox(tr("Paret&o"), top);
    connect(fits, &QCheckBox::toggled, filter_, &PlanFilter::setFeasibleOnly);
    connect(pareto, &QCheckBox::toggled, filter_, &PlanFilter::setParetoOnly);
    auto* saveTableAs = new QPushButton(tr("Save &table…"), top);
    auto* saveChartAs = new QPushButton(tr("Save &chart…"), top);
    connect(saveTableAs, &QPushButton::clicked, this, [this] { askForExport(false); });
    connect(saveChartAs, &QPushButton::clicked, this, [this] { askForExport(true); });
    arrange(new QHBoxLayout(top), {4, 2, 4, 0}, -1,
            {{message_, 1}, filterText_, fits, pareto, saveTableAs, saveChartAs});
    return top;
}

void PlanView::connectAll() {
    connect(run_, &QPushButton::clicked, this, [this] { runner_->isRunning() ? cancel() : start(); });
    connect(runner_, &PlanRunner::progressed, this,
            [this](double done) { progress_->setValue(static_cast<int>(done * 1000)); });
    connect(runner_, &PlanRunner::planned, this, &PlanView::showPlan);
    connect(runner_, &PlanRunner::failed, this, [this](const QString& text) {
        showRunning(false);
        message_->setText(text);
        Q_EMIT finished();
    });
    connect(form_, &PlanForm::refused, message_, &QLabel::setText);
    connect(filterText_, &QLineEdit::textChanged, filter_, &PlanFilter::setText);
    connect(table_, &QTableView::doubleClicked, this, &PlanView::openRow);
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& row) { chart_->select(candidateOf(row)); });
    connect(chart_, &ParetoChart::picked, this, &PlanView::selectCandidate);
    connect(chart_, &ParetoChart::activated, this, &PlanView::openCandidate);
}

void PlanView::follow(const PipelineOptions& options) {
    form_->follow(options);
}

void PlanView::setProfile(std::shared_ptr<const Profile> profile, const PipelineOptions& options) {
    runner_->drop();
    profile_ = std::move(profile);
    form_->setOptions(options);
    model_->setPlan(nullptr);
    chart_->setPlan(nullptr);
    run_->setEnabled(profile_ != nullptr);
    showRunning(false);
    message_->setText(profile_ ? tr("Plan tries every combination with its best balance.")
                               : tr("Nothing to plan: this file has no profile."));
}

void PlanView::start() {
    if (!profile_) {
        return;
    }
    try {
        runner_->start(profile_, form_->request(*profile_));
    } catch (const Error& error) {
        message_->setText(QString::fromUtf8(error.what()));
        return;
    }
    message_->setText(tr("Planning…"));
    showRunning(true);
}

void PlanView::showRunning(bool running) {
    run_->setText(running ? tr("&Cancel") : tr("&Plan"));
    progress_->setVisible(running);
    progress_->setValue(0);
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
    return plan.cancelled ? tr("Cancelled. %1").arg(text.trimmed()) : text.trimmed();
}

void PlanView::showPlan(std::shared_ptr<const Plan> plan) {
    showRunning(false);
    message_->setText(summary(*plan));
    model_->setPlan(plan);
    const bool onDevices = std::any_of(plan->candidates.begin(), plan->candidates.end(),
                                       [](const PlanCandidate& each) { return !each.device_type.empty(); });
    table_->setColumnHidden(PlanTableModel::device, !onDevices);
    table_->setColumnHidden(PlanTableModel::expectedStep, !model_->hasNoise());
    chart_->setPlan(std::move(plan));
    table_->resizeColumnsToContents();
    table_->setColumnWidth(PlanTableModel::balance, std::min(table_->columnWidth(PlanTableModel::balance),
                                                             fontMetrics().averageCharWidth() * 24));
    if (filter_->rowCount() > 0) {
        table_->selectRow(0);
    }
    Q_EMIT finished();
}

std::optional<std::size_t> PlanView::candidateOf(const QModelIndex& row) const {
    return row.isValid() ? std::optional(static_cast<std::size_t>(filter_->mapToSource(row).row())) : std::nullopt;
}

void PlanView::openRow(const QModelIndex& row) {
    if (const std::optional<std::size_t> candidate = candidateOf(row)) {
        openCandidate(*candidate);
    }
}

void PlanView::openCandidate(std::size_t candidate) {
    const PlanCandidate& each = model_->plan()->candidates[candidate];
    Q_EMIT opened(asAsked(each.simulation.options, each.device_type));
}

void PlanView::selectCandidate(std::size_t candidate) {
    const QModelIndex row = filter_->mapFromSource(model_->index(static_cast<int>(candidate), 0));
    if (row.isValid()) {
        table_->selectRow(row.row());
        table_->scrollTo(row);
    }
}

void PlanView::exportTable(const QString& path) const {
    saveTable(*filter_, path);
}

void PlanView::exportChart(const QString& path) const {
    saveImage(*chart_, path);
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
        message_->setText(tr("Saved %1.").arg(path));
    } catch (const Error& error) {
        message_->setText(QString::fromUtf8(error.what()));
    }
}

bool PlanView::hasPlan() const {
    return model_->plan() != nullptr;
}

QString PlanView::message() const {
    return message_->text();
}

bool PlanView::eventFilter(QObject* watched, QEvent* event) {
    if (watched == table_ && pressesEnter(*event)) {
        openRow(table_->currentIndex());
        return true;
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
