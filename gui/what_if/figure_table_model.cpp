#include "gui/what_if/figure_table_model.h"

namespace pipescope {
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
