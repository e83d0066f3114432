#pragma once

#include <QLineEdit>

class QTableView;

namespace pipescope {
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
}  // namespace pipescope
