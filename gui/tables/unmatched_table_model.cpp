#include "gui/tables/unmatched_table_model.h"

#include "gui/style/task_style.h"
#include "gui/tables/table_export.h"

namespace pipescope {
void UnmatchedTableModel::setTasks(std::vector<UnmatchedTask> tasks) {
    beginResetModel();
    tasks_ = std::move(tasks);
    endResetModel();
}

std::optional<UnmatchedTask> UnmatchedTableModel::taskAt(int row) const {
    return row >= 0 && row < rowCount() ? std::optional(tasks_[static_cast<std::size_t>(row)]) : std::nullopt;
}

int UnmatchedTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(tasks_.size());
}

int UnmatchedTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : kColumns;
}

QVariant UnmatchedTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount() || (role != Qt::DisplayRole && role != kExportRole)) {
        return {};
    }
    const UnmatchedTask& row = tasks_[static_cast<std::size_t>(index.row())];
    switch (index.column()) {
        case task: return role == kExportRole ? QString::fromStdString(to_string(row.key)) : taskName(row.key);
        case timeline: return row.source == Source::measured ? tr("measured") : tr("simulated");
        case reason: return QString::fromUtf8(describe(row.reason).data());
        default: return {};
    }
}

QVariant UnmatchedTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Vertical || (role != Qt::DisplayRole && role != kExportRole)) {
        return {};
    }
    switch (section) {
        case task: return role == kExportRole ? QStringLiteral("task") : tr("Task");
        case timeline: return role == kExportRole ? QStringLiteral("timeline") : tr("Only");
        case reason: return role == kExportRole ? QStringLiteral("reason") : tr("Why it has no twin");
        default: return {};
    }
}
}  // namespace pipescope
