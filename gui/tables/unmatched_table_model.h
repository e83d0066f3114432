#pragma once

#include "analysis/task_join.h"

#include <QAbstractTableModel>

#include <optional>
#include <vector>

namespace pipescope {
/// Tasks of the selected step that only one timeline has, with the reason.
class UnmatchedTableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { task, timeline, reason };
    static constexpr int kColumns = 3;

    using QAbstractTableModel::QAbstractTableModel;
    void setTasks(std::vector<UnmatchedTask> tasks);
    std::optional<UnmatchedTask> taskAt(int row) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    std::vector<UnmatchedTask> tasks_;
};
}  // namespace pipescope
