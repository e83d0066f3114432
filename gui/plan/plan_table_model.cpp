#include "gui/plan/plan_table_model.h"

#include "gui/document/throughput.h"
#include "gui/style/number_format.h"
#include "gui/tables/table_export.h"
#include "simulator/plan/plan_ranking.h"

#include <QLocale>

#include <algorithm>
#include <array>

namespace pipescope {
namespace {
struct ColumnInfo {
    const char* title;
    const char* key;  // as in `pipescope plan --json`, if it exists there
    bool number;
    const char* mean = nullptr;  // the key of the expected step's figure
};
constexpr std::array<ColumnInfo, PlanTableModel::numColumns> kColumns{{
    {"#", "rank", true},
    {"Device", "device_type", false},
    {"Lanes", "lanes", true},
    {"Balance", "balance", false},
    {"Micro-batches", "micro_batches", true},
    {"Checkpoint", "checkpoint", false},
    {"Schedule", "schedule", false},
    {"Step time", "step_mean_ns", true},
    {"Step time", "step_ns", true},
    {"Samples/s", "samples_per_second", true, "samples_per_second_mean"},
    {"Bubble", "bubble_fraction", true, "bubble_mean"},
    {"Peak memory", "peak_bytes", true},
    {"Cost", "cost", true, "cost_mean"},
    {"Pareto", "pareto", false},
    {"Reason", "reason", false},
}};

QString overTheLimit(const PlanCandidate& candidate) {
    const Shortfall worst = shortfalls(candidate.simulation).front();
    return translated("does not fit: lane %1 needs %2 of %3")
        .arg(worst.lane.value())
        .arg(formatBytes(worst.peak), formatBytes(worst.limit));
}

/// Advantages of a slower candidate over the best one.
QString trade(const PlanCandidate& candidate, const PlanCandidate& best) {
    QStringList gains;
    if (num_devices(candidate.simulation) < num_devices(best.simulation)) {
        gains << translated("%1 instead of %2")
                     .arg(formatCount(num_devices(candidate.simulation), translated("lane"), translated("lanes")))
                     .arg(num_devices(best.simulation));
    }
    if (const double cost = relative_cost(candidate, best) - 1; cost < 0) {
        gains << translated("%1 cost").arg(formatShareChange(cost));
    }
    const auto bytes = static_cast<double>(highest_peak(candidate.simulation));
    const auto most = static_cast<double>(highest_peak(best.simulation));
    if (bytes < most) {
        gains << translated("%1 memory").arg(formatShareChange(bytes / most - 1));
    }
    const double slower = relative_throughput(candidate.simulation, best.simulation) - 1;
    if (gains.isEmpty()) {
        return slower > -kPlanTie ? translated("as fast as the best, with more lanes, cost or memory")
                                  : translated("a trade-off only without noise");
    }
    return translated("trade-off: %1, for %2 samples/s")
        .arg(gains.join(QStringLiteral(", ")), formatShareChange(slower));
}

QString beaten(const PlanCandidate& candidate, const PlanCandidate& by, std::size_t rank) {
    const double quicker = by.simulation.samples_per_second / candidate.simulation.samples_per_second - 1;
    return translated("dominated by %1: %2 samples/s, nothing worse").arg(rank + 1).arg(formatShareChange(quicker));
}
}  // namespace

void PlanTableModel::setPlan(std::shared_ptr<const Plan> plan) {
    beginResetModel();
    plan_ = std::move(plan);
    reasons_ = plan_ ? planReasons(*plan_) : std::vector<QString>{};
    endResetModel();
}

bool PlanTableModel::hasNoise() const {
    return plan_ && !plan_->candidates.empty() && plan_->candidates.front().simulation.noise;
}

int PlanTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() || !plan_ ? 0 : static_cast<int>(plan_->candidates.size());
}

QString PlanTableModel::shown(const PlanCandidate& candidate, int row, int column) const {
    const Simulation& simulation = candidate.simulation;
    switch (column) {
        case device:
            return candidate.device_type.empty() ? tr("as profiled") : QString::fromStdString(candidate.device_type);
        case expectedStep: return simulation.noise ? formatDuration(simulation.noise->mean.count()) : QString();
        case stepTime: return formatDuration(simulation.step_time.count());
        case samplesPerSecond: return formatPerSecond(expected_figures(simulation).samples_per_second);
        case bubble: return formatShare(expected_figures(simulation).bubble);
        case peak:
            if (simulation.memory_unknown) {
                return tr("unknown");
            }
            return (simulation.feasible ? QString() : QStringLiteral("▲ ")) + formatBytes(highest_peak(simulation));
        case cost: return QLocale().toString(expected_cost(candidate), 'g', 4);
        case pareto: return candidate.pareto ? tr("yes") : QString();
        default: return value(candidate, row, column).toString();
    }
}

QVariant PlanTableModel::value(const PlanCandidate& candidate, int row, int column) const {
    const Simulation& simulation = candidate.simulation;
    const PipelineOptions& options = simulation.options;
    switch (column) {
        case rank: return row + 1;
        case device: return QString::fromStdString(candidate.device_type);
        case lanes: return static_cast<int>(simulation.lanes.size());
        case balance: return QString::fromStdString(to_string(options.balance));
        case microBatches: return static_cast<qlonglong>(simulation.micro_batches);
        case checkpoint: return QString::fromStdString(to_string(options.checkpoint));
        case schedule: return QString::fromStdString(to_string(options.schedule));
        case expectedStep:
            return simulation.noise ? QVariant(static_cast<qlonglong>(simulation.noise->mean.count())) : QVariant();
        case stepTime: return static_cast<qlonglong>(simulation.step_time.count());
        case samplesPerSecond: return expected_figures(simulation).samples_per_second;
        case bubble: return expected_figures(simulation).bubble;
        case peak:
            return simulation.memory_unknown ? QVariant() : QVariant(static_cast<qlonglong>(highest_peak(simulation)));
        case cost: return expected_cost(candidate);
        case pareto: return candidate.pareto ? 1 : 0;
        case reason: return reasons_[static_cast<std::size_t>(row)];
        default: return {};
    }
}

QVariant PlanTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) {
        return {};
    }
    const PlanCandidate& candidate = plan_->candidates[static_cast<std::size_t>(index.row())];
    switch (role) {
        case Qt::DisplayRole: return shown(candidate, index.row(), index.column());
        case kExportRole: return value(candidate, index.row(), index.column());
        case Qt::TextAlignmentRole:
            return QVariant(
                (kColumns[static_cast<std::size_t>(index.column())].number ? Qt::AlignRight : Qt::AlignLeft) |
                Qt::AlignVCenter);
        case Qt::ToolTipRole:
            return index.column() == balance || index.column() == reason ? value(candidate, index.row(), index.column())
                                                                         : QVariant();
        default: return {};
    }
}

QVariant PlanTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= numColumns) {
        return QAbstractTableModel::headerData(section, orientation, role);
    }
    const ColumnInfo& column = kColumns[static_cast<std::size_t>(section)];
    switch (role) {
        case Qt::DisplayRole: return section == stepTime && hasNoise() ? tr("Without noise") : translated(column.title);
        case kExportRole:
            return hasNoise() && (section == samplesPerSecond || section == bubble || section == cost)
                       ? QString::fromLatin1(column.mean)
                       : QString::fromLatin1(column.key);
        case Qt::ToolTipRole:
            return section == expectedStep
                       ? tr("Expected step, the mean of noisy steps, of the best and of some Pareto candidates")
                   : hasNoise() && section == stepTime
                       ? tr("Of a step without noise, by which all but the first candidates are ranked")
                   : hasNoise() && (section == samplesPerSecond || section == bubble)
                       ? tr("Of the expected step, or of a step without noise where that is not known")
                   : section == cost
                       ? tr("Cost of the lanes per million samples, of the expected step if it is known; in lane-hours "
                            "if the price is unknown")
                   : section == pareto
                       ? tr("No other is at least as good in samples/s, lanes, memory and cost, and better in one")
                       : QVariant();
        default: return QAbstractTableModel::headerData(section, orientation, role);
    }
}

void PlanFilter::setFeasibleOnly(bool on) {
    feasibleOnly_ = on;
    invalidateFilter();
}

void PlanFilter::setParetoOnly(bool on) {
    paretoOnly_ = on;
    invalidateFilter();
}

bool PlanFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
    const auto* model = static_cast<const PlanTableModel*>(sourceModel());
    const PlanCandidate& candidate = model->plan()->candidates[static_cast<std::size_t>(row)];
    if ((feasibleOnly_ && !candidate.simulation.feasible) || (paretoOnly_ && !candidate.pareto)) {
        return false;
    }
    return TableFilter::filterAcceptsRow(row, parent);
}

std::vector<QString> planReasons(const Plan& plan) {
    std::vector<QString> reasons;
    std::vector<std::size_t> front;
    for (std::size_t k = 0; k < plan.candidates.size(); ++k) {
        if (plan.candidates[k].pareto) {
            front.push_back(k);
        }
    }
    for (std::size_t k = 0; k < plan.candidates.size(); ++k) {
        const PlanCandidate& each = plan.candidates[k];
        if (!each.simulation.feasible) {
            reasons.push_back(overTheLimit(each));
            continue;
        }
        if (plan.best == k) {
            reasons.push_back(translated("the fastest that fits"));
            continue;
        }
        // A dominated candidate is always dominated by one on the front.
        const auto by = std::find_if(front.begin(), front.end(),
                                     [&](std::size_t f) { return dominates(plan.candidates[f], each); });
        reasons.push_back(by != front.end() ? beaten(each, plan.candidates[*by], *by)
                          : plan.best       ? trade(each, plan.candidates[*plan.best])
                                            : QString());
    }
    return reasons;
}
}  // namespace pipescope
