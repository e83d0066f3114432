#pragma once

#include "gui/document/trace_document.h"

#include <QAbstractTableModel>

#include <vector>

namespace pipescope {
/// Busy time, bubble and peak memory per lane in one step, measured and simulated.
class LaneTableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column {
        lane,
        measured_busy,
        simulated_busy,
        measured_bubble,
        simulated_bubble,
        measured_peak,
        simulated_peak
    };
    static constexpr int kColumns = 7;

    using QAbstractTableModel::QAbstractTableModel;
    void setFacts(std::vector<LaneFacts> facts);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    std::vector<LaneFacts> facts_;
};
}  // namespace pipescope
