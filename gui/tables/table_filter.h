#pragma once

#include <QSortFilterProxyModel>
#include <QStringList>

namespace pipescope {
/// Which rows of a table are shown: those in which every word that was typed stands in some column, in any case. Sorts
/// by the values that would be exported, so that durations stand by their length; what is not known comes last.
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
