#pragma once

#include "gui/document/task_rows.h"
#include "gui/style/work_pool.h"
#include "gui/timeline/time_window.h"
#include "gui/timeline/track_store.h"

#include <QPointer>
#include <QWidget>

#include <memory>
#include <optional>
#include <vector>

class QLineEdit;

namespace pipescope {
class ElidedLabel;
class DocumentPage;

struct FoundRange {
    QString text;
    TimeRange range;
    std::optional<SliceRef> ref = {};         ///< if it is shown among the threads and streams
    std::optional<std::size_t> counter = {};  ///< index of a counter instead
    std::optional<SliceRef> kernel = {};      ///< a kernel that a task launched instead
};

/// Search hits by time: tasks, or ranges and counters with the text if it does not name a task.
struct SearchHits {
    std::shared_ptr<const TaskRows> tasks;
    std::vector<FoundRange> ranges;
    QString error;

    std::size_t size() const { return tasks ? tasks->size() : ranges.size(); }
};

/// The search line below the timelines. Searches while typing: Return goes to the next hit, Shift+Return to the
/// previous one, Escape closes. The search runs in a worker.
class SearchBar : public QWidget {
    Q_OBJECT

public:
    explicit SearchBar(QWidget* parent = nullptr);

    /// Sets the page to search; null: none.
    void setPage(DocumentPage* page);
    /// Shows the bar and focuses it.
    void start();
    /// Shows the bar and searches for the text.
    void find(const QString& text);
    /// Likewise, but leaves the focus where it is.
    void showHits(const QString& text);
    void next() { move(1); }
    void previous() { move(-1); }
    QLineEdit& field() const { return *field_; }
    QString status() const;

Q_SIGNALS:
    /// The hits of the current text are known.
    void searched();
    /// The user wants the tasks of this text as a list.
    void listAsked(const QString& text);
    void closed();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void search();
    void take(SearchHits hits);
    /// Marks the hits on the overview.
    void markHits();
    void goTo(std::size_t hit);
    void move(int by);
    /// The first hit that starts at or after the time; the number of hits without one.
    std::size_t firstFrom(std::int64_t time) const;
    std::size_t firstVisible() const;
    /// The first visible task of the step that is shown, or its last before that; empty if it has none.
    std::optional<std::size_t> nearestInStep() const;
    std::int64_t startOf(std::size_t hit) const;
    void close();

    QPointer<DocumentPage> page_;
    LatestJob job_;
    SearchHits hits_;
    std::optional<std::size_t> current_;
    RestedWork* rest_;
    QLineEdit* field_;
    ElidedLabel* status_;
};
}  // namespace pipescope
