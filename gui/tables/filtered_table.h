#pragma once

#include <QLineEdit>
#include <QSortFilterProxyModel>
#include <QStringList>
#include <QTableView>
#include <QWidget>

#include <set>

class QLabel;
class QTableView;

namespace pipescope {
/// Keeps rows in which every typed word occurs in some column that is shown, ignoring case. Sorts by export values, so
/// that durations sort by length; unknown values come last.
class TableFilter : public QSortFilterProxyModel {
    Q_OBJECT

public:
    using QSortFilterProxyModel::QSortFilterProxyModel;
    void setText(const QString& text);
    void leaveOut(int column, bool isLeftOut);

protected:
    bool filterAcceptsRow(int row, const QModelIndex& parent) const override;
    bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;

private:
    QStringList words_;
    std::set<int> leftOut_;
};

/// Filter of a table's rows. In the table, / focuses the line. In the line, Return and Down focus the table; Escape
/// clears the line, or returns to the table if it is empty.
class FilterLine : public QLineEdit {
    Q_OBJECT

public:
    /// `table` must outlive the line. `name` is for screen readers.
    FilterLine(QTableView& table, const QString& name, QWidget* parent = nullptr);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    void goToTable();

    QTableView& table_;
};

/// A table with a filter line above it. Clicking a header sorts by it.
class FilteredTable : public QWidget {
    Q_OBJECT

public:
    /// `model` must outlive the table. `name` is for screen readers; `empty` is shown while the model has no rows.
    FilteredTable(QAbstractItemModel& model, const QString& name, const QString& empty, QWidget* parent = nullptr);

    QTableView& table() const { return *table_; }
    FilterLine& line() const { return *line_; }
    /// The filter does not look into a hidden column.
    void setColumnHidden(int column, bool isHidden);
    void setEmptyText(const QString& text);
    /// Makes the first column as wide as its names, up to half of the table, instead of all that the others leave.
    void keepNamesBesideFigures();
    /// The text shown instead of rows, or empty if there are rows.
    QString hint() const;
    /// The visible rows in their order.
    TableFilter& rows() const { return *rows_; }

Q_SIGNALS:
    /// Emitted for a click or Return on a row. `index` belongs to the model.
    void picked(const QModelIndex& index);

protected:
    void resizeEvent(QResizeEvent* event) override;

private:
    void refreshHint();

    bool namesAreBeside_ = false;
    QString empty_;
    QLabel* hint_;
    TableFilter* rows_;
    QTableView* table_;
    FilterLine* line_;
};

/// Common look of all tables: compact striped rows without a grid, whole rows selected.
void makeCompact(QTableView& table);
/// makeCompact(), and the first column takes the remaining width; the others fit their contents.
void styleTable(QTableView& table);
/// Sorts once a header is clicked; before that, rows are in model order.
void makeSortable(QTableView& table);
}  // namespace pipescope
