#pragma once

#include "gui/document/area_statistics.h"
#include "gui/document/trace_document.h"
#include "gui/style/work_pool.h"
#include "gui/timeline/time_axis_model.h"

#include <QPointer>
#include <QWidget>

#include <memory>
#include <optional>

class QComboBox;
class QPushButton;
class QStackedWidget;
class QTableView;
class QTreeView;

namespace pipescope {
class CallTreeModel;
class ElidedLabel;
class LengthChart;
class StatisticsModel;
class TableFilter;

/// Statistics of a part of the time axis, such as the visible part: by kind of task or name of a range or kernel, or
/// as a tree of calls; beside them how long the chosen row's tasks take over all steps. Computed in a worker shortly
/// after the view comes to rest.
class StatisticsPanel : public QWidget {
    Q_OBJECT

public:
    explicit StatisticsPanel(QWidget* parent = nullptr);

    /// Null: nothing is open. The simulated step is drawn beside measured step `step`.
    void setDocument(std::shared_ptr<const TraceDocument> document, TimeAxisModel* axis, std::int32_t step);
    StatisticsModel& model() const { return *model_; }
    QTableView& table() const { return *table_; }
    CallTreeModel& calls() const { return *calls_; }
    QTreeView& tree() const { return *tree_; }
    LengthChart& chart() const { return *chart_; }
    QComboBox& sources() const { return *sources_; }
    QComboBox& ranges() const { return *ranges_; }
    /// By name, or as a tree of calls.
    QComboBox& views() const { return *views_; }

Q_SIGNALS:
    void counted();
    /// The chart shows the chosen row's lengths.
    void measured();
    /// Emitted for a click or Return on a row, with the longest of its items in the range.
    void picked(const pipescope::CountedItem& item);
    /// Lengths were chosen in the chart: a text for Find.
    void searchAsked(const QString& text);
    void failed(const QString& text);
    /// A range was measured, which the panel now counts.
    void rangeMeasured();

protected:
    void showEvent(QShowEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    enum Range { visible_range, step_range, whole_range, measured_range };

    void fillSources();
    Counted wanted() const;
    TimeRange range() const;
    TimeRange rangeInStore(Counted counted) const;
    void pick(const QModelIndex& shown);
    /// Whether a measured range is to be counted, and there is none.
    bool lacksRange() const;
    /// Counts a range that was measured; without one, the visible range again.
    void followRange();
    void restart();
    void count();
    void showNothing(const QString& why);
    void clear();
    /// Whether the rows' items can be looked up: the rows are of this document, and a range is known.
    bool holdsRows() const;
    void take(AreaStatistics statistics, Counted of);
    /// Chooses the row whose lengths the chart shows.
    void choose(const std::optional<StatisticsRow>& row);
    void measureLengths();
    void exportRows();

    std::shared_ptr<const TraceDocument> document_;
    QPointer<TimeAxisModel> axis_;
    std::int32_t step_ = 0;
    LatestJob job_;
    LatestJob lengthsJob_;
    std::optional<StatisticsRow> chosen_;
    std::optional<StatisticsRow> charted_;  // whose lengths the chart shows, which follows the chosen row
    Counted chartedOf_ = Counted::measured_tasks;
    std::shared_ptr<const std::vector<TimeRange>> items_;  // those of the charted row, over the whole file
    Counted counted_ = Counted::measured_tasks;            // what the rows are of
    std::weak_ptr<const TraceDocument> rowsOf_;            // and of which document
    bool fills_ = false;                                   // the rows are being replaced
    RestedWork* rest_;
    QComboBox* sources_;
    QComboBox* ranges_;
    QComboBox* views_;
    ElidedLabel* status_;
    QPushButton* export_;
    StatisticsModel* model_;
    TableFilter* rows_;
    QTableView* table_;
    CallTreeModel* calls_;
    QTreeView* tree_;
    QStackedWidget* stack_;
    LengthChart* chart_;
};
}  // namespace pipescope
