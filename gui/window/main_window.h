#pragma once

#include "gui/document/trace_document.h"
#include "gui/timeline/timeline_store.h"

#include <QMainWindow>

#include <memory>
#include <optional>

class QAction;
class QComboBox;
class QDockWidget;
class QLabel;
class QMenu;
class QSettings;
class QSplitter;
class QStackedWidget;
class QTableView;

namespace pipescope {
class DifferenceTableModel;
class ElidedLabel;
class LaneTableModel;
class Legend;
class MemoryView;
class MessageBar;
class TaskDetails;
class TimeAxisModel;
class TimelinePane;
class TimelineView;

/// Where the settings hold the docks' places.
inline constexpr QLatin1String kWindowStateKey("window/state");

/// The viewer: measured timeline above the simulated one on one time axis, memory below, and tables.
/// Threading: the GUI thread; files are loaded in a worker and published when they are ready.
class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    /// `settings` holds recent files and the window's shape; null remembers nothing. It must outlive the window.
    explicit MainWindow(QSettings* settings, QWidget* parent = nullptr);
    ~MainWindow() override;

    /// Starts loading; `loaded` or `failed` follows. What was open stays until then.
    void open(const QString& path);
    void setDocument(std::shared_ptr<const TraceDocument> document);
    const TraceDocument* document() const { return document_.get(); }
    void showError(const QString& text);

    /// The measured step that is compared. Ignored if the document has no such step.
    void selectStep(std::int32_t step);
    std::int32_t step() const { return step_; }
    /// Selects a task of one timeline, marks its twin in the other; nothing clears.
    void select(Source source, std::optional<SliceRef> slice);

    TimeAxisModel& axis() const { return *axis_; }
    TimelinePane& pane(Source source) const;
    TimelineView& view(Source source) const;
    MemoryView& memory() const { return *memory_; }
    MessageBar& messages() const { return *messages_; }
    TaskDetails& details() const { return *details_; }

Q_SIGNALS:
    void loaded();
    void failed(const QString& text);

protected:
    void closeEvent(QCloseEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

private:
    QWidget* createContent();
    QWidget* createEmptyState();
    void createDocks();
    void connectViews();
    void createActions();
    void createFileMenu();
    void createViewMenu();
    void createHelpMenu();
    QAction* addViewAction(QMenu& menu, const QString& text, const QList<QKeySequence>& keys,
                           std::function<void()> run);

    void fillSteps();
    void refresh();
    void refreshSelection();
    void showDocks();
    void shareHeight();
    void alignGutters();
    void syncScrollBars();
    void goTo(const TaskKey& task);
    void fitSelection();
    void askForFile();
    void askForExport();
    void showShortcuts();
    void remember(const QString& path);
    void fillRecentFiles();

    QSettings* settings_;
    std::shared_ptr<const TraceDocument> document_;
    std::int32_t step_ = 0;
    int loading_ = 0;  // counts openings, so that only the latest is shown
    TimeAxisModel* axis_;
    QStackedWidget* stack_ = nullptr;
    QWidget* content_ = nullptr;
    QComboBox* stepChoice_ = nullptr;
    ElidedLabel* summary_ = nullptr;
    Legend* legend_ = nullptr;
    MessageBar* messages_ = nullptr;
    QSplitter* splitter_ = nullptr;
    TimelinePane* measured_ = nullptr;
    TimelinePane* simulated_ = nullptr;
    QWidget* memoryPane_ = nullptr;
    QLabel* memoryTitle_ = nullptr;
    MemoryView* memory_ = nullptr;
    TaskDetails* details_ = nullptr;
    LaneTableModel* laneModel_ = nullptr;
    DifferenceTableModel* differenceModel_ = nullptr;
    QTableView* differenceTable_ = nullptr;
    QList<QDockWidget*> docks_;
    bool docksShown_ = false;
    QAction* showMemory_ = nullptr;
    QMenu* recent_ = nullptr;
};
}  // namespace pipescope
