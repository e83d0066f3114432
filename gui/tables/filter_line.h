#pragma once

#include <QLineEdit>

class QTableView;

namespace pipescope {
/// The line that says which rows of a table are listed. In the table, / leads to the line; in the line, Return and Down
/// lead to the table, and Escape clears the line, or leaves it empty for the table.
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
