#pragma once

#include "gui/document/area_statistics.h"

#include <QAbstractItemModel>

#include <optional>
#include <vector>

namespace pipescope {
/// Who called whom, as a tree: lanes, threads or streams, and within them what ran there, the most time first.
class CallTreeModel : public QAbstractItemModel {
public:
    enum Column { name, count, total, self, share };
    explicit CallTreeModel(QObject* parent = nullptr) : QAbstractItemModel(parent) {}

    void setCalls(std::vector<CallRow> calls);
    /// Null for an index of no row.
    const CallRow* rowAt(const QModelIndex& index) const;

    QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
    QModelIndex parent(const QModelIndex& child) const override;
    using QObject::parent;
    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    const std::vector<std::size_t>& within(const QModelIndex& parent) const;

    std::vector<CallRow> calls_;
    std::vector<std::size_t> places_;
    std::vector<int> rows_;  // of each call within its outer one
};
}  // namespace pipescope
