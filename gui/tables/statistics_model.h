#pragma once

#include "gui/document/task_statistics.h"
#include "schedule/timeline.h"

#include <QAbstractTableModel>

namespace pipescope {
/// Task statistics per kind, and per kind and lane.
class StatisticsModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { kind, lane, count, total, mean, median, p95, busy };
    static constexpr int kColumns = 8;

    using QAbstractTableModel::QAbstractTableModel;
    void setStatistics(std::vector<KindStatistics> statistics, std::vector<LaneInfo> lanes);

    /// Statistics of a row, or empty beyond the last row.
    std::optional<KindStatistics> statisticsAt(int row) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    QVariant plain(const KindStatistics& row, int column) const;
    QString laneName(const KindStatistics& row) const;

    std::vector<KindStatistics> statistics_;
    std::vector<LaneInfo> lanes_;
};
}  // namespace pipescope
