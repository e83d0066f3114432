#pragma once

#include "analysis/run_list.h"

#include <QDialog>
#include <QString>
#include <QStringList>

#include <memory>
#include <vector>

class QLabel;
class QPushButton;

namespace pipescope {
class FilteredTable;
class RunListModel;

/// The runs of a folder as a list, which opens one or compares two. A worker reads the files. Threading: the GUI
/// thread.
class RunListWindow : public QDialog {
    Q_OBJECT

public:
    /// Starts to read the folder.
    explicit RunListWindow(const QString& folder, QWidget* parent = nullptr);

    /// True once the folder was read, or could not be.
    bool isComplete() const { return complete_; }
    FilteredTable& table() const { return *table_; }
    QPushButton& openButton() const { return *open_; }
    QPushButton& compareButton() const { return *compare_; }
    /// The text above the table, and the list of left-out files below it.
    QString message() const;
    QString leftOut() const;

Q_SIGNALS:
    /// The files of one run.
    void openAsked(const QStringList& files);
    void compareAsked(const QStringList& before, const QStringList& after);
    void completed();
    /// So many percent of the runs are read.
    void progressed(int percent);

private:
    void list(const RunList& runs);
    std::vector<int> selectedRows() const;
    /// The selected runs, in the order of the list.
    std::vector<ListedRun> selected() const;
    void refreshButtons();
    void askToOpen();
    void askToCompare();

    bool complete_ = false;
    RunListModel* model_;
    QLabel* message_;
    FilteredTable* table_;
    QLabel* leftOut_;
    QPushButton* open_;
    QPushButton* compare_;
};
}  // namespace pipescope
