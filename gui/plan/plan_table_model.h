#pragma once

#include "gui/tables/filtered_table.h"
#include "simulator/plan/planner.h"

#include <QAbstractTableModel>
#include <QString>

#include <memory>
#include <vector>

namespace pipescope {
/// The candidates of a plan, one per row, best first, with the figures of their expected steps where they are known, as
/// `pipescope plan` prints them. Values for sorting and export have the role kExportRole.
class PlanTableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column {
        rank,
        device,
        lanes,
        balance,
        microBatches,
        checkpoint,
        schedule,
        expectedStep,
        stepTime,
        samplesPerSecond,
        bubble,
        peak,
        cost,
        pareto,
        reason,
        numColumns
    };

    using QAbstractTableModel::QAbstractTableModel;

    /// Null: no plan yet.
    void setPlan(std::shared_ptr<const Plan> plan);
    const Plan* plan() const { return plan_.get(); }
    /// True if the best candidates have noise figures. Expected steps exist only then.
    bool hasNoise() const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : numColumns; }
    QVariant data(const QModelIndex& index, int role) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

private:
    QString shown(const PlanCandidate& candidate, int row, int column) const;
    QVariant value(const PlanCandidate& candidate, int row, int column) const;

    std::shared_ptr<const Plan> plan_;
    std::vector<QString> reasons_;
};

/// Filters rows by text in any column, by fit and by Pareto front, and sorts them.
class PlanFilter : public TableFilter {
    Q_OBJECT

public:
    using TableFilter::TableFilter;
    void setFeasibleOnly(bool on);
    void setParetoOnly(bool on);

protected:
    bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

private:
    bool feasibleOnly_ = false;
    bool paretoOnly_ = false;
};

/// Explains each candidate, in plan order: the best, a trade-off (its advantage over the best), dominated (by which
/// one), or over the limit (by how much).
/// Cost: quadratic in the candidates at worst, some ms for thousands.
std::vector<QString> planReasons(const Plan& plan);
}  // namespace pipescope
