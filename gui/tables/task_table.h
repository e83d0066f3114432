#pragma once

#include "gui/document/task_rows.h"
#include "gui/style/work_pool.h"

#include <QWidget>

#include <memory>

class QComboBox;
class QLineEdit;
class QPushButton;
class QTableView;

namespace pipescope {
class ElidedLabel;
class TaskTableModel;

/// The tasks of the open document, of all steps or the selected one. Sortable by every column; filtered by kind, lane
/// and text. Filtering and sorting run in a worker, and the old list stays until the new one is ready. A row costs 12
/// bytes, 8 of them in Qt's header, so a trace with millions of tasks starts with one step. Threading: the GUI thread.
class TaskTable : public QWidget {
    Q_OBJECT

public:
    explicit TaskTable(QWidget* parent = nullptr);

    /// Null: nothing is open. Simulated tasks are compared with measured step `step`.
    void setDocument(std::shared_ptr<const TraceDocument> document, std::int32_t step);
    /// Marks the row of a slice, and switches to its timeline if necessary; nullopt clears the mark.
    void select(Source source, std::optional<SliceRef> slice);

    TaskTableModel& model() const { return *model_; }
    QTableView& table() const { return *table_; }
    QLineEdit& filter() const { return *filter_; }
    QComboBox& kinds() const { return *kinds_; }
    QComboBox& lanes() const { return *lanes_; }
    /// Selects all steps or the current one.
    QComboBox& steps() const { return *steps_; }
    static constexpr std::size_t kMostListedUnasked = 1'000'000;
    QString status() const;

Q_SIGNALS:
    /// The user selected a row.
    void picked(pipescope::Source source, pipescope::SliceRef slice);
    /// A new list is shown.
    void listed();
    void failed(const QString& text);

protected:
    void showEvent(QShowEvent* event) override;

private:
    QWidget* createFilters();
    void createTable();
    void fillChoices();
    TaskQuery withChoices(TaskQuery query) const;
    Source source() const;
    void restart();
    void showRows(std::shared_ptr<const TaskRows> rows);
    void markSelected();
    void exportRows();

    std::shared_ptr<const TraceDocument> document_;
    std::int32_t step_ = 0;
    LatestJob job_;
    bool stale_ = false;  // something changed while the table was hidden
    bool marking_ = false;
    std::optional<SliceRef> selected_;
    Source selectedIn_ = Source::measured;
    QComboBox* sources_ = nullptr;
    QComboBox* kinds_ = nullptr;
    QComboBox* lanes_ = nullptr;
    QComboBox* steps_ = nullptr;
    bool stepsChosen_ = false;  // by the user, rather than by the trace's size
    QLineEdit* filter_ = nullptr;
    ElidedLabel* status_ = nullptr;
    QPushButton* export_ = nullptr;
    TaskTableModel* model_;
    QTableView* table_;
};
}  // namespace pipescope
