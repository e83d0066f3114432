#pragma once

#include "gui/tables/column_model.h"
#include "gui/what_if/scenario_figures.h"

#include <optional>
#include <vector>

namespace pipescope {
/// The figures of a scenario as plain numbers for a file, one per row: name, value, value of the reference. The memory
/// limit and the range of step times follow.
class FigureTableModel : public RowModel<ScenarioFigure> {
public:
    enum Column { figure, value, reference };

    explicit FigureTableModel(QObject* parent = nullptr);

    void setFigures(std::vector<ScenarioFigure> figures, std::optional<Bytes> limit);
    void setBand(const std::optional<StepBand>& band);

private:
    void refresh();

    std::vector<ScenarioFigure> figures_;
    std::optional<Bytes> limit_;
    std::optional<StepBand> band_;
};
}  // namespace pipescope
