#include "gui/plan/cluster_plan_view.h"

#include "analysis/stored_simulation.h"
#include "base/error.h"
#include "cluster/step_parts.h"
#include "gui/plan/pareto_chart.h"
#include "gui/style/number_format.h"
#include "gui/tables/filtered_table.h"
#include "simulator/plan/planner.h"

#include <QPushButton>
#include <QStringList>
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
constexpr const char* kContextParallel = "context_parallel";
constexpr const char* kExpertParallel = "expert_parallel";

QString asQString(const std::string& text) {
    return QString::fromStdString(text);
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
        {tr("Sample on"), kContextParallel, right, [](const Row& c) { return c->step.layout.context; }},
        {tr("Experts on"), kExpertParallel, right, [](const Row& c) { return c->step.layout.expert; }},
        {tr("Schedule"), "schedule", left,
         [](const Row& c) { return asQString(to_string(c->step.simulation.options.schedule)); }},
        {tr("Step"), "step_ns", right, [](const Row& c) { return formatDuration(std::llround(c->step.step_ns())); },
         [](const Row& c) { return c->step.step_ns(); }},
        {tr("Peak"), "peak_bytes", right, [](const Row& c) { return formatBytes(highest_peak(c->step.simulation)); },
         [](const Row& c) { return qlonglong{highest_peak(c->step.simulation)}; }},
        {tr("Run"), "run_hours", right, [](const Row& c) { return formatHours(c->run_hours); },
         [](const Row& c) { return c->run_hours; }},
        {tr("Cost"), "cost", right, [](const Row& c) { return QString::number(c->cost, 'g', 6); },
         [](const Row& c) { return c->cost; }},
        {tr("Nodes"), "nodes", right, [](const Row& c) { return c->nodes; }},
        {tr("Spares"), "spare_nodes", right, [](const Row& c) { return c->spare_nodes; }},
        {tr("Effective"), "effective_share", right, [](const Row& c) { return formatShare(c->checkpoints.effective); },
         [](const Row& c) { return c->checkpoints.effective; }},
        {tr("Save every"), "checkpoint_interval_seconds", right,
         [](const Row& c) {
             return c->checkpoints.interval_seconds > 0 ? formatHours(c->checkpoints.interval_seconds / kSecondsPerHour)
                                                        : unknownValue();
         },
         [](const Row& c) { return c->checkpoints.interval_seconds; }},
        optionalColumn<Row>(
            tr("TFLOP/s"), "tflops_per_device", [](const Row& c) { return c->step.tflops_per_device(); },
            [](double tflops) { return QString::number(tflops, 'f', 1); }),
        {tr("Recompute"), "recompute", left,
         [](const Row& c) { return asQString(to_string(c->step.layout.recompute)); }},
        {tr("ZeRO"), "zero", right, [](const Row& c) { return c->step.layout.zero; }},
        {tr("Pareto"), "pareto", left, [](const Row& c) { return c->pareto ? ClusterPlanView::tr("yes") : QString(); }},
        {tr("Step consists of"), "reason", left, [](const Row& c) { return asQString(c->reason); }}};
}
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

bool ClusterPlanModel::isUsed(int column) const {
    const auto splits = [&](int Layout::*degree) {
        return plan_ && std::ranges::any_of(plan_->candidates,
                                            [&](const ClusterCandidate& each) { return each.step.layout.*degree > 1; });
    };
    const QString key = headerData(column, Qt::Horizontal, kExportRole).toString();
    return key == QLatin1String(kContextParallel)  ? splits(&Layout::context)
           : key == QLatin1String(kExpertParallel) ? splits(&Layout::expert)
                                                   : true;
}

const ClusterCandidate* ClusterPlanModel::rowOf(const QModelIndex& index) const {
    return &plan_->candidates[static_cast<std::size_t>(index.row())];
}

ClusterPlanView::ClusterPlanView(QWidget* parent)
    : CandidatesView(parent),
      timer_(new QTimer(this)),
      candidates_(new ClusterPlanModel(this)),
      filter_(new TableFilter(this)),
      form_(new ClusterPlanForm(this)) {
    filter_->setSourceModel(candidates_);
    chart().setPlaceholder(tr("Time against cost of each candidate"));
    arrangeParts({.form = *form_,
                  .candidates = *filter_,
                  .tableName = tr("Candidates of the plan for a cluster"),
                  .formName = tr("What is planned on the cluster"),
                  .filterHint = tr("filter, such as: H100 pareto")});
    makeSortable(table());
    table().resizeColumnsToContents();
    say(tr("Name a model and a cluster."));
    setFocusProxy(&form_->model());
    timer_->setInterval(kClusterPlanPeriod);
    connect(timer_, &QTimer::timeout, this, [this] {
        if (planning_.isRunning()) {
            showProgress(*done_);
        } else {
            timer_->stop();
        }
    });
    connect(&button(), &QPushButton::clicked, this, [this] { planning_.isRunning() ? cancel() : start(); });
    connect(form_, &ClusterPlanForm::submitted, this, &ClusterPlanView::start);
}

ClusterPlanView::~ClusterPlanView() {
    planning_.cancel();
}

void ClusterPlanView::setProfile(std::optional<CheckedProfile> profile) {
    profile_ = std::move(profile);
}

void ClusterPlanView::setCluster(const QString& path) {
    form_->setCluster(path);
}

void ClusterPlanView::start() {
    ClusterPlanInput input;
    try {
        input = form_->input();
    } catch (const Error& error) {
        say(QString::fromUtf8(error.what()));
        return;
    }
    input.profile = profile_;
    done_ = std::make_shared<std::atomic<double>>(0);
    planned_ = input;
    opening_.drop();
    say(tr("Planning…"));
    showRunning(true);
    timer_->start();
    planning_.start(
        *this,
        [input, done = done_](const std::function<bool()>& cancelled) {
            const auto progress = [&](double share) {
                *done = share;
                return !cancelled();
            };
            return std::make_shared<const ClusterPlan>(clusterPlanOf(input, progress));
        },
        [this](const std::shared_ptr<const ClusterPlan>& plan) { showPlan(plan, {}); },
        [this](const QString& error) { showPlan(nullptr, error); });
}

QString ClusterPlanView::summary(const ClusterPlan& plan) const {
    QStringList sentences;
    if (plan.cancelled) {
        sentences << tr("Cancelled.");
    }
    if (!plan.candidates.empty()) {
        const ClusterCandidate& best = plan.candidates.front();
        sentences << tr("Best: %1 of type %2, %3, step %4.")
                         .arg(formatCount(best.step.layout.devices(), tr("device"), tr("devices")),
                              asQString(best.step.device), asQString(to_string(best.step.layout)),
                              formatDuration(std::llround(best.step.step_ns())));
        if (best.checkpoints.interval_seconds > 0) {
            sentences << tr("A save every %1, %2, effective %3.")
                             .arg(formatHours(best.checkpoints.interval_seconds / kSecondsPerHour),
                                  formatCount(best.spare_nodes, tr("spare node"), tr("spare nodes")),
                                  formatShare(best.checkpoints.effective));
        }
        if (best.missing_nodes > 0) {
            sentences << tr("The cluster lacks %1 that such a run needs now and then.")
                             .arg(formatCount(best.missing_nodes, tr("spare node"), tr("spare nodes")));
        }
    } else if (plan.infeasible_because) {
        sentences << tr("Nothing fits: %1.").arg(asQString(*plan.infeasible_because));
    }
    sentences << tr("%1 of %2 simulated. Cost in %3.")
                     .arg(QString::number(plan.simulated), formatCount(plan.considered, tr("layout"), tr("layouts")),
                          plan.priced ? tr("the file's currency") : tr("device-hours"));
    if (!plan.next_constraint.empty()) {
        sentences << tr("Next constraint: %1.").arg(asQString(plan.next_constraint));
    }
    for (const std::string& each : plan.left_out) {
        sentences << asQString(each) + QLatin1Char('.');
    }
    return sentences.join(QLatin1Char(' '));
}

void ClusterPlanView::showPlan(const std::shared_ptr<const ClusterPlan>& plan, const QString& error) {
    showRunning(false);
    candidates_->setPlan(plan);
    for (int column = 0; column < candidates_->columnCount(); ++column) {
        table().setColumnHidden(column, !candidates_->isUsed(column));
    }
    chart().setPlan(plan, planned_.has("tokens"));
    say(plan ? summary(*plan) : error);
    if (plan) {
        table().resizeColumnsToContents();
        if (filter_->rowCount() > 0) {
            table().selectRow(0);
        }
    }
    Q_EMIT finished();
}

void ClusterPlanView::openCandidate(std::size_t candidate) {
    const ClusterCandidate& each = candidates_->plan()->candidates.at(candidate);
    const Layout layout = each.step.layout;
    const std::string device = each.step.device;
    QString name = asQString(device + " " + to_string(layout) + " " + to_string(each.step.simulation.options.schedule));
    name.replace(QLatin1Char(':'), QLatin1Char('x')).replace(QLatin1Char('/'), QLatin1Char('-'));
    QString path;
    try {
        if (!traces_) {
            traces_ = std::make_unique<ScratchFolder>();
        }
        const std::string file = QStringLiteral("%1 %2.sqlite").arg(candidate + 1).arg(name).toStdString();
        path = QString::fromStdString((traces_->path() / file).string());
    } catch (const Error& error) {
        say(QString::fromUtf8(error.what()));
        return;
    }
    opening_.start(
        *this,
        [input = planned_, layout, device, path](const std::function<bool()>&) {
            const LayoutStep step = simulatedCandidate(input, layout, device);
            std::filesystem::remove(path.toStdString());
            write_simulation(path.toStdString(), *step.profile, step.simulation, step_on_cluster(step));
            return path;
        },
        [this](const QString& written) { Q_EMIT opened(written); }, [this](const QString& error) { say(error); });
}
}  // namespace pipescope
