#pragma once

#include "gui/document/task_rows.h"

#include <QWidget>

#include <atomic>
#include <memory>

class QComboBox;
class QLineEdit;
class QPushButton;
class QTableView;

namespace pipescope {
class ElidedLabel;
class TaskTableModel;

/// The tasks of the open document, of all its steps or of the chosen one, sortable by every column and filtered by
/// kind, lane and what is typed. Filtering and sorting run in a worker; what was listed stays until the new list is
/// ready. A row costs 12 bytes, 8 of them in the header of Qt's table; so a trace of millions of tasks begins with one
/// step. Threading: the GUI thread.
class TaskTable : public QWidget {
    Q_OBJECT

public:
    explicit TaskTable(QWidget* parent = nullptr);
    ~TaskTable() override;

    /// Null: nothing is open. `step` is the measured step that simulated tasks are compared with.
    void setDocument(std::shared_ptr<const TraceDocument> document, std::int32_t step);
    /// Marks the row of a slice, and lists its timeline if the other one is listed; nothing unmarks.
    void select(Source source, std::optional<SliceRef> slice);

    TaskTableModel& model() const { return *model_; }
    QTableView& table() const { return *table_; }
    QLineEdit& filter() const { return *filter_; }
    QComboBox& kinds() const { return *kinds_; }
    QComboBox& lanes() const { return *lanes_; }
    /// All steps, or the chosen one.
    QComboBox& steps() const { return *steps_; }
    static constexpr std::size_t kMostListedUnasked = 1'000'000;
    QString status() const;

Q_SIGNALS:
    /// The user chose a row.
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
    std::shared_ptr<std::atomic<bool>> cancelled_;  // of the running worker
    bool stale_ = false;                            // something changed while nobody looked
    bool marking_ = false;
    std::optional<SliceRef> selected_;
    Source selectedIn_ = Source::measured;
    QComboBox* sources_ = nullptr;
    QComboBox* kinds_ = nullptr;
    QComboBox* lanes_ = nullptr;
    QComboBox* steps_ = nullptr;
    bool stepsChosen_ = false;  // by the user, not by the size of the trace
    QLineEdit* filter_ = nullptr;
    ElidedLabel* status_ = nullptr;
    QPushButton* export_ = nullptr;
    TaskTableModel* model_;
    QTableView* table_;
};
}  // namespace pipescope
