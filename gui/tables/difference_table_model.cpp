#include "gui/tables/difference_table_model.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/table_export.h"

#include <array>

namespace pipescope {
void DifferenceTableModel::setTasks(std::vector<ComparedTask> tasks) {
    beginResetModel();
    tasks_ = std::move(tasks);
    endResetModel();
}

std::optional<TaskKey> DifferenceTableModel::taskOf(const QModelIndex& index) const {
    if (!index.isValid() || index.row() >= rowCount()) {
        return std::nullopt;
    }
    return tasks_[static_cast<std::size_t>(index.row())].task;
}

int DifferenceTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(tasks_.size());
}

int DifferenceTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : kColumns;
}

QVariant DifferenceTableModel::data(const QModelIndex& index, int role) const {
    if (!taskOf(index)) {
        return {};
    }
    if (role == Qt::TextAlignmentRole) {
        return static_cast<int>((index.column() == task ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    }
    const ComparedTask& row = tasks_[static_cast<std::size_t>(index.row())];
    if (role == Qt::ToolTipRole) {
        return taskName(row.task);
    }
    if (role == kExportRole) {
        switch (index.column()) {
            case task: return QString::fromStdString(to_string(row.task));
            case measured: return QVariant::fromValue<qlonglong>(row.measured.count());
            case simulated: return QVariant::fromValue<qlonglong>(row.simulated.count());
            case difference: return QVariant::fromValue<qlonglong>((row.simulated - row.measured).count());
            default: return {};
        }
    }
    if (role != Qt::DisplayRole) {
        return {};
    }
    switch (index.column()) {
        case task: return tr("step %1: %2").arg(row.task.step).arg(taskName(row.task));
        case measured: return formatDuration(row.measured.count());
        case simulated: return formatDuration(row.simulated.count());
        case difference: return formatDurationChange((row.simulated - row.measured).count());
        default: return {};
    }
}

QVariant DifferenceTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Vertical || section < 0 || section >= kColumns) {
        return {};
    }
    if (role == kExportRole) {
        constexpr std::array keys{"task", "measured_ns", "simulated_ns", "difference_ns"};
        return QString::fromLatin1(keys[static_cast<std::size_t>(section)]);
    }
    if (role == Qt::TextAlignmentRole) {
        return static_cast<int>((section == task ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    }
    if (role != Qt::DisplayRole) {
        return {};
    }
    switch (section) {
        case task: return tr("Task");
        case measured: return tr("Measured");
        case simulated: return tr("Simulated");
        case difference: return tr("Difference");
        default: return {};
    }
}
}  // namespace pipescope
