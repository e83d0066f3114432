#include "gui/tables/task_table_model.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/style/text.h"
#include "gui/tables/table_export.h"

#include <algorithm>
#include <limits>

namespace pipescope {
namespace {

QVariant plain(const TaskRow& row, TaskColumn column) {
    const auto number = [](const std::optional<std::int64_t>& value) {
        return value ? QVariant::fromValue<qlonglong>(*value) : QVariant::fromValue(nullptr);
    };
    switch (column) {
        case TaskColumn::task: return QString::fromStdString(to_string(row.slice.key));
        case TaskColumn::step: return row.slice.key.step;
        case TaskColumn::lane: return row.slice.lane.value();
        case TaskColumn::start: return QVariant::fromValue<qlonglong>(row.slice.start.count());
        case TaskColumn::measured: return number(row.measured);
        case TaskColumn::simulated: return number(row.simulated);
        case TaskColumn::difference: return number(row.difference());
        case TaskColumn::share: return row.share() ? QVariant(*row.share()) : QVariant::fromValue(nullptr);
    }
    return {};
}
}  // namespace

void TaskTableModel::setRows(std::shared_ptr<const TaskRows> rows) {
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
}

int TaskTableModel::rowCount(const QModelIndex& parent) const {
    constexpr std::size_t most = std::numeric_limits<int>::max() / 64;  // a view's pixels are ints
    return parent.isValid() || !rows_ ? 0 : static_cast<int>(std::min(rows_->size(), most));
}

int TaskTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : kTaskColumns;
}

QString TaskTableModel::shown(const TaskRow& row, TaskColumn column) const {
    const auto duration = [](const std::optional<std::int64_t>& ns) {
        return ns ? formatDuration(*ns) : unknownValue();
    };
    switch (column) {
        case TaskColumn::task: return taskName(row.slice.key);
        case TaskColumn::step: return QString::number(row.slice.key.step);
        case TaskColumn::lane: {
            const auto& lanes = rows_->document()->store(rows_->source())->lanes();
            const std::size_t lane = row.slice.lane.index();
            return lane < lanes.size() ? QString::fromStdString(lanes[lane].name) : QString::number(lane);
        }
        case TaskColumn::start: return formatDuration(row.sinceStep);
        case TaskColumn::measured: return duration(row.measured);
        case TaskColumn::simulated: return duration(row.simulated);
        case TaskColumn::difference: return row.difference() ? formatDurationChange(*row.difference()) : unknownValue();
        case TaskColumn::share: return row.share() ? formatShareChange(*row.share()) : unknownValue();
    }
    return {};
}

QVariant TaskTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) {
        return {};
    }
    const auto column = static_cast<TaskColumn>(index.column());
    switch (role) {
        case Qt::DisplayRole: return shown(rows_->at(static_cast<std::size_t>(index.row())), column);
        case kExportRole: return plain(rows_->at(static_cast<std::size_t>(index.row())), column);
        case Qt::DecorationRole:
            return column == TaskColumn::task
                       ? QVariant(styleOf(rows_->at(static_cast<std::size_t>(index.row())).slice.key.kind).color)
                       : QVariant();
        case Qt::TextAlignmentRole:
            return static_cast<int>(
                (column == TaskColumn::task || column == TaskColumn::lane ? Qt::AlignLeft : Qt::AlignRight) |
                Qt::AlignVCenter);
        default: return {};
    }
}

QVariant TaskTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Vertical || section < 0 || section >= kTaskColumns) {
        return {};
    }
    const auto column = static_cast<TaskColumn>(section);
    if (role == kExportRole) {
        constexpr std::array keys{"task",        "step",         "lane",          "start_ns",
                                  "measured_ns", "simulated_ns", "difference_ns", "difference_share"};
        return QString::fromLatin1(keys[static_cast<std::size_t>(section)]);
    }
    if (role == Qt::TextAlignmentRole) {
        return static_cast<int>(
            (column == TaskColumn::task || column == TaskColumn::lane ? Qt::AlignLeft : Qt::AlignRight) |
            Qt::AlignVCenter);
    }
    if (role != Qt::DisplayRole) {
        return {};
    }
    switch (column) {
        case TaskColumn::task: return tr("Task");
        case TaskColumn::step: return tr("Step");
        case TaskColumn::lane: return tr("Lane");
        case TaskColumn::start: return tr("Start in step");
        case TaskColumn::measured: return tr("Measured");
        case TaskColumn::simulated: return tr("Simulated");
        case TaskColumn::difference: return tr("Difference");
        case TaskColumn::share: return tr("in %");
    }
    return {};
}
}  // namespace pipescope
