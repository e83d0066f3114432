#pragma once

#include "gui/console/sql_result_model.h"
#include "gui/style/work_pool.h"
#include "schedule/task_key.h"
#include "schedule/timeline.h"
#include "trace/store/sql_query.h"

#include <QWidget>

#include <functional>
#include <string>
#include <utility>
#include <vector>

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QPushButton;
class QTableView;

namespace pipescope {
class ElidedLabel;
class SqlHighlighter;
class TableFilter;

/// Runs read-only queries on the open trace: an editor with examples and history, and a result table whose tasks and
/// times link to the timeline. Queries run in a worker and can be cancelled; the window stays usable. Threading: the
/// GUI thread.
class SqlConsole : public QWidget {
    Q_OBJECT

public:
    explicit SqlConsole(QWidget* parent = nullptr);

    /// Gives the SQLite file to query. Runs in the query's worker, and may take long, as an import does. Throws Error.
    using FindDatabase = std::function<QString()>;
    /// Sets the file to query. If `path` is empty, the console shows the reason `why`. Without `database`, the file is
    /// an SQLite file.
    void setFile(const QString& path, const QString& why = {}, FindDatabase database = {});
    /// Makes tables beside those of the file for a query, in the query's worker; unset: none.
    using MakeTables =
        std::function<std::vector<SqlTable>(const std::string& sql, const std::function<bool()>& cancelled)>;
    void setTables(MakeTables make) { makeTables_ = std::move(make); }
    /// Gives the names of the tracks that queries made; unset: none.
    void setTracks(std::function<QStringList()> names) { trackNames_ = std::move(names); }
    QString sql() const;
    void setSql(const QString& sql);
    /// Starts the query; `finished` follows.
    void run();
    void cancel() { job_.cancel(); }
    bool running() const { return job_.isRunning(); }

    /// Most recent first.
    const QStringList& history() const { return history_; }
    void setHistory(const QStringList& queries);
    SqlResultModel& results() const { return *model_; }
    QTableView& table() const { return *table_; }
    /// The error, or empty; status() then gives the number of rows.
    QString error() const;
    QString status() const;

Q_SIGNALS:
    void finished();
    void historyChanged();
    void taskPicked(pipescope::Source source, const pipescope::TaskKey& task);
    void timePicked(std::int64_t ns);
    /// The user wants the rows of this query as a track.
    void trackAsked(const QString& sql);
    void trackRemoved(const QString& name);

protected:
    void changeEvent(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* createEditor();
    QWidget* createResults();
    void fillExamples();
    void fillHistory();
    void walkHistory(int by);
    void showRows(SqlResult result, std::int64_t milliseconds);
    void showError(const QString& text, std::optional<std::size_t> byte);
    void setRunning(bool running);
    void remember(const QString& sql);
    void follow(const QModelIndex& index);
    void findTask(std::int64_t id);
    void exportRows();
    void fillTrackMenu();

    QString path_;
    FindDatabase database_;
    MakeTables makeTables_;
    std::function<QStringList()> trackNames_;
    QString answered_;  // the query whose rows are shown
    QString asked_;     // the current or last query
    LatestJob job_;
    QStringList history_;
    int historyPosition_ = -1;
    QString draft_;  // what was written before the history was entered
    QComboBox* examples_ = nullptr;
    QComboBox* past_ = nullptr;
    QPlainTextEdit* editor_ = nullptr;
    SqlHighlighter* highlighter_ = nullptr;
    QPushButton* run_ = nullptr;
    QPushButton* cancel_ = nullptr;
    QPushButton* track_ = nullptr;
    QPushButton* export_ = nullptr;
    QLabel* error_ = nullptr;
    ElidedLabel* status_ = nullptr;
    SqlResultModel* model_;
    TableFilter* rows_;
    QTableView* table_ = nullptr;
};
}  // namespace pipescope
