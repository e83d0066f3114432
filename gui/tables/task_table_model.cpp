#include "gui/tables/task_table_model.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/text.h"

#include <algorithm>
#include <limits>

namespace pipescope {
TaskTableModel::TaskTableModel(QObject* parent)
    : ColumnModel(
          {{translated("Task"), "task", Qt::AlignLeft, [](const TaskRow& r) { return taskName(r.slice.key); },
            [](const TaskRow& r) { return QString::fromStdString(to_string(r.slice.key)); }},
           {translated("Step"), "step", Qt::AlignRight,
            [](const TaskRow& r) { return QString::number(r.slice.key.step); },
            [](const TaskRow& r) { return r.slice.key.step; }},
           {translated("Lane"), "lane", Qt::AlignLeft, [this](const TaskRow& r) { return laneName(r); },
            [](const TaskRow& r) { return r.slice.lane.value(); }},
           {translated("Start in step"), "start_ns", Qt::AlignRight,
            [](const TaskRow& r) { return formatDuration(r.sinceStep); },
            [](const TaskRow& r) { return QVariant::fromValue<qlonglong>(r.slice.start.count()); }},
           optionalColumn<TaskRow>(
               translated("Measured"), "measured_ns", [](const TaskRow& r) { return r.measured; }, formatDuration),
           optionalColumn<TaskRow>(
               translated("Simulated"), "simulated_ns", [](const TaskRow& r) { return r.simulated; }, formatDuration),
           optionalColumn<TaskRow>(
               translated("Difference"), "difference_ns", [](const TaskRow& r) { return r.difference(); },
               formatDurationChange),
           optionalColumn<TaskRow>(
               translated("in %"), "difference_share", [](const TaskRow& r) { return r.share(); }, formatShareChange)},
          parent) {}

void TaskTableModel::setRows(std::shared_ptr<const TaskRows> rows) {
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
}

int TaskTableModel::rowCount(const QModelIndex& parent) const {
    constexpr std::size_t most = std::numeric_limits<int>::max() / 64;  // a view's pixels are ints
    return parent.isValid() || !rows_ ? 0 : static_cast<int>(std::min(rows_->size(), most));
}

QString TaskTableModel::laneName(const TaskRow& row) const {
    const auto& lanes = rows_->document()->store(rows_->source())->lanes();
    const std::size_t lane = row.slice.lane.index();
    return lane < lanes.size() ? QString::fromStdString(lanes[lane].name) : QString::number(lane);
}

QVariant TaskTableModel::data(const QModelIndex& index, int role) const {
    if (role == Qt::DecorationRole && index.isValid() && index.row() < rowCount()) {
        return index.column() == static_cast<int>(TaskColumn::task)
                   ? QVariant(styleOf(rowOf(index).slice.key.kind).color)
                   : QVariant();
    }
    return ColumnModel::data(index, role);
}
}  // namespace pipescope
