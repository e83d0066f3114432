#pragma once

#include "analysis/compared_bubbles.h"
#include "gui/document/step_analysis.h"
#include "gui/tables/column_model.h"
#include "gui/tables/filtered_table.h"
#include "gui/timeline/time_axis_model.h"

#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// A bubble of the chosen measured step, or of the simulated one.
struct BubbleRow {
    Source source = Source::measured;
    Bubble bubble;
    ListedBubble listed;
    QString culprit;  ///< name of the task that the lane waited for, or that still ran on another lane; empty: none
    std::optional<RootCause> root = {};  ///< empty: not known
};

class BubbleTableModel : public RowModel<BubbleRow> {
public:
    enum Column { cause, culprit, lane, timeline, start, length, share, root };
    explicit BubbleTableModel(QObject* parent = nullptr);
    void setBubbles(std::vector<BubbleRow> bubbles, std::vector<LaneInfo> lanes);
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;

private:
    std::vector<LaneInfo> lanes_;
};

/// Bubbles of one cause, or of all, over all lanes.
struct BubbleSumRow {
    std::optional<BubbleCause> cause;  ///< empty: all causes
    std::optional<std::int64_t> measured;
    std::optional<std::int64_t> simulated;
    std::optional<double> measuredShare;
    std::optional<double> simulatedShare;
};

class BubbleSumModel : public RowModel<BubbleSumRow> {
public:
    explicit BubbleSumModel(QObject* parent = nullptr);
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
};

/// All bubbles of a step, the longest first, beside their sums by cause. A click on a sum lists the bubbles of that
/// cause.
class BubblePanel : public QWidget {
    Q_OBJECT

public:
    explicit BubblePanel(QWidget* parent = nullptr);

    /// Shows the bubbles of the measured step `step`. Null shows none.
    void setAnalysis(const StepAnalysis* analysis, const TraceDocument* document, std::int32_t step);
    /// Marks the row of the selected bubble, if one is selected.
    void select(const std::optional<PartSelection>& part);
    /// Lists the bubbles of this cause; empty: all.
    void listCause(const std::optional<BubbleCause>& cause);
    /// Lists the bubbles of this root cause.
    void listRoot(RootCause root);
    FilteredTable& list() const { return *list_; }
    QTableView& sums() const { return *sums_; }
    const QAbstractItemModel& sumModel() const { return *sumModel_; }

Q_SIGNALS:
    void picked(pipescope::Source source, const pipescope::Bubble& bubble);

private:
    void filterBy(const QModelIndex& sum);

    BubbleTableModel* model_;
    BubbleSumModel* sumModel_;
    FilteredTable* list_;
    QTableView* sums_;
};
}  // namespace pipescope
