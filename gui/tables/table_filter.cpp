#include "gui/tables/table_filter.h"

#include "gui/tables/table_export.h"

#include <algorithm>

namespace pipescope {
namespace {
bool isNumber(const QVariant& value) {
    switch (value.typeId()) {
        case QMetaType::Int:
        case QMetaType::UInt:
        case QMetaType::LongLong:
        case QMetaType::ULongLong:
        case QMetaType::Double: return true;
        default: return false;
    }
}
}  // namespace

void TableFilter::setText(const QString& text) {
    words_ = text.simplified().split(QLatin1Char(' '), Qt::SkipEmptyParts);
    invalidateFilter();
}

bool TableFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
    if (words_.isEmpty()) {
        return true;
    }
    QString all;
    for (int column = 0; column < sourceModel()->columnCount(parent); ++column) {
        all += sourceModel()->index(row, column, parent).data().toString() + QLatin1Char('\n');
    }
    return std::all_of(words_.begin(), words_.end(),
                       [&](const QString& word) { return all.contains(word, Qt::CaseInsensitive); });
}

bool TableFilter::lessThan(const QModelIndex& left, const QModelIndex& right) const {
    const QVariant a = left.data(kExportRole);
    const QVariant b = right.data(kExportRole);
    if (isNumber(a) && isNumber(b)) {
        return a.toDouble() < b.toDouble();
    }
    if (isNumber(a) != isNumber(b)) {
        return isNumber(a) == (sortOrder() == Qt::AscendingOrder);
    }
    return QString::localeAwareCompare(left.data().toString(), right.data().toString()) < 0;
}
}  // namespace pipescope
