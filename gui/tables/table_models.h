#pragma once

#include "analysis/comparison.h"
#include "analysis/task_join.h"
#include "gui/document/task_statistics.h"
#include "gui/document/trace_document.h"
#include "gui/tables/column_model.h"

#include <vector>

namespace pipescope {
/// Busy time, bubble and peak memory per lane in one step, measured and simulated.
class LaneTableModel : public RowModel<LaneFacts> {
public:
    enum Column {
        lane,
        measured_busy,
        simulated_busy,
        measured_bubble,
        simulated_bubble,
        measured_peak,
        simulated_peak
    };
    explicit LaneTableModel(QObject* parent = nullptr);
};

/// Tasks by difference between measured and simulated duration, largest first.
class DifferenceTableModel : public RowModel<ComparedTask> {
public:
    enum Column { task, measured, simulated, difference };
    explicit DifferenceTableModel(QObject* parent = nullptr);
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
};

/// Tasks of the selected step that only one timeline has, with the reason.
class UnmatchedTableModel : public RowModel<UnmatchedTask> {
public:
    explicit UnmatchedTableModel(QObject* parent = nullptr);
};

/// Task statistics per kind, and per kind and lane.
class StatisticsModel : public RowModel<KindStatistics> {
public:
    enum Column { kind, lane, count, total, mean, median, p95, busy };
    explicit StatisticsModel(QObject* parent = nullptr);
    void setStatistics(std::vector<KindStatistics> statistics, std::vector<LaneInfo> lanes);
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;

private:
    QString laneName(const KindStatistics& row) const;

    std::vector<LaneInfo> lanes_;
};
}  // namespace pipescope
