#pragma once

#include "gui/document/scenario.h"

#include <QVariant>
#include <QWidget>

#include <optional>
#include <vector>

class QLabel;

namespace pipescope {
class FigureTableModel;

/// One figure of a scenario, for people.
struct ScenarioFigure {
    QString name;
    QString value;
    QString change;  ///< against the reference; empty without one
    QString help;
    QString key;         ///< in a file, such as "step_time_ns"
    QVariant plain;      ///< in a file: ns, bytes and shares as numbers; invalid while not known
    QVariant reference;  ///< the same of the reference
};
/// Step time, bubble, utilization, speedup, samples per second, peak memory. `reference` may be null. A scenario that
/// cannot run has dashes.
std::vector<ScenarioFigure> scenarioFigures(const SimulatedScenario& scenario, const SimulatedScenario* reference);
/// What the fullest lane holds at its peak.
Bytes highestPeakOf(const SimulatedScenario& scenario);

/// The figures as a small table: name, value, change against what was recorded.
class ScenarioFigures : public QWidget {
    Q_OBJECT

public:
    explicit ScenarioFigures(QWidget* parent = nullptr);
    void setScenario(const SimulatedScenario& scenario, const SimulatedScenario* reference);
    /// Where the scenario's steps lie; nothing: it is not known, or not yet.
    void setBand(const std::optional<StepBand>& band);
    /// The figures as rows for a file, those of the reference beside them.
    FigureTableModel& model() const { return *model_; }
    /// What stands on screen for a figure of scenarioFigures(): value and change.
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
};
}  // namespace pipescope
