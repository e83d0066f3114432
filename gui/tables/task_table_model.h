#pragma once

#include "gui/document/task_rows.h"

#include <QAbstractTableModel>

#include <memory>

namespace pipescope {
/// The tasks of a timeline with their twins. Stores no rows; visible rows are looked up when painted.
class TaskTableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    using QAbstractTableModel::QAbstractTableModel;
    void setRows(std::shared_ptr<const TaskRows> rows);
    const TaskRows* rows() const { return rows_.get(); }

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    QString shown(const TaskRow& row, TaskColumn column) const;

    std::shared_ptr<const TaskRows> rows_;
};
}  // namespace pipescope
