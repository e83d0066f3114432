#include "gui/tables/lane_table_model.h"

#include "gui/style/number_format.h"
#include "gui/style/text.h"
#include "gui/tables/table_export.h"

#include <array>

namespace pipescope {
namespace {

template <class T, class Format>
QString orUnknown(const std::optional<T>& value, Format format) {
    return value ? format(*value) : unknownValue();
}

QString cell(const LaneFacts& facts, int column) {
    const auto duration = [](Nanoseconds ns) { return formatDuration(ns.count()); };
    switch (column) {
        case LaneTableModel::lane: return facts.lane;
        case LaneTableModel::measured_busy: return orUnknown(facts.measuredBusy, duration);
        case LaneTableModel::simulated_busy: return orUnknown(facts.simulatedBusy, duration);
        case LaneTableModel::measured_bubble: return orUnknown(facts.measuredBubble, formatShare);
        case LaneTableModel::simulated_bubble: return orUnknown(facts.simulatedBubble, formatShare);
        case LaneTableModel::measured_peak: return orUnknown(facts.measuredPeak, formatBytes);
        case LaneTableModel::simulated_peak: return orUnknown(facts.simulatedPeak, formatBytes);
        default: return {};
    }
}
/// Invalid if unknown.
QVariant plain(const LaneFacts& facts, int column) {
    const auto number = [](const auto& value) { return value ? QVariant(*value) : QVariant::fromValue(nullptr); };
    const auto ns = [](const std::optional<Nanoseconds>& value) {
        return value ? QVariant::fromValue<qlonglong>(value->count()) : QVariant::fromValue(nullptr);
    };
    const auto bytes = [](const std::optional<Bytes>& value) {
        return value ? QVariant::fromValue<qlonglong>(*value) : QVariant::fromValue(nullptr);
    };
    switch (column) {
        case LaneTableModel::lane: return facts.lane;
        case LaneTableModel::measured_busy: return ns(facts.measuredBusy);
        case LaneTableModel::simulated_busy: return ns(facts.simulatedBusy);
        case LaneTableModel::measured_bubble: return number(facts.measuredBubble);
        case LaneTableModel::simulated_bubble: return number(facts.simulatedBubble);
        case LaneTableModel::measured_peak: return bytes(facts.measuredPeak);
        case LaneTableModel::simulated_peak: return bytes(facts.simulatedPeak);
        default: return {};
    }
}
}  // namespace

void LaneTableModel::setFacts(std::vector<LaneFacts> facts) {
    beginResetModel();
    facts_ = std::move(facts);
    endResetModel();
}

int LaneTableModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(facts_.size());
}

int LaneTableModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : kColumns;
}

QVariant LaneTableModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid() || index.row() >= rowCount()) {
        return {};
    }
    if (role == Qt::DisplayRole) {
        return cell(facts_[static_cast<std::size_t>(index.row())], index.column());
    }
    if (role == kExportRole) {
        return plain(facts_[static_cast<std::size_t>(index.row())], index.column());
    }
    if (role == Qt::TextAlignmentRole) {
        return static_cast<int>((index.column() == lane ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    }
    return {};
}

QVariant LaneTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Vertical || section < 0 || section >= kColumns) {
        return {};
    }
    if (role == kExportRole) {
        constexpr std::array keys{"lane",
                                  "measured_busy_ns",
                                  "simulated_busy_ns",
                                  "measured_bubble_fraction",
                                  "simulated_bubble_fraction",
                                  "measured_peak_bytes",
                                  "simulated_peak_bytes"};
        return QString::fromLatin1(keys[static_cast<std::size_t>(section)]);
    }
    if (role != Qt::DisplayRole && role != Qt::TextAlignmentRole) {
        return {};
    }
    if (role == Qt::TextAlignmentRole) {
        return static_cast<int>((section == lane ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    }
    switch (section) {
        case lane: return tr("Lane");
        case measured_busy: return tr("Busy\nmeasured");
        case simulated_busy: return tr("Busy\nsimulated");
        case measured_bubble: return tr("Bubble\nmeasured");
        case simulated_bubble: return tr("Bubble\nsimulated");
        case measured_peak: return tr("Peak memory\nmeasured");
        case simulated_peak: return tr("Peak memory\nsimulated");
        default: return {};
    }
}
}  // namespace pipescope
