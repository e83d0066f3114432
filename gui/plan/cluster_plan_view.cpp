#include "gui/plan/cluster_plan_view.h"

#include "analysis/stored_simulation.h"
#include "cluster/step_parts.h"
#include "gui/style/arrange.h"
#include "gui/style/enter_key.h"
#include "gui/style/number_format.h"
#include "gui/tables/filtered_table.h"
#include "schedule/error.h"
#include "simulator/number_ranges.h"
#include "simulator/planner.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>
#include <QTimer>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <filesystem>
#include <functional>
#include <utility>

namespace pipescope {
namespace {
constexpr int kClusterPlanPeriod = 50;  // ms
constexpr double kDay = 24;

QString asQString(const std::string& text) {
    return QString::fromStdString(text);
}

QString durationOfHours(double hours) {
    constexpr double kNever = 1e7;  // a thousand years
    return !(hours < kNever)   ? ClusterPlanView::tr("never")
           : hours >= 2 * kDay ? ClusterPlanView::tr("%1 days").arg(hours / kDay, 0, 'f', 1)
                               : formatDuration(std::llround(hours * 3600e9));
}

std::vector<TableColumn<const ClusterCandidate*>> clusterPlanColumns() {
    using Row = const ClusterCandidate*;
    const auto tr = [](const char* text) { return ClusterPlanView::tr(text); };
    const Qt::Alignment left = Qt::AlignLeft;
    const Qt::Alignment right = Qt::AlignRight;
    return {
        {tr("Devices"), "devices", right, [](const Row& c) { return c->step.layout.devices(); }},
        {tr("Type"), "type", left, [](const Row& c) { return asQString(c->step.device); }},
        {tr("Layout"), "layout", left, [](const Row& c) { return asQString(to_string(c->step.layout)); }},
        {tr("Schedule"), "schedule", left,
         [](const Row& c) { return asQString(to_string(c->step.simulation.options.schedule)); }},
        {tr("Step"), "step_ns", right, [](const Row& c) { return formatDuration(std::llround(c->step.step_ns())); },
         [](const Row& c) { return c->step.step_ns(); }},
        {tr("Peak"), "peak_bytes", right, [](const Row& c) { return formatBytes(highest_peak(c->step.simulation)); },
         [](const Row& c) { return qlonglong{highest_peak(c->step.simulation)}; }},
        {tr("Run"), "run_hours", right, [](const Row& c) { return durationOfHours(c->run_hours); },
         [](const Row& c) { return c->run_hours; }},
        {tr("Cost"), "cost", right, [](const Row& c) { return QString::number(c->cost, 'g', 6); },
         [](const Row& c) { return c->cost; }},
        {tr("Nodes"), "nodes", right, [](const Row& c) { return c->nodes; }},
        {tr("Spares"), "spare_nodes", right, [](const Row& c) { return c->spare_nodes; }},
        {tr("Effective"), "effective_share", right, [](const Row& c) { return formatShare(c->checkpoints.effective); },
         [](const Row& c) { return c->checkpoints.effective; }},
        {tr("TFLOP/s"), "tflops_per_device", right,
         [](const Row& c) { return QString::number(c->step.tflops_per_device(), 'f', 1); },
         [](const Row& c) { return c->step.tflops_per_device(); }},
        {tr("Recompute"), "recompute", left,
         [](const Row& c) { return asQString(to_string(c->step.layout.recompute)); }},
        {tr("ZeRO"), "zero", right, [](const Row& c) { return c->step.layout.zero; }},
        {tr("Pareto"), "pareto", left, [](const Row& c) { return c->pareto ? ClusterPlanView::tr("yes") : QString(); }},
        {tr("Step consists of"), "reason", left, [](const Row& c) { return asQString(c->reason); }}};
}

[[noreturn]] void refuseInput(const QString& what, const QString& text, const QString& rule) {
    throw UsageError((what + ClusterPlanView::tr(" is '%1'; %2; correct it").arg(text, rule)).toStdString());
}

Cluster clusterOf(const ClusterPlanInput& input) {
    if (input.cluster.isEmpty()) {
        throw UsageError("no cluster is named; a plan needs a cluster file; choose one");
    }
    return load_cluster(input.cluster.toStdString(), device_catalogue());
}

bool isModel(const ClusterPlanInput& input) {
    return !input.model.isEmpty();
}

PipelineOptions profileOptions() {
    PipelineOptions options;
    options.checkpoint = Checkpoint::never;
    return options;
}

ClusterPlan clusterPlanOf(const ClusterPlanInput& input, std::function<bool(double)> progress) {
    const Cluster cluster = clusterOf(input);
    ClusterPlanRequest request;
    request.progress = std::move(progress);
    request.goal = input.goal;
    bool isNumber = false;
    request.layout.batch = input.batch.toLongLong(&isNumber);
    if (!isNumber || request.layout.batch < 1) {
        refuseInput(ClusterPlanView::tr("the batch"), input.batch, ClusterPlanView::tr("it is a whole number from 1"));
    }
    if (!input.devices.isEmpty()) {
        const std::vector<NumberRange> ranges = parse_ranges(input.devices.toStdString(), "devices");
        constexpr std::int64_t kMostDevices = 1'000'000'000;
        const auto bounded = [&](std::int64_t number) { return static_cast<int>(std::min(kMostDevices, number)); };
        request.least_devices = bounded(std::ranges::min(ranges, {}, &NumberRange::first).first);
        request.most_devices = bounded(std::ranges::max(ranges, {}, &NumberRange::last).last);
    }
    if (!input.tokens.isEmpty()) {
        constexpr double kMostTokens = 1e18;
        request.tokens = input.tokens.toDouble(&isNumber);
        if (!isNumber || !(request.tokens >= 0 && request.tokens <= kMostTokens)) {
            refuseInput(ClusterPlanView::tr("the number of tokens"), input.tokens,
                        ClusterPlanView::tr("it is a number such as 1e12"));
        }
    }
    if (isModel(input)) {
        return plan_cluster(parse_language_model(input.model.toStdString()), cluster, request);
    }
    if (!input.profile) {
        throw UsageError(
            "no model is named, and no open file has a profile; a plan needs one; name gpt:.. as the model");
    }
    if (request.tokens > 0) {
        refuseInput(ClusterPlanView::tr("the number of tokens"), input.tokens,
                    ClusterPlanView::tr("a profile does not know the tokens of a sample, so it is left out"));
    }
    request.layout.dtype = input.profile->dtype;
    return plan_cluster(*input.profile, profileOptions(), cluster, request);
}

LayoutStep simulatedCandidate(const ClusterPlanInput& input, const Layout& layout, const std::string& device) {
    const Cluster cluster = clusterOf(input);
    const PipelineParts parts = parse_pipeline_parts(device, cluster, layout.pipeline);
    return isModel(input) ? simulate_layout(parse_language_model(input.model.toStdString()), cluster, parts, layout)
                          : simulate_layout(*input.profile, profileOptions(), cluster, parts, layout);
}

struct ClusterPlanOutcome {
    std::shared_ptr<const ClusterPlan> plan;  // null: see error
    QString error;
};
}  // namespace

ClusterPlanModel::ClusterPlanModel(QObject* parent) : ColumnModel(clusterPlanColumns(), parent) {}

void ClusterPlanModel::setPlan(std::shared_ptr<const ClusterPlan> plan) {
    beginResetModel();
    plan_ = std::move(plan);
    endResetModel();
}

int ClusterPlanModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || !plan_ ? 0 : static_cast<int>(plan_->candidates.size());
}

const ClusterCandidate* ClusterPlanModel::rowOf(const QModelIndex& index) const {
    return &plan_->candidates[static_cast<std::size_t>(index.row())];
}

ClusterPlanView::ClusterPlanView(QWidget* parent)
    : QWidget(parent),
      timer_(new QTimer(this)),
      candidates_(new ClusterPlanModel(this)),
      filter_(new TableFilter(this)) {
    filter_->setSourceModel(candidates_);
    auto* side = createSide();
    createTable();
    message_ = new QLabel(this);
    message_->setWordWrap(true);
    message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    message_->setText(tr("Name a model and a cluster file, then plan. A double click opens a candidate."));
    auto* words = new FilterLine(*table_, tr("Filter the candidates"), this);
    words->setPlaceholderText(tr("filter, such as: H100 pareto"));
    words->setMaximumWidth(fontMetrics().averageCharWidth() * 30);
    connect(words, &QLineEdit::textChanged, filter_, &TableFilter::setText);
    auto* right = new QWidget(this);
    auto* top = arrange(new QHBoxLayout, {4, 2, 4, 0}, -1, {{message_, 1}, words});
    arrange(new QVBoxLayout(right), {0, 0, 0, 0}, 2, {top, {table_, 1}});
    auto* split = new QSplitter(Qt::Horizontal, this);
    split->addWidget(side);
    split->addWidget(right);
    split->setStretchFactor(1, 1);
    split->setChildrenCollapsible(false);
    arrange(new QVBoxLayout(this), {0, 0, 0, 0}, -1, {split});
    setFocusProxy(model_);
    timer_->setInterval(kClusterPlanPeriod);
    connect(timer_, &QTimer::timeout, this, [this] {
        if (done_) {
            constexpr int kThousandths = 1000;
            progress_->setValue(static_cast<int>(*done_ * kThousandths));
        }
    });
    connect(run_, &QPushButton::clicked, this, [this] { planning_.isRunning() ? cancel() : start(); });
    connect(table_, &QTableView::doubleClicked, this, &ClusterPlanView::openRow);
    showRunning(false);
}

ClusterPlanView::~ClusterPlanView() {
    planning_.cancel();
}

QWidget* ClusterPlanView::createSide() {
    auto* side = new QWidget(this);
    const auto field = [&](const QString& name, const QString& hint) {
        auto* edit = named(new QLineEdit(side), name);
        edit->setPlaceholderText(hint);
        edit->setMinimumWidth(fontMetrics().averageCharWidth() * 24);
        connect(edit, &QLineEdit::returnPressed, this, &ClusterPlanView::start);
        return edit;
    };
    model_ = field(tr("Model"), tr("the open file's profile, or gpt:layers=24,…"));
    model_->setToolTip(tr("gpt:layers=48,hidden=8192,heads=64,sequence=2048,vocabulary=51200; empty: the profile"));
    cluster_ = field(tr("Cluster file"), tr("cluster.json"));
    batch_ = field(tr("Batch"), tr("samples of a step"));
    batch_->setText(QStringLiteral("512"));
    devices_ = field(tr("Devices"), tr("all, or 64..512"));
    tokens_ = field(tr("Tokens"), tr("one step, or 1e12"));
    goal_ = named(new QComboBox(side), tr("Rank by"));
    for (const ClusterGoal goal : {ClusterGoal::step, ClusterGoal::cost, ClusterGoal::time}) {
        goal_->addItem(asQString(to_string(goal)), static_cast<int>(goal));
    }
    auto* choose = new QPushButton(tr("C&hoose…"), side);
    connect(choose, &QPushButton::clicked, this, &ClusterPlanView::chooseCluster);
    auto* clusterLine = new QWidget(side);
    arrange(new QHBoxLayout(clusterLine), {0, 0, 0, 0}, 2, {{cluster_, 1}, choose});
    auto* form = new QFormLayout;
    form->setContentsMargins(8, 4, 8, 4);
    form->setVerticalSpacing(3);
    form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    form->addRow(tr("&Model"), model_);
    form->addRow(tr("&Cluster"), clusterLine);
    static_cast<QLabel*>(form->labelForField(clusterLine))->setBuddy(cluster_);
    form->addRow(tr("&Batch"), batch_);
    form->addRow(tr("&Devices"), devices_);
    form->addRow(tr("&Tokens"), tokens_);
    form->addRow(tr("&Rank by"), goal_);
    run_ = new QPushButton(tr("&Plan"), side);
    progress_ = named(new QProgressBar(side), tr("Progress of the plan"));
    constexpr int kThousandths = 1000;
    progress_->setRange(0, kThousandths);
    auto* line = arrange(new QHBoxLayout, {8, 0, 8, 4}, -1, {run_, {progress_, 1}});
    arrange(new QVBoxLayout(side), {0, 0, 0, 0}, -1, {form, {nullptr, 1}, line});
    return side;
}

void ClusterPlanView::createTable() {
    table_ = named(new QTableView(this), tr("Candidates of the plan for a cluster"));
    table_->setModel(filter_);
    makeCompact(*table_);
    makeSortable(*table_);
    table_->horizontalHeader()->setStretchLastSection(true);
    table_->resizeColumnsToContents();
    table_->installEventFilter(this);
}

void ClusterPlanView::setProfile(std::shared_ptr<const Profile> profile) {
    profile_ = std::move(profile);
}

void ClusterPlanView::setCluster(const QString& path) {
    cluster_->setText(path);
}

void ClusterPlanView::chooseCluster() {
    const QString path = QFileDialog::getOpenFileName(this, tr("Choose a cluster file"), cluster_->text(),
                                                      tr("Cluster files (*.json);;All files (*)"));
    if (!path.isEmpty()) {
        setCluster(path);
    }
}

void ClusterPlanView::start() {
    const ClusterPlanInput input{profile_,
                                 model_->text().trimmed(),
                                 cluster_->text().trimmed(),
                                 batch_->text().trimmed(),
                                 devices_->text().trimmed(),
                                 tokens_->text().trimmed(),
                                 static_cast<ClusterGoal>(goal_->currentData().toInt())};
    done_ = std::make_shared<std::atomic<double>>(0);
    planned_ = input;
    opening_.drop();
    message_->setText(tr("Planning…"));
    showRunning(true);
    planning_.start(
        *this,
        [input, done = done_](const std::function<bool()>& cancelled) -> ClusterPlanOutcome {
            try {
                return {std::make_shared<const ClusterPlan>(clusterPlanOf(input,
                                                                          [&](double share) {
                                                                              *done = share;
                                                                              return !cancelled();
                                                                          })),
                        {}};
            } catch (const std::exception& error) {
                return {nullptr, QString::fromUtf8(error.what())};
            }
        },
        [this](const ClusterPlanOutcome& outcome) { showPlan(outcome.plan, outcome.error); });
}

void ClusterPlanView::showRunning(bool running) {
    run_->setText(running ? tr("&Cancel") : tr("&Plan"));
    progress_->setVisible(running);
    progress_->setValue(0);
    running ? timer_->start() : timer_->stop();
}

void ClusterPlanView::showPlan(const std::shared_ptr<const ClusterPlan>& plan, const QString& error) {
    showRunning(false);
    candidates_->setPlan(plan);
    if (!plan) {
        message_->setText(error);
        Q_EMIT finished();
        return;
    }
    QString text;
    if (!plan->candidates.empty()) {
        const ClusterCandidate& best = plan->candidates.front();
        text =
            tr("Best: %1 of type %2, %3, step %4.")
                .arg(formatCount(best.step.layout.devices(), tr("device"), tr("devices")), asQString(best.step.device),
                     asQString(to_string(best.step.layout)), formatDuration(std::llround(best.step.step_ns())));
    } else if (plan->infeasible_because) {
        text = tr("Nothing fits: %1.").arg(asQString(*plan->infeasible_because));
    }
    text += tr(" %1 of %2 layouts simulated. Cost in %3.")
                .arg(QString::number(plan->simulated), QString::number(plan->considered),
                     plan->priced ? tr("the file's currency") : tr("device-hours"));
    for (const std::string& each : plan->left_out) {
        text += QLatin1Char(' ') + asQString(each) + QLatin1Char('.');
    }
    message_->setText(plan->cancelled ? tr("Cancelled. %1").arg(text.trimmed()) : text.trimmed());
    table_->resizeColumnsToContents();
    if (filter_->rowCount() > 0) {
        table_->selectRow(0);
    }
    Q_EMIT finished();
}

void ClusterPlanView::openRow(const QModelIndex& row) {
    if (row.isValid()) {
        openCandidate(static_cast<std::size_t>(filter_->mapToSource(row).row()));
    }
}

void ClusterPlanView::openCandidate(std::size_t candidate) {
    const ClusterCandidate& each = candidates_->plan()->candidates.at(candidate);
    const Layout layout = each.step.layout;
    const std::string device = each.step.device;
    QString name = asQString(device + " " + to_string(layout) + " " + to_string(each.step.simulation.options.schedule));
    name.replace(QLatin1Char(':'), QLatin1Char('x')).replace(QLatin1Char('/'), QLatin1Char('-'));
    const QString path = traces_.filePath(QStringLiteral("%1 %2.sqlite").arg(candidate + 1).arg(name));
    opening_.start(
        *this,
        [input = planned_, layout, device, path](const std::function<bool()>&) -> QString {
            try {
                const LayoutStep step = simulatedCandidate(input, layout, device);
                std::filesystem::remove(path.toStdString());
                write_simulation(path.toStdString(), step.profile, step.simulation);
                return {};
            } catch (const std::exception& error) {
                return QString::fromUtf8(error.what());
            }
        },
        [this, path](const QString& error) {
            if (error.isEmpty()) {
                Q_EMIT opened(path);
            } else {
                message_->setText(error);
            }
        });
}

QString ClusterPlanView::message() const {
    return message_->text();
}

bool ClusterPlanView::eventFilter(QObject* watched, QEvent* event) {
    if (watched == table_ && pressesEnter(*event)) {
        openRow(table_->currentIndex());
        return true;
    }
    return QWidget::eventFilter(watched, event);
}
}  // namespace pipescope
