#include "gui/tables/call_tree_model.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/table_export.h"

#include <QLocale>

#include <array>
#include <utility>

namespace pipescope {
namespace {
struct CallColumn {
    const char* title;
    const char* key;
};
constexpr std::array<CallColumn, 5> kCallColumns{
    {{"Call", "call"}, {"Count", "count"}, {"Total", "total_ns"}, {"Self", "self_ns"}, {"Busy share", "busy_share"}}};
}  // namespace

void CallTreeModel::setCalls(std::vector<CallRow> calls) {
    beginResetModel();
    calls_ = std::move(calls);
    places_.clear();
    rows_.assign(calls_.size(), 0);
    for (std::size_t k = 0; k < calls_.size(); ++k) {
        if (!calls_[k].outer) {
            rows_[k] = static_cast<int>(places_.size());
            places_.push_back(k);
        }
        for (std::size_t row = 0; row < calls_[k].inner.size(); ++row) {
            rows_[calls_[k].inner[row]] = static_cast<int>(row);
        }
    }
    endResetModel();
}

const CallRow* CallTreeModel::rowAt(const QModelIndex& index) const {
    return index.isValid() && index.internalId() < calls_.size() ? &calls_[index.internalId()] : nullptr;
}

const std::vector<std::size_t>& CallTreeModel::within(const QModelIndex& parent) const {
    const CallRow* row = rowAt(parent);
    return row != nullptr ? row->inner : places_;
}

QModelIndex CallTreeModel::index(int row, int column, const QModelIndex& parent) const {
    return hasIndex(row, column, parent) ? createIndex(row, column, within(parent)[static_cast<std::size_t>(row)])
                                         : QModelIndex();
}

QModelIndex CallTreeModel::parent(const QModelIndex& child) const {
    const CallRow* row = rowAt(child);
    return row != nullptr && row->outer ? createIndex(rows_[*row->outer], 0, *row->outer) : QModelIndex();
}

int CallTreeModel::rowCount(const QModelIndex& parent) const {
    return parent.column() > 0 ? 0 : static_cast<int>(within(parent).size());
}

int CallTreeModel::columnCount(const QModelIndex&) const {
    return static_cast<int>(kCallColumns.size());
}

QVariant CallTreeModel::data(const QModelIndex& index, int role) const {
    const CallRow* row = rowAt(index);
    if (row == nullptr) {
        return {};
    }
    if (role == Qt::TextAlignmentRole) {
        return static_cast<int>((index.column() == name ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    }
    if (role == Qt::DecorationRole && index.column() == name && row->kind) {
        return styleOf(*row->kind).color;
    }
    if (role == Qt::ToolTipRole && index.column() == name) {
        return row->name;
    }
    if (role != Qt::DisplayRole && role != kExportRole) {
        return {};
    }
    const bool plain = role == kExportRole;
    const auto time = [plain](std::int64_t ns) {
        return plain ? QVariant::fromValue<qlonglong>(ns) : QVariant(formatDuration(ns));
    };
    switch (index.column()) {
        case name: return row->name;
        case count:
            return plain ? QVariant::fromValue<qlonglong>(row->count)
                         : QVariant(QLocale().toString(static_cast<qlonglong>(row->count)));
        case total: return time(row->inside);
        case self: return time(row->self);
        default: return plain ? QVariant(row->share) : QVariant(formatShare(row->share));
    }
}

QVariant CallTreeModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation == Qt::Vertical || section < 0 || section >= columnCount()) {
        return {};
    }
    const CallColumn& column = kCallColumns.at(static_cast<std::size_t>(section));
    switch (role) {
        case Qt::DisplayRole: return translated(column.title);
        case kExportRole: return QString::fromLatin1(column.key);
        case Qt::TextAlignmentRole:
            return static_cast<int>((section == name ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
        default: return {};
    }
}
}  // namespace pipescope
