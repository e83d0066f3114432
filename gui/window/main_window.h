#pragma once

#include "gui/document/trace_document.h"
#include "gui/timeline/timeline_store.h"
#include "gui/window/document_page.h"
#include "gui/window/window_exports.h"

#include <QMainWindow>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

class QAction;
class QDockWidget;
class QMenu;
class QSettings;
class QStackedWidget;
class QTabWidget;
class QTableView;
class QUndoGroup;

namespace pipescope {
class DifferenceTableModel;
class GrowingTrace;
class LaneTableModel;
class MessageBar;
class MarksPanel;
class SearchBar;
class ScenarioTools;
class SqlConsole;
class StatisticsPanel;
struct Report;
class TaskDetails;
class TaskTable;
class UnmatchedTableModel;

/// The viewer: a tab for each open document, and around them docks and menus that follow the current one.
///
/// To add a dock: make the widget in createDocks() (main_window_docks.cpp), hand it to addDock(), and connect it to
/// pageChanged(), stepChanged() and selectionChanged(), which tell that it must look at page() again. To add an action:
/// one line in the menu's function (main_window_actions.cpp).
/// Threading: the GUI thread; files are loaded in a worker and published when they are ready.
class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    /// `settings` holds recent files and the window's shape; null remembers nothing. It must outlive the window.
    explicit MainWindow(QSettings* settings, QWidget* parent = nullptr);
    ~MainWindow() override;

    /// Starts loading into a tab of its own; `loaded` or `failed` follows. A file that is open is read again in its
    /// tab, which keeps its view.
    void open(const QString& path);
    /// Each in a tab of its own; the last one is the current.
    void open(const QStringList& paths);
    /// Shows a document in the tab of its file, which is made if there is none, and makes it the current one.
    void setDocument(std::shared_ptr<const TraceDocument> document);
    void closePage(DocumentPage* page);
    /// Writes the report of the current page, with a picture of it, as HTML or PDF; an error is shown in the bar.
    void exportReport(const QString& path);
    /// Of the current page, whose document must be there, with a picture of it as it stands.
    Report report() const;
    /// Every chart and every table there can be, in the order of the menu; the first is the tab as a whole.
    const std::vector<WindowExport>& exports() const { return exports_; }
    /// Writes one of them into a file; an error is shown in the bar.
    void exportTo(const WindowExport& what, const QString& path);
    /// Opens what was open when the last window was closed.
    void restoreSession();
    void showError(const QString& text);

    /// The current page; null while nothing is open.
    DocumentPage* page() const;
    QList<DocumentPage*> pages() const;
    MessageBar& messages() const { return *messages_; }
    /// What the current page's profile can be played with; null while there is no document.
    ScenarioTools* scenarioTools();
    TaskDetails& details() const { return *details_; }
    SqlConsole& console() const { return *console_; }
    TaskTable& tasks() const { return *tasks_; }
    StatisticsPanel& statistics() const { return *statistics_; }
    MarksPanel& marks() const { return *marks_; }
    SearchBar& search() const { return *search_; }

    // The current page's. All but document() want an open page.
    const TraceDocument* document() const { return page() != nullptr ? page()->document().get() : nullptr; }
    void selectStep(std::int32_t step) { page()->selectStep(step); }
    std::int32_t step() const { return page()->step(); }
    void select(Source source, std::optional<SliceRef> slice) { page()->select(source, slice); }
    TimeAxisModel& axis() const { return page()->axis(); }
    TimelinePane& pane(Source source) const { return page()->pane(source); }
    TimelineView& view(Source source) const { return page()->view(source); }
    MemoryView& memory() const { return page()->memory(); }

Q_SIGNALS:
    void loaded();
    void failed(const QString& text);
    /// Another page is the current one, or the current one's document is another; page() may be null now, and so may
    /// its document.
    void pageChanged();
    /// Of the current page: its document has another simulated half, as at every move of a slider.
    void simulationChanged();
    /// Of the current page.
    void stepChanged();
    void selectionChanged();

protected:
    bool focusNextPrevChild(bool next) override;
    void closeEvent(QCloseEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

private:
    /// A file dropped on a field is to be opened, not its name written into the text.
    void takeDropsFromFields();
    QWidget* createEmptyState();
    void createTabs();
    DocumentPage* addPage(const QString& path);
    DocumentPage* pageOf(const QString& path) const;
    void follow(DocumentPage& page);
    void refreshWindow();
    void setTitle();

    // main_window_files.cpp
    /// Reads the page's file; with `growing` only what came since the last time.
    void load(DocumentPage& page, const std::shared_ptr<GrowingTrace>& growing = nullptr);
    void showLoaded(DocumentPage& page, std::shared_ptr<const TraceDocument> document);
    void showFailed(DocumentPage& page, const QString& error);
    void askForFile();
    void askForReport();
    void reload();
    void remember(const QString& path);
    void fillRecentFiles();

    // main_window_exports.cpp
    void createExports();
    void addTimelineExports();
    void addTableExports();
    void addScenarioExports();
    void createExportMenu(QMenu& menu);
    /// Gives what can be exported a context menu; that of a new tab too.
    void offerExports();
    /// What has the focus, or stands in one panel with it; else the tab. Null: nothing is open.
    const WindowExport* exportWithFocus();
    void askForExport(const WindowExport& what);

    // main_window_live.cpp
    void followIfLive(DocumentPage& page);
    void resumeFollowing(DocumentPage& page);

    // main_window_state.cpp
    void savePage(const DocumentPage& page) const;
    void restorePage(DocumentPage& page) const;
    void saveSession() const;

    // main_window_docks.cpp
    bool takesTab(const QWidget& widget) const;
    void createDocks();
    void connectTables();
    void createTaskTables();
    void createUnmatchedTable();
    void refreshUnmatched();
    void createConsole();
    QDockWidget* addDock(const QString& title, const char* name, QWidget* content);
    void showDocks();
    void refreshTables();
    void refreshDetails();

    // main_window_scenarios.cpp
    void createScenarioDocks();
    void refreshScenarioDocks();
    void createWhatIfMenu();

    // main_window_actions.cpp
    void createActions();
    void createFileMenu();
    void createViewMenu();
    /// Modes of comparison, and what is marked on top of the bars.
    void addCompareActions(QMenu& menu);
    void createHelpMenu();
    /// An action on the current page whose keys act only while a timeline has the focus, so that they may be letters.
    QAction* addViewAction(QMenu& menu, const QString& text, const QList<QKeySequence>& keys,
                           std::function<void(DocumentPage&)> run);

    // main_window_go.cpp
    void addZoomActions(QMenu& menu);
    void createGoMenu();
    void createThemeMenu(QMenu& menu);
    void showShortcuts();

    QSettings* settings_;
    QStackedWidget* stack_ = nullptr;
    QTabWidget* tabs_ = nullptr;
    MessageBar* messages_ = nullptr;
    TaskDetails* details_ = nullptr;
    LaneTableModel* laneModel_ = nullptr;
    DifferenceTableModel* differenceModel_ = nullptr;
    SqlConsole* console_ = nullptr;
    TaskTable* tasks_ = nullptr;
    UnmatchedTableModel* unmatched_ = nullptr;
    StatisticsPanel* statistics_ = nullptr;
    MarksPanel* marks_ = nullptr;
    SearchBar* search_ = nullptr;
    QDockWidget* whatIfDock_ = nullptr;
    QDockWidget* balanceDock_ = nullptr;
    QDockWidget* pinsDock_ = nullptr;
    QDockWidget* planDock_ = nullptr;
    QUndoGroup* undo_ = nullptr;
    QList<QDockWidget*> docks_;
    std::vector<WindowExport> exports_;
    bool docksShown_ = false;
    QAction* showMemory_ = nullptr;
    QList<QAction*> pageActions_;  // without a page they are greyed
    QMenu* recent_ = nullptr;
};
}  // namespace pipescope
