#include "gui/what_if/figure_table_model.h"

#include "gui/tables/table_export.h"

#include <array>

namespace pipescope {
namespace {
constexpr std::size_t kLimit = 0;
constexpr std::array<const char*, 4> kFurther{"memory_limit_bytes", "step_p5_ns", "step_p95_ns", "step_mean_ns"};
}  // namespace

void FigureTableModel::setFigures(std::vector<ScenarioFigure> figures, std::optional<Bytes> limit) {
    beginResetModel();
    figures_ = std::move(figures);
    further_.resize(kFurther.size());
    for (std::size_t k = 0; k < kFurther.size(); ++k) {
        further_[k].key = QString::fromLatin1(kFurther[k]);
    }
    further_[kLimit].plain = limit ? QVariant(static_cast<qlonglong>(*limit)) : QVariant();
    endResetModel();
}

void FigureTableModel::setBand(const std::optional<StepBand>& band) {
    beginResetModel();
    further_.resize(kFurther.size());
    const auto show = [&](std::size_t row, Nanoseconds StepBand::*of) {
        further_[row].plain = band ? QVariant(static_cast<qlonglong>((*band.*of).count())) : QVariant();
    };
    show(1, &StepBand::low);
    show(2, &StepBand::high);
    show(3, &StepBand::mean);
    endResetModel();
}

int FigureTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(figures_.size() + further_.size());
}

int FigureTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : numColumns;
}

QVariant FigureTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount() || (role != Qt::DisplayRole && role != kExportRole)) {
        return {};
    }
    const auto row = static_cast<std::size_t>(index.row());
    const ScenarioFigure& of = row < figures_.size() ? figures_[row] : further_[row - figures_.size()];
    switch (index.column()) {
        case figure: return of.key;
        case value: return of.plain;
        default: return of.reference;
    }
}

QVariant FigureTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Vertical || (role != Qt::DisplayRole && role != kExportRole)) {
        return QAbstractTableModel::headerData(section, orientation, role);
    }
    switch (section) {
        case figure: return QStringLiteral("figure");
        case value: return QStringLiteral("value");
        default: return QStringLiteral("reference");
    }
}
}  // namespace pipescope
