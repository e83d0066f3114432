#pragma once

#include "analysis/comparison.h"

#include <QAbstractTableModel>

#include <optional>
#include <vector>

namespace pipescope {
/// Tasks by difference between measured and simulated duration, largest first.
class DifferenceTableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { task, measured, simulated, difference };
    static constexpr int kColumns = 4;

    using QAbstractTableModel::QAbstractTableModel;
    void setTasks(std::vector<ComparedTask> tasks);
    std::optional<TaskKey> taskOf(const QModelIndex& index) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    std::vector<ComparedTask> tasks_;
};
}  // namespace pipescope
