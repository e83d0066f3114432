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
          {{translated("Kind"), "kind", Qt::AlignLeft, [](const StatisticsRow& s) { return s.name; },
            [](const StatisticsRow& s) {
                return s.kind ? QString::fromUtf8(to_string(keyKindOf(*s.kind)).data()) : s.name;
            }},
           {translated("Lane"), "lane", Qt::AlignLeft,
            [this](const StatisticsRow& s) { return s.place ? s.placeName : allPlaces(); },
            [](const StatisticsRow& s) {
                return !s.place ? QVariant::fromValue(nullptr)
                       : s.kind ? QVariant::fromValue<qlonglong>(*s.place)
                                : QVariant(s.placeName);
            }},
           numberColumn<StatisticsRow>(
               translated("Tasks"), "count", [](const StatisticsRow& s) { return s.lengths.count; },
               [](std::int64_t number) { return QLocale().toString(static_cast<qlonglong>(number)); }),
           numberColumn<StatisticsRow>(translated("Total"), "total_ns", &StatisticsRow::inside, formatDuration),
           numberColumn<StatisticsRow>(translated("Self"), "self_ns", &StatisticsRow::self, formatDuration),
           numberColumn<StatisticsRow>(
               translated("Mean"), "mean_ns", [](const StatisticsRow& s) { return s.lengths.mean(); },
               [](double ns) { return formatDuration(std::llround(ns)); }),
           numberColumn<StatisticsRow>(
               translated("Median"), "median_ns", [](const StatisticsRow& s) { return s.lengths.median; },
               formatDuration),
           numberColumn<StatisticsRow>(
               translated("95th percentile"), "p95_ns", [](const StatisticsRow& s) { return s.lengths.p95; },
               formatDuration),
           numberColumn<StatisticsRow>(translated("Busy share"), "busy_share", &StatisticsRow::share, formatShare)},
          parent) {}

void StatisticsModel::setStatistics(std::vector<StatisticsRow> statistics, Counted counted) {
    counted_ = counted;
    setRows(std::move(statistics));
    Q_EMIT headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
}

QString StatisticsModel::allPlaces() const {
    return counted_ == Counted::threads   ? translated("all threads")
           : counted_ == Counted::streams ? translated("all streams")
                                          : translated("all lanes");
}

QVariant StatisticsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    const bool ofTasks = counted_ == Counted::measured_tasks || counted_ == Counted::simulated_tasks;
    if (orientation == Qt::Horizontal && role == Qt::DisplayRole && !ofTasks) {
        switch (section) {
            case name: return translated("Name");
            case place:
                return counted_ == Counted::threads   ? translated("Thread")
                       : counted_ == Counted::streams ? translated("Stream")
                                                      : translated("Lane");
            case count: return translated("Count");
            default: break;
        }
    }
    return RowModel::headerData(section, orientation, role);
}

QVariant StatisticsModel::data(const QModelIndex& index, int role) const {
    const std::optional<StatisticsRow> row = rowAt(index.row());
    if (row && role == Qt::DecorationRole && index.column() == name) {
        return row->kind ? QVariant(styleOf(*row->kind).color) : QVariant();
    }
    if (row && role == Qt::FontRole && !row->place) {
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
