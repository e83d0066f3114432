#pragma once

#include "gui/document/task_rows.h"
#include "gui/timeline/time_window.h"

#include <QPointer>
#include <QWidget>

#include <atomic>
#include <memory>
#include <vector>

class QLineEdit;
class QTimer;

namespace pipescope {
class ElidedLabel;
class DocumentPage;

/// An NVTX range whose text was searched for.
struct FoundRange {
    QString text;
    TimeRange range;
};

/// What a search found: tasks, or, if the text names no task, NVTX ranges with that text, both by time.
struct SearchHits {
    std::shared_ptr<const TaskRows> tasks;
    std::vector<FoundRange> ranges;
    QString error;

    std::size_t size() const { return tasks ? tasks->size() : ranges.size(); }
};

/// The line below the timelines that searches while one types: Return goes to the next hit, Shift+Return to the one
/// before, Escape closes. Searching runs in a worker.
class SearchBar : public QWidget {
    Q_OBJECT

public:
    explicit SearchBar(QWidget* parent = nullptr);
    ~SearchBar() override;

    /// Searches are in this page; null: nowhere.
    void setPage(DocumentPage* page);
    /// Shows the bar and puts the keyboard there.
    void start();
    void next();
    void previous();
    QLineEdit& field() const { return *field_; }
    QString status() const;

Q_SIGNALS:
    /// The hits of what is typed now are known.
    void searched();
    void closed();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void search();
    void take(SearchHits hits);
    void goTo(std::size_t hit);
    void move(int by);
    std::size_t firstVisible() const;
    std::int64_t startOf(std::size_t hit) const;
    void close();

    QPointer<DocumentPage> page_;
    std::shared_ptr<std::atomic<bool>> cancelled_;
    SearchHits hits_;
    std::optional<std::size_t> current_;
    QTimer* rest_;
    QLineEdit* field_;
    ElidedLabel* status_;
};
}  // namespace pipescope
