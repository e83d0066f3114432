#pragma once

#include "gui/what_if/scenario_figures.h"

#include <QAbstractTableModel>

#include <optional>
#include <vector>

namespace pipescope {
/// The figures of a scenario as plain numbers for a file, one per row: name, value, value of the reference. The memory
/// limit and the range of step times follow.
class FigureTableModel : public QAbstractTableModel {
    Q_OBJECT

public:
    enum Column { figure, value, reference, numColumns };

    using QAbstractTableModel::QAbstractTableModel;

    void setFigures(std::vector<ScenarioFigure> figures, std::optional<Bytes> limit);
    void setBand(const std::optional<StepBand>& band);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    std::vector<ScenarioFigure> figures_;
    std::vector<ScenarioFigure> further_;  // the limit, then the band
};
}  // namespace pipescope
