#include "gui/tables/statistics_model.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/table_export.h"

#include <QFont>
#include <QLocale>

#include <cmath>

namespace pipescope {
void StatisticsModel::setStatistics(std::vector<KindStatistics> statistics, std::vector<LaneInfo> lanes) {
    beginResetModel();
    statistics_ = std::move(statistics);
    lanes_ = std::move(lanes);
    endResetModel();
}

std::optional<KindStatistics> StatisticsModel::statisticsAt(int row) const {
    return row >= 0 && row < rowCount() ? std::optional(statistics_[static_cast<std::size_t>(row)]) : std::nullopt;
}

int StatisticsModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(statistics_.size());
}

int StatisticsModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : kColumns;
}

QString StatisticsModel::laneName(const KindStatistics& row) const {
    if (!row.lane) {
        return tr("all lanes");
    }
    return row.lane->index() < lanes_.size() ? QString::fromStdString(lanes_[row.lane->index()].name)
                                             : QString::number(row.lane->value());
}

QVariant StatisticsModel::plain(const KindStatistics& row, int column) const {
    switch (column) {
        case kind: return QString::fromUtf8(to_string(row.kind).data());
        case lane: return row.lane ? QVariant(row.lane->value()) : QVariant::fromValue(nullptr);
        case count: return QVariant::fromValue<qlonglong>(row.count);
        case total: return QVariant::fromValue<qlonglong>(row.total);
        case mean: return row.mean();
        case median: return QVariant::fromValue<qlonglong>(row.median);
        case p95: return QVariant::fromValue<qlonglong>(row.p95);
        case busy: return row.busyShare;
        default: return {};
    }
}

QVariant StatisticsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) {
        return {};
    }
    const KindStatistics& row = statistics_[static_cast<std::size_t>(index.row())];
    const bool text = index.column() == kind || index.column() == lane;
    switch (role) {
        case kExportRole: return plain(row, index.column());
        case Qt::TextAlignmentRole: return static_cast<int>((text ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
        case Qt::DecorationRole: return index.column() == kind ? QVariant(styleOf(row.kind).color) : QVariant();
        case Qt::FontRole: {
            QFont bold;
            bold.setBold(true);
            return row.lane ? QVariant() : QVariant(bold);
        }
        case Qt::DisplayRole: break;
        default: return {};
    }
    switch (index.column()) {
        case kind: return styleOf(row.kind).name;
        case lane: return laneName(row);
        case count: return QLocale().toString(static_cast<qlonglong>(row.count));
        case total: return formatDuration(row.total);
        case mean: return formatDuration(std::llround(row.mean()));
        case median: return formatDuration(row.median);
        case p95: return formatDuration(row.p95);
        case busy: return formatShare(row.busyShare);
        default: return {};
    }
}

QVariant StatisticsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Vertical || section < 0 || section >= kColumns) {
        return {};
    }
    if (role == kExportRole) {
        constexpr std::array keys{"kind", "lane", "count", "total_ns", "mean_ns", "median_ns", "p95_ns", "busy_share"};
        return QString::fromLatin1(keys[static_cast<std::size_t>(section)]);
    }
    if (role == Qt::TextAlignmentRole) {
        return static_cast<int>((section == kind || section == lane ? Qt::AlignLeft : Qt::AlignRight) |
                                Qt::AlignVCenter);
    }
    if (role != Qt::DisplayRole) {
        return {};
    }
    switch (section) {
        case kind: return tr("Kind");
        case lane: return tr("Lane");
        case count: return tr("Tasks");
        case total: return tr("Total");
        case mean: return tr("Mean");
        case median: return tr("Median");
        case p95: return tr("95th percentile");
        case busy: return tr("Busy share");
        default: return {};
    }
}
}  // namespace pipescope
