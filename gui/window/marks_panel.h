#pragma once

#include "gui/tables/column_model.h"
#include "gui/timeline/time_axis_model.h"

#include <QPointer>
#include <QWidget>

class QTableView;

namespace pipescope {
class TableFilter;

/// The marks of a time axis and the notes on its ranges: position, length, and an editable text.
class MarksModel : public ColumnModel<TimeMark> {
public:
    enum Column { time, length, note };

    explicit MarksModel(QObject* parent = nullptr);
    void setAxis(TimeAxisModel* axis);
    void remove(int row);
    std::optional<TimeMark> markAt(int row) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role = Qt::EditRole) override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;

protected:
    TimeMark rowOf(const QModelIndex& index) const override { return *markAt(index.row()); }

private:
    QPointer<TimeAxisModel> axis_;
};

/// A list of marks. Click a mark to go there; edit the note beside it; Delete removes it.
class MarksPanel : public QWidget {
    Q_OBJECT

public:
    explicit MarksPanel(QWidget* parent = nullptr);
    /// Null: nothing is open.
    void setAxis(TimeAxisModel* axis) { model_->setAxis(axis); }
    MarksModel& model() const { return *model_; }
    QTableView& table() const { return *table_; }

Q_SIGNALS:
    void picked(std::int64_t time);
    /// A note on a range was clicked.
    void rangePicked(const pipescope::TimeRange& range);

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void removeSelected();

    MarksModel* model_;
    TableFilter* rows_;
    QTableView* table_;
};
}  // namespace pipescope
