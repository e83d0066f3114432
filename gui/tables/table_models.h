#pragma once

#include "analysis/comparison.h"
#include "analysis/task_join.h"
#include "gui/document/task_rows.h"
#include "gui/document/task_statistics.h"
#include "gui/document/trace_document.h"
#include "gui/tables/column_model.h"

#include <memory>
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
    /// Sets the document of the rows, from which the shown kinds of the tasks come; null: none.
    void setDocument(std::shared_ptr<const TraceDocument> document) { document_ = std::move(document); }
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;

private:
    QString nameOf(const ComparedTask& row) const;

    std::shared_ptr<const TraceDocument> document_;
};

/// Tasks of the selected step that only one timeline has, with the reason.
class UnmatchedTableModel : public RowModel<UnmatchedTask> {
public:
    explicit UnmatchedTableModel(QObject* parent = nullptr);
    /// Sets the document of the rows, from which the shown kinds of the tasks come; null: none.
    void setDocument(std::shared_ptr<const TraceDocument> document) { document_ = std::move(document); }

private:
    std::shared_ptr<const TraceDocument> document_;
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

/// The tasks of a timeline with their twins; its columns are those of TaskColumn. Stores no rows; visible rows are
/// looked up when painted.
class TaskTableModel : public ColumnModel<TaskRow> {
public:
    explicit TaskTableModel(QObject* parent = nullptr);
    void setRows(std::shared_ptr<const TaskRows> rows);
    const TaskRows* rows() const { return rows_.get(); }

    int rowCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;

protected:
    TaskRow rowOf(const QModelIndex& index) const override { return rows_->at(static_cast<std::size_t>(index.row())); }

private:
    QString laneName(const TaskRow& row) const;

    std::shared_ptr<const TaskRows> rows_;
};
}  // namespace pipescope
