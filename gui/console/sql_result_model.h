#pragma once

#include "trace/store/sql_query.h"

#include <QAbstractTableModel>

#include <optional>

namespace pipescope {
/// Link target of a result cell in the timelines.
struct SqlTarget {
    enum class Kind {
        task_id,    ///< PIPESCOPE_TASK.id
        task_name,  ///< a packed TaskKey
        time,       ///< ns since the start of the recording
    };
    Kind kind = Kind::time;
    std::int64_t value = 0;

    friend bool operator==(const SqlTarget&, const SqlTarget&) = default;
};

/// The rows of a query. Cells with a task or a time of the recording look and act like links. The source column in the
/// trace decides this, whatever name the query gives it.
class SqlResultModel : public QAbstractTableModel {
    Q_OBJECT

public:
    using QAbstractTableModel::QAbstractTableModel;
    void setResult(SqlResult result);
    const SqlResult& result() const { return result_; }
    /// A time in a row that also names its task links to the task: a simulated time means nothing by itself.
    std::optional<SqlTarget> targetOf(const QModelIndex& index) const;

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;

private:
    const SqlValue& value(const QModelIndex& index) const;

    SqlResult result_;
    std::vector<std::optional<SqlTarget::Kind>> leadsTo_;  // by column
    std::optional<int> taskColumn_;
};
}  // namespace pipescope
