#include "gui/what_if/scenario_figures.h"

#include "gui/style/number_format.h"

#include <QCoreApplication>
#include <QGridLayout>
#include <QLabel>
#include <QLocale>

#include <algorithm>

namespace pipescope {
namespace {
QString text(const char* source) {
    return QCoreApplication::translate("ScenarioFigures", source);
}
const QString kUnknown = QStringLiteral("–");

double ratio(double value, double reference) {
    return reference > 0 ? value / reference - 1 : 0;
}

QString changeOf(double value, double reference) {
    return formatShareChange(ratio(value, reference));
}

QString peakText(const SimulatedScenario& scenario) {
    const QString peak = formatBytes(highestPeakOf(scenario));
    const std::optional<Bytes> limit = scenario.scenario.options.memory_limit;
    return limit ? text(QT_TRANSLATE_NOOP("ScenarioFigures", "%1 of %2")).arg(peak, formatBytes(*limit)) : peak;
}
}  // namespace

Bytes highestPeakOf(const SimulatedScenario& scenario) {
    Bytes most = 0;
    for (const SimulatedLane& lane : scenario.simulation.lanes) {
        most = std::max(most, lane.peak_bytes);
    }
    return most;
}

std::vector<ScenarioFigure> scenarioFigures(const SimulatedScenario& scenario, const SimulatedScenario* reference) {
    std::vector<ScenarioFigure> figures{
        {text(QT_TRANSLATE_NOOP("ScenarioFigures", "Step time")),
         kUnknown,
         {},
         text(QT_TRANSLATE_NOOP("ScenarioFigures",
                                "From the first forward to the end of the last backward; the optimizer is outside"))},
        {text(QT_TRANSLATE_NOOP("ScenarioFigures", "Bubble")),
         kUnknown,
         {},
         text(QT_TRANSLATE_NOOP("ScenarioFigures", "Share of the step in which a lane is idle, mean of all lanes"))},
        {text(QT_TRANSLATE_NOOP("ScenarioFigures", "Utilization")),
         kUnknown,
         {},
         text(QT_TRANSLATE_NOOP("ScenarioFigures", "Share of the step in which a lane works: 1 − bubble"))},
        {text(QT_TRANSLATE_NOOP("ScenarioFigures", "Speedup")),
         kUnknown,
         {},
         text(QT_TRANSLATE_NOOP("ScenarioFigures",
                                "Against the same layers one after the other on one lane, without recompute"))},
        {text(QT_TRANSLATE_NOOP("ScenarioFigures", "Samples/s")),
         kUnknown,
         {},
         text(QT_TRANSLATE_NOOP("ScenarioFigures", "Samples of the mini-batch over the step time"))},
        {text(QT_TRANSLATE_NOOP("ScenarioFigures", "Peak memory")),
         kUnknown,
         {},
         text(QT_TRANSLATE_NOOP("ScenarioFigures", "Of the lane that needs most"))}};
    if (!scenario.runs()) {
        return figures;
    }
    const Simulation& one = scenario.simulation;
    figures[0].value = formatDuration(one.step_time.count());
    figures[1].value = formatShare(one.bubble_fraction);
    figures[2].value = formatShare(one.utilization);
    figures[3].value = QLocale().toString(one.speedup, 'f', 2) + QStringLiteral("×");
    figures[4].value = QLocale().toString(one.samples_per_second, 'g', 4);
    figures[5].value = peakText(scenario);
    if (reference != nullptr && reference->runs()) {
        const Simulation& other = reference->simulation;
        figures[0].change =
            changeOf(static_cast<double>(one.step_time.count()), static_cast<double>(other.step_time.count()));
        figures[1].change = formatPoints(one.bubble_fraction - other.bubble_fraction);
        figures[2].change = formatPoints(one.utilization - other.utilization);
        figures[3].change = changeOf(one.speedup, other.speedup);
        figures[4].change = changeOf(one.samples_per_second, other.samples_per_second);
        figures[5].change =
            changeOf(static_cast<double>(highestPeakOf(scenario)), static_cast<double>(highestPeakOf(*reference)));
    }
    return figures;
}

ScenarioFigures::ScenarioFigures(QWidget* parent) : QWidget(parent) {
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(12);
    grid->setVerticalSpacing(2);
    const std::vector<ScenarioFigure> names = scenarioFigures({}, nullptr);
    for (std::size_t k = 0; k < names.size(); ++k) {
        Row row{new QLabel(names[k].name, this), new QLabel(this), new QLabel(this)};
        QFont bold = row.value->font();
        bold.setBold(true);
        row.value->setFont(bold);
        row.value->setAlignment(Qt::AlignRight);
        row.change->setAlignment(Qt::AlignRight);
        row.value->setTextInteractionFlags(Qt::TextSelectableByMouse);
        for (QLabel* label : {row.name, row.value, row.change}) {
            label->setToolTip(names[k].help);
        }
        const int line = static_cast<int>(k);
        grid->addWidget(row.name, line, 0);
        grid->addWidget(row.value, line, 1);
        grid->addWidget(row.change, line, 2);
        rows_.push_back(row);
    }
    band_ = new QLabel(this);
    band_->setAlignment(Qt::AlignRight);
    band_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    const QString help =
        tr("Nine steps of ten lie between these, as much as layers and machine varied when the profile was made. The "
           "mean lies above the step time, since every wait is for the later of two.");
    auto* name = new QLabel(tr("5–95 % of steps"), this);
    for (QLabel* label : {name, band_}) {
        label->setToolTip(help);
    }
    grid->addWidget(name, static_cast<int>(names.size()), 0);
    grid->addWidget(band_, static_cast<int>(names.size()), 1, 1, 2);
    setBand(std::nullopt);
    grid->setColumnStretch(1, 1);
    grid->setColumnMinimumWidth(2, fontMetrics().horizontalAdvance(QStringLiteral("−00.0 points")));
}

void ScenarioFigures::setBand(const std::optional<StepBand>& band) {
    band_->setText(band ? tr("%1 to %2, mean %3")
                              .arg(formatDuration(band->low.count()), formatDuration(band->high.count()),
                                   formatDuration(band->mean.count()))
                        : kUnknown);
    band_->setAccessibleName(tr("5 to 95 percent of steps: %1").arg(band_->text()));
}

void ScenarioFigures::setScenario(const SimulatedScenario& scenario, const SimulatedScenario* reference) {
    const std::vector<ScenarioFigure> figures = scenarioFigures(scenario, reference);
    for (std::size_t k = 0; k < figures.size(); ++k) {
        rows_[k].value->setText(figures[k].value);
        rows_[k].change->setText(figures[k].change);
        rows_[k].value->setAccessibleName(
            QStringLiteral("%1 %2 %3").arg(figures[k].name, figures[k].value, figures[k].change).trimmed());
    }
}
}  // namespace pipescope
