#pragma once

#include "gui/document/scenario.h"

#include <QWidget>

#include <optional>
#include <vector>

class QLabel;

namespace pipescope {
/// One figure of a scenario, for people.
struct ScenarioFigure {
    QString name;
    QString value;
    QString change;  ///< against the reference; empty without one
    QString help;
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

private:
    struct Row {
        QLabel* name;
        QLabel* value;
        QLabel* change;
    };
    std::vector<Row> rows_;
    QLabel* band_;
};
}  // namespace pipescope
