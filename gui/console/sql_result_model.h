#pragma once

#include "trace/sql_query.h"

#include <QAbstractTableModel>

#include <optional>

namespace pipescope {
/// Where a cell of a result leads to in the timelines.
struct SqlTarget {
    enum class Kind {
        task_id,    ///< PIPESCOPE_TASK.id
        task_name,  ///< a packed TaskKey
        time,       ///< ns of the recording
    };
    Kind kind = Kind::time;
    std::int64_t value = 0;

    friend bool operator==(const SqlTarget&, const SqlTarget&) = default;
};

/// The rows of a query. Cells that name a task or a time of the recording look and act like links; that a column does
/// so is known from the table it comes from, whatever the query calls it.
class SqlResultModel : public QAbstractTableModel {
    Q_OBJECT

public:
    using QAbstractTableModel::QAbstractTableModel;
    void setResult(SqlResult result);
    const SqlResult& result() const { return result_; }
    /// A time in a row that names its task leads to that task: a simulated time means nothing by itself.
    std::optional<SqlTarget> targetOf(const QModelIndex& index) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    const SqlValue& value(const QModelIndex& index) const;

    SqlResult result_;
    std::vector<std::optional<SqlTarget::Kind>> leadsTo_;  // per column
    std::optional<int> taskColumn_;
};
}  // namespace pipescope
