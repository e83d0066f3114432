#pragma once

#include "gui/document/task_rows.h"
#include "gui/tables/column_model.h"

#include <memory>

namespace pipescope {
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
