#include "gui/tables/table_models.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <QFont>
#include <QLocale>

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipescope {
namespace {
QVariant plainTask(const TaskKey& key) {
    return QString::fromStdString(to_string(key));
}

}  // namespace

LaneTableModel::LaneTableModel(QObject* parent)
    : RowModel({{translated("Lane"), "lane", Qt::AlignLeft, [](const LaneFacts& f) { return f.lane; }},
                optionalColumn<LaneFacts>(translated("Busy\nmeasured"), "measured_busy_ns", &LaneFacts::measuredBusy,
                                          formatDuration),
                optionalColumn<LaneFacts>(translated("Busy\nsimulated"), "simulated_busy_ns", &LaneFacts::simulatedBusy,
                                          formatDuration),
                optionalColumn<LaneFacts>(translated("Bubble\nmeasured"), "measured_bubble_fraction",
                                          &LaneFacts::measuredBubble, formatShare),
                optionalColumn<LaneFacts>(translated("Bubble\nsimulated"), "simulated_bubble_fraction",
                                          &LaneFacts::simulatedBubble, formatShare),
                optionalColumn<LaneFacts>(translated("Peak memory\nmeasured"), "measured_peak_bytes",
                                          &LaneFacts::measuredPeak, formatBytes),
                optionalColumn<LaneFacts>(translated("Peak memory\nsimulated"), "simulated_peak_bytes",
                                          &LaneFacts::simulatedPeak, formatBytes)},
               parent) {}

DifferenceTableModel::DifferenceTableModel(QObject* parent)
    : RowModel(
          {{translated("Task"), "task", Qt::AlignLeft,
            [this](const ComparedTask& t) { return translated("step %1: %2").arg(t.task.step).arg(nameOf(t)); },
            [](const ComparedTask& t) { return plainTask(t.task); }},
           numberColumn<ComparedTask>(translated("Measured"), "measured_ns", &ComparedTask::measured, formatDuration),
           numberColumn<ComparedTask>(translated("Simulated"), "simulated_ns", &ComparedTask::simulated,
                                      formatDuration),
           asDifference(numberColumn<ComparedTask>(
               translated("Difference"), "difference_ns",
               [this](const ComparedTask& t) {
                   return (twoRuns() ? t.measured - t.simulated : t.simulated - t.measured).count();
               },
               formatDurationChange))},
          parent) {}

QString DifferenceTableModel::nameOf(const ComparedTask& row) const {
    return taskName(document_ ? shownKey(*document_, row.task) : row.task);
}

QVariant DifferenceTableModel::data(const QModelIndex& index, int role) const {
    const std::optional<ComparedTask> row = role == Qt::ToolTipRole ? rowAt(index.row()) : std::nullopt;
    return row ? nameOf(*row) : RowModel::data(index, role);
}

UnmatchedTableModel::UnmatchedTableModel(QObject* parent)
    : RowModel({{translated("Task"), "task", Qt::AlignLeft,
                 [this](const UnmatchedTask& t) {
                     return taskName(document_ ? document_->store(t.source)->shownKey(t.slice) : t.key);
                 },
                 [](const UnmatchedTask& t) { return plainTask(t.key); }},
                {translated("Only"), "timeline", Qt::AlignLeft,
                 [this](const UnmatchedTask& t) {
                     return inWords(t.source == Source::measured ? translated("measured") : translated("simulated"));
                 }},
                {translated("Why it has no twin"), "reason", Qt::AlignLeft,
                 [this](const UnmatchedTask& t) {
                     const Opposite opposite = twoRuns() ? Opposite::run_before : Opposite::simulation;
                     return QString::fromUtf8(describe(t.reason, opposite).data());
                 }}},
               parent) {}

StatisticsModel::StatisticsModel(QObject* parent)
    : RowModel(
          {{translated("Kind"), "kind", Qt::AlignLeft, [](const KindStatistics& s) { return styleOf(s.kind).name; },
            [](const KindStatistics& s) { return QString::fromUtf8(to_string(keyKindOf(s.kind)).data()); }},
           {translated("Lane"), "lane", Qt::AlignLeft, [this](const KindStatistics& s) { return laneName(s); },
            [](const KindStatistics& s) {
                return plainOrNull(s.lane ? std::optional(s.lane->value()) : std::nullopt);
            }},
           numberColumn<KindStatistics>(
               translated("Tasks"), "count", &KindStatistics::count,
               [](std::int64_t number) { return QLocale().toString(static_cast<qlonglong>(number)); }),
           numberColumn<KindStatistics>(translated("Total"), "total_ns", &KindStatistics::inside, formatDuration),
           numberColumn<KindStatistics>(translated("Mean"), "mean_ns", &KindStatistics::mean,
                                        [](double ns) { return formatDuration(std::llround(ns)); }),
           numberColumn<KindStatistics>(translated("Median"), "median_ns", &KindStatistics::median, formatDuration),
           numberColumn<KindStatistics>(translated("95th percentile"), "p95_ns", &KindStatistics::p95, formatDuration),
           numberColumn<KindStatistics>(translated("Busy share"), "busy_share", &KindStatistics::busyShare,
                                        formatShare)},
          parent) {}

void StatisticsModel::setStatistics(std::vector<KindStatistics> statistics, std::vector<LaneInfo> lanes) {
    lanes_ = std::move(lanes);
    setRows(std::move(statistics));
}

QString StatisticsModel::laneName(const KindStatistics& row) const {
    if (!row.lane) {
        return translated("all lanes");
    }
    return row.lane->index() < lanes_.size() ? QString::fromStdString(lanes_[row.lane->index()].name)
                                             : QString::number(row.lane->value());
}

QVariant StatisticsModel::data(const QModelIndex& index, int role) const {
    const std::optional<KindStatistics> row = rowAt(index.row());
    if (row && role == Qt::DecorationRole && index.column() == kind) {
        return styleOf(row->kind).color;
    }
    if (row && role == Qt::FontRole && !row->lane) {
        QFont bold;
        bold.setBold(true);
        return bold;
    }
    return RowModel::data(index, role);
}

TaskTableModel::TaskTableModel(QObject* parent)
    : ColumnModel(
          {{translated("Task"), "task", Qt::AlignLeft, [](const TaskRow& r) { return taskName(r.shown); },
            [](const TaskRow& r) { return QString::fromStdString(to_string(r.slice.key)); }},
           {translated("Step"), "step", Qt::AlignRight,
            [](const TaskRow& r) { return QString::number(r.slice.key.step); },
            [](const TaskRow& r) { return r.slice.key.step; }},
           {translated("Lane"), "lane", Qt::AlignLeft, [this](const TaskRow& r) { return laneName(r); },
            [](const TaskRow& r) { return r.slice.lane.value(); }},
           {translated("Start in step"), "start_ns", Qt::AlignRight,
            [](const TaskRow& r) { return formatInstant(r.sinceStep, r.slice.duration().count()); },
            [](const TaskRow& r) { return QVariant::fromValue<qlonglong>(r.slice.start.count()); }},
           optionalColumn<TaskRow>(translated("Measured"), "measured_ns", &TaskRow::measured, formatDuration),
           optionalColumn<TaskRow>(translated("Simulated"), "simulated_ns", &TaskRow::simulated, formatDuration),
           asDifference(optionalColumn<TaskRow>(translated("Difference"), "difference_ns", &TaskRow::difference,
                                                formatDurationChange)),
           asDifference(
               optionalColumn<TaskRow>(translated("in %"), "difference_share", &TaskRow::share, formatShareChange))},
          parent) {}

void TaskTableModel::setRows(std::shared_ptr<const TaskRows> rows) {
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
    setTwoRuns(rows_ && rows_->document()->baseline);
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
        return index.column() == static_cast<int>(TaskColumn::task) ? QVariant(styleOf(rowOf(index).shown.kind).color)
                                                                    : QVariant();
    }
    return ColumnModel::data(index, role);
}
}  // namespace pipescope
