#pragma once

#include "gui/document/trace_document.h"
#include "gui/style/work_pool.h"
#include "gui/timeline/time_axis_model.h"

#include <QPointer>
#include <QWidget>

#include <memory>

class QComboBox;
class QPushButton;
class QTableView;

namespace pipescope {
class ElidedLabel;
class StatisticsModel;
class TableFilter;

/// Statistics of a part of the time axis, such as the visible part: number and duration of tasks of each kind, and busy
/// time of the lanes. Computed in a worker shortly after the view comes to rest.
class StatisticsPanel : public QWidget {
    Q_OBJECT

public:
    explicit StatisticsPanel(QWidget* parent = nullptr);

    /// Null: nothing is open. The simulated step is drawn beside measured step `step`.
    void setDocument(std::shared_ptr<const TraceDocument> document, TimeAxisModel* axis, std::int32_t step);
    StatisticsModel& model() const { return *model_; }
    QTableView& table() const { return *table_; }
    QComboBox& ranges() const { return *ranges_; }

Q_SIGNALS:
    void counted();
    /// Emitted for a click or Return on a row, with the longest of its tasks in the range.
    void picked(pipescope::Source source, pipescope::SliceRef slice);
    void failed(const QString& text);
    /// A range was measured, which the panel now counts.
    void rangeMeasured();

protected:
    void showEvent(QShowEvent* event) override;

private:
    enum Range { visible_range, step_range, whole_range, measured_range };

    void fillSources();
    Source source() const;
    TimeRange range() const;
    void pick(const QModelIndex& shown);
    bool lacksRange() const;
    /// Counts a range that was measured; without one, the visible range again.
    void followRange();
    void restart();
    void count();
    void exportRows();

    std::shared_ptr<const TraceDocument> document_;
    QPointer<TimeAxisModel> axis_;
    std::int32_t step_ = 0;
    LatestJob job_;
    RestedWork* rest_;
    QComboBox* sources_;
    QComboBox* ranges_;
    ElidedLabel* status_;
    QPushButton* export_;
    StatisticsModel* model_;
    TableFilter* rows_;
    QTableView* table_;
};
}  // namespace pipescope
