#pragma once

#include <QSortFilterProxyModel>
#include <QStringList>

namespace pipescope {
/// Keeps rows in which every typed word occurs in some column, ignoring case. Sorts by export values, so that durations
/// sort by length; unknown values come last.
class TableFilter : public QSortFilterProxyModel {
    Q_OBJECT

public:
    using QSortFilterProxyModel::QSortFilterProxyModel;
    void setText(const QString& text);

protected:
    bool filterAcceptsRow(int row, const QModelIndex& parent) const override;
    bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;

private:
    QStringList words_;
};
}  // namespace pipescope
