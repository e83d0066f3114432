#pragma once

#include "gui/document/scenario.h"
#include "gui/tables/column_model.h"

#include <QVariant>
#include <QWidget>

#include <optional>
#include <vector>

class QLabel;

namespace pipescope {
class FigureTableModel;

/// One figure of a scenario, as text and as plain value.
struct ScenarioFigure {
    QString name;
    QString value;
    QString change;  ///< relative to the reference; empty without one
    QString help;
    QString key;         ///< in files, such as "step_time_ns"
    QVariant plain;      ///< for files, without noise: ns, bytes and shares as numbers; invalid while unknown
    QVariant reference;  ///< the reference's plain value
};
/// Names, help and keys of the figures of a simulation like this one, without values. If the simulation is of a layout
/// on a cluster, bubble and utilization are those of the pipeline, and their names say so.
std::vector<ScenarioFigure> figureNames(const Simulation& like);
/// Step time, bubble, utilization, speedup, samples per second, peak memory, tokens per second, the model's operations
/// a second, MFU: of the expected step, if the scenario has its noise. Unknown ones are dashes. `reference` may be
/// null. A scenario that cannot run has dashes.
std::vector<ScenarioFigure> scenarioFigures(const SimulatedScenario& scenario, const SimulatedScenario* reference);

/// The figures as a small table: name, value, change relative to the recording.
class ScenarioFigures : public QWidget {
    Q_OBJECT

public:
    explicit ScenarioFigures(QWidget* parent = nullptr);
    void setScenario(const SimulatedScenario& scenario, const SimulatedScenario* reference);
    /// Shows the range of the scenario's step times; nullopt: not known, or not yet.
    void setBand(const std::optional<StepBand>& band);
    /// The figures as rows for a file, with those of the reference.
    FigureTableModel& model() const { return *model_; }
    /// Samples a second are called micro-batches a second, since each counts as one sample. From the next scenario on.
    void setBatchUnknown(bool unknown) { batchUnknown_ = unknown; }
    /// Displayed name, value and change of a figure of scenarioFigures().
    QString shownName(std::size_t figure) const;
    QString shownValue(std::size_t figure) const;
    QString shownChange(std::size_t figure) const;

private:
    struct Row {
        QLabel* name;
        QLabel* value;
        QLabel* change;
    };
    std::vector<Row> rows_;
    FigureTableModel* model_;
    QLabel* band_;
    bool batchUnknown_ = false;
};

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
