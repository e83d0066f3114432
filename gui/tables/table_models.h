#pragma once

#include "analysis/comparison.h"
#include "analysis/task_join.h"
#include "gui/document/area_statistics.h"
#include "gui/document/task_rows.h"
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

/// Statistics per kind of task, or name of a range or kernel, and per kind or name and lane, thread or stream.
class StatisticsModel : public RowModel<StatisticsRow> {
public:
    enum Column { name, place, count, total, self, mean, median, p95, busy };
    explicit StatisticsModel(QObject* parent = nullptr);
    /// `counted` decides the headers.
    void setStatistics(std::vector<StatisticsRow> statistics, Counted counted);
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    QString allPlaces() const;

    Counted counted_ = Counted::measured_tasks;
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
