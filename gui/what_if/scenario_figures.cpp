#include "gui/what_if/scenario_figures.h"

#include "gui/document/throughput.h"
#include "gui/style/number_format.h"
#include "simulator/plan/planner.h"

#include <QGridLayout>
#include <QLabel>
#include <QLocale>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace pipescope {
namespace {
constexpr Bytes kUnlimited = std::numeric_limits<Bytes>::max();

constexpr std::size_t kNumFigures = 9;
constexpr std::size_t kStep = 0;
constexpr std::size_t kBubble = 1;
constexpr std::size_t kUtilization = 2;
constexpr std::size_t kSamples = 4;
constexpr std::size_t kFirstOfModel = 6;  // tokens, operations and MFU
constexpr std::size_t kMfu = 8;

double ratio(double value, double reference) {
    return reference > 0 ? value / reference - 1 : 0;
}

QString changeOf(double value, double reference) {
    return formatShareChange(ratio(value, reference));
}

/// Peak and limit of the fullest lane; where limits differ, of the lane that its limit suits least.
QString peakText(const SimulatedScenario& scenario) {
    if (scenario.simulation.memory_unknown) {
        return translated("unknown");
    }
    const std::vector<SimulatedLane>& lanes = scenario.simulation.lanes;
    const auto fullest = std::max_element(lanes.begin(), lanes.end(), [](const auto& one, const auto& other) {
        return one.peak_bytes < other.peak_bytes;
    });
    const std::vector<Bytes> limits =
        memory_limits_of(scenario.scenario.options.hardware, static_cast<int>(lanes.size()));
    const QString peak = formatBytes(highest_peak(scenario.simulation));
    if (std::adjacent_find(limits.begin(), limits.end(), std::not_equal_to<>()) != limits.end()) {
        std::size_t tightest = 0;
        const auto fill = [&](std::size_t lane) {
            return static_cast<double>(lanes[lane].peak_bytes) / static_cast<double>(std::max<Bytes>(1, limits[lane]));
        };
        for (std::size_t lane = 1; lane < std::min(limits.size(), lanes.size()); ++lane) {
            tightest = fill(lane) > fill(tightest) ? lane : tightest;
        }
        const QString of = translated("lane %1: %2 of %3")
                               .arg(tightest)
                               .arg(formatBytes(lanes[tightest].peak_bytes), formatBytes(limits[tightest]));
        return lanes[tightest].peak_bytes == fullest->peak_bytes ? of : peak + QStringLiteral("; ") + of;
    }
    const Bytes limit = limits.empty() ? kUnlimited : limits[static_cast<std::size_t>(fullest - lanes.begin())];
    return limit < kUnlimited ? translated("%1 of %2").arg(peak, formatBytes(limit)) : peak;
}

/// True for bubble and utilization, whose change is in points rather than a share of a share.
bool isShare(std::size_t figure) {
    return figure == kBubble || figure == kUtilization || figure == kMfu;
}

double teraPerSecond(const Simulation& simulation, Nanoseconds step) {
    return simulation.flops ? simulation.flops->per_second(static_cast<double>(step.count())) / 1e12 : 0;
}

std::optional<double> utilizationOf(const Simulation& simulation, Nanoseconds step) {
    return simulation.flops ? simulation.flops->utilization(static_cast<double>(step.count())) : std::nullopt;
}

/// Numbers in the order of the figures.
std::array<double, kNumFigures> numbersOf(const Simulation& simulation, const StepFigures& step, Bytes peak) {
    return {static_cast<double>(step.step.count()),
            step.bubble,
            step.utilization,
            step.speedup,
            step.samples_per_second,
            static_cast<double>(peak),
            step.samples_per_second * static_cast<double>(simulation.tokens_per_sample),
            teraPerSecond(simulation, step.step),
            utilizationOf(simulation, step.step).value_or(0)};
}

/// Plain values in the order of the figures, without noise.
std::array<QVariant, kNumFigures> plainFigures(const SimulatedScenario& scenario) {
    const Simulation& one = scenario.simulation;
    const StepFigures figures = figures_without_noise(one);
    const auto mfu = utilizationOf(one, figures.step);
    return {static_cast<qlonglong>(figures.step.count()),
            figures.bubble,
            figures.utilization,
            figures.speedup,
            figures.samples_per_second,
            one.memory_unknown ? QVariant() : QVariant(static_cast<qlonglong>(highest_peak(scenario.simulation))),
            one.tokens_per_sample > 0
                ? QVariant(figures.samples_per_second * static_cast<double>(one.tokens_per_sample))
                : QVariant(),
            one.flops ? QVariant(teraPerSecond(one, figures.step)) : QVariant(),
            mfu ? QVariant(*mfu) : QVariant()};
}
}  // namespace

std::vector<ScenarioFigure> figureNames(const Simulation& like) {
    const auto figure = [](const char* name, const char* help, const char* key) {
        return ScenarioFigure{translated(name), unknownValue(), {}, translated(help), QString::fromLatin1(key), {}, {}};
    };
    std::vector<ScenarioFigure> figures{
        figure("Step time",
               "From the first forward to the end of the last backward; excludes the optimizer. If the profile has "
               "noise, this is the expected step, the mean of noisy steps",
               "step_time_ns"),
        figure("Bubble", "Share of the step in which a lane is idle, mean of all lanes", "bubble_fraction"),
        figure("Utilization", "Share of the step in which a lane works: 1 − bubble", "utilization"),
        figure("Speedup over one device",
               "Relative to one device as fast as the fastest lane that does all layers alone, without recompute",
               "speedup"),
        figure("Samples/s", "Samples of the mini-batch divided by the step time", "samples_per_second"),
        figure("Peak memory", "Of the lane that needs the most", "peak_bytes"),
        figure("Tokens/s", "Samples a second times the length of a sequence", "tokens_per_second"),
        figure(
            "Model operations",
            "A second: operations that the model needs, three times those of its forwards, divided by the step time; "
            "recomputing does not count",
            "model_tflops_per_second"),
        figure("MFU",
               "Model FLOPs utilization: these operations relative to the peak of all devices, if the device "
               "catalogue has theirs",
               "mfu")};
    if (like.after_pipeline.count() > 0) {
        figures[kStep].help = translated(
            "From the first forward to the end of the optimizer. What follows the pipeline is kept as in the trace. If "
            "the profile has noise, this is the expected step, the mean of noisy steps");
        figures[kBubble].name = translated("Pipeline's bubble");
        figures[kBubble].help = translated("Share of the pipeline's time in which a lane is idle, mean of all lanes");
        figures[kUtilization].name = translated("Pipeline's utilization");
        figures[kUtilization].help = translated("Share of the pipeline's time in which a lane works: 1 − bubble");
    }
    return figures;
}

std::vector<ScenarioFigure> scenarioFigures(const SimulatedScenario& scenario, const SimulatedScenario* reference) {
    std::vector<ScenarioFigure> figures = figureNames(scenario.simulation);
    if (reference != nullptr && reference->runs()) {
        const std::array plain = plainFigures(*reference);
        for (std::size_t k = 0; k < figures.size(); ++k) {
            figures[k].reference = plain[k];
        }
    }
    if (!scenario.runs()) {
        return figures;
    }
    const StepFigures shown = expected_figures(scenario.simulation);
    const auto mfu = utilizationOf(scenario.simulation, shown.step);
    const std::array<QString, kNumFigures> values{
        formatDuration(shown.step.count()),
        formatShare(shown.bubble),
        formatShare(shown.utilization),
        QLocale().toString(shown.speedup, 'f', 2) + QStringLiteral("×"),
        formatPerSecond(shown.samples_per_second),
        peakText(scenario),
        scenario.simulation.tokens_per_sample > 0
            ? formatPerSecond(shown.samples_per_second * static_cast<double>(scenario.simulation.tokens_per_sample))
            : unknownValue(),
        scenario.simulation.flops ? formatOperations(teraPerSecond(scenario.simulation, shown.step)) : unknownValue(),
        mfu ? formatShare(*mfu) : unknownValue()};
    const std::array plain = plainFigures(scenario);
    const auto [own, other] =
        comparable_figures(scenario.simulation, reference != nullptr ? reference->simulation : scenario.simulation);
    const std::array compared = numbersOf(scenario.simulation, own, highest_peak(scenario.simulation));
    const Simulation& base = reference != nullptr ? reference->simulation : scenario.simulation;
    const std::array references =
        numbersOf(base, other, reference != nullptr ? highest_peak(reference->simulation) : 0);
    if (scenario.noisePending) {
        figures[kStep].name = translated("Step time without noise");
    }
    for (std::size_t k = 0; k < figures.size(); ++k) {
        figures[k].value = values[k];
        figures[k].plain = plain[k];
        if (figures[k].reference.isValid()) {
            const double now = compared[k];
            const double before = references[k];
            figures[k].change = isShare(k) ? formatPoints(now, before) : changeOf(now, before);
        }
    }
    return figures;
}

ScenarioFigures::ScenarioFigures(QWidget* parent) : QWidget(parent), model_(new FigureTableModel(this)) {
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setHorizontalSpacing(12);
    grid->setVerticalSpacing(2);
    const std::vector<ScenarioFigure> names = figureNames({});
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
        tr("90 % of steps lie in this range, given the variation of layers and machine in the profile. Their mean is "
           "above the step without noise, because every wait is for the later of two tasks.");
    auto* name = new QLabel(tr("Step-time range (90 % of steps)"), this);
    for (QLabel* label : {name, band_}) {
        label->setToolTip(help);
    }
    grid->addWidget(name, static_cast<int>(names.size()), 0);
    grid->addWidget(band_, static_cast<int>(names.size()), 1, 1, 2);
    setBand(std::nullopt);
    grid->setColumnStretch(1, 1);
    grid->setColumnMinimumWidth(2, fontMetrics().horizontalAdvance(QStringLiteral("−00.00 points")));
}

void ScenarioFigures::setBand(const std::optional<StepBand>& band) {
    model_->setBand(band);
    band_->setText(band ? tr("%1 to %2, mean %3")
                              .arg(formatDuration(band->low.count()), formatDuration(band->high.count()),
                                   formatDuration(band->mean.count()))
                        : unknownValue());
    band_->setAccessibleName(tr("5 to 95 percent of steps: %1").arg(band_->text()));
}

void ScenarioFigures::setScenario(const SimulatedScenario& scenario, const SimulatedScenario* reference) {
    const std::vector<ScenarioFigure> figures = scenarioFigures(scenario, reference);
    model_->setFigures(figures, scenario.scenario.options.hardware.memory_limit);
    for (std::size_t k = 0; k < figures.size(); ++k) {
        rows_[k].name->setText(k == kSamples && batchUnknown_ ? tr("Micro-batches/s") : figures[k].name);
        rows_[k].value->setText(figures[k].value);
        rows_[k].change->setText(figures[k].change);
        // Few profiles know the model's operations.
        const bool shown = k < kFirstOfModel || figures[k].plain.isValid();
        for (QLabel* label : {rows_[k].name, rows_[k].value, rows_[k].change}) {
            label->setVisible(shown);
            label->setToolTip(figures[k].help);
        }
        rows_[k].value->setAccessibleName(
            QStringLiteral("%1 %2 %3").arg(figures[k].name, figures[k].value, figures[k].change).trimmed());
    }
}

QString ScenarioFigures::shownName(std::size_t figure) const {
    return rows_.at(figure).name->text();
}

QString ScenarioFigures::shownValue(std::size_t figure) const {
    return rows_.at(figure).value->text();
}

QString ScenarioFigures::shownChange(std::size_t figure) const {
    return rows_.at(figure).change->text();
}

FigureTableModel::FigureTableModel(QObject* parent)
    : RowModel({{QStringLiteral("figure"), "figure", {}, [](const ScenarioFigure& f) { return f.key; }},
                {QStringLiteral("value"), "value", {}, [](const ScenarioFigure& f) { return f.plain; }},
                {QStringLiteral("reference"), "reference", {}, [](const ScenarioFigure& f) { return f.reference; }}},
               parent) {}

void FigureTableModel::setFigures(std::vector<ScenarioFigure> figures, std::optional<Bytes> limit) {
    figures_ = std::move(figures);
    limit_ = limit;
    refresh();
}

void FigureTableModel::setBand(const std::optional<StepBand>& band) {
    band_ = band;
    refresh();
}

void FigureTableModel::refresh() {
    std::vector<ScenarioFigure> rows = figures_;
    const auto add = [&](const char* key, const QVariant& plain) {
        ScenarioFigure row;
        row.key = QString::fromLatin1(key);
        row.plain = plain;
        rows.push_back(std::move(row));
    };
    const auto ns = [&](Nanoseconds StepBand::*of) {
        return band_ ? QVariant(static_cast<qlonglong>((*band_.*of).count())) : QVariant();
    };
    add("memory_limit_bytes", limit_ ? QVariant(static_cast<qlonglong>(*limit_)) : QVariant());
    add("step_p5_ns", ns(&StepBand::low));
    add("step_p95_ns", ns(&StepBand::high));
    add("step_mean_ns", ns(&StepBand::mean));
    setRows(std::move(rows));
}
}  // namespace pipescope
