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

/// The viewer: a tab for each open document, with docks and menus that follow the current one.
///
/// To add a dock: create the widget in createDocks() (main_window_docks.cpp), pass it to addDock(), and connect it to
/// pageChanged(), stepChanged() and selectionChanged(), after which it must look at page() again. To add an action: add
/// one line to the menu's function (main_window_actions.cpp).
/// Threading: the GUI thread; workers load files and publish complete documents.
class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    /// `settings` stores recent files and the window's layout, and must outlive the window. Null: stores nothing.
    explicit MainWindow(QSettings* settings, QWidget* parent = nullptr);
    ~MainWindow() override;

    /// Starts loading a file into its own tab; `loaded` or `failed` follows. A file that is open already is read again
    /// into its tab, which keeps its view.
    void open(const QString& path);
    /// Opens each file in its own tab. The last one becomes the current tab.
    void open(const QStringList& paths);
    /// Shows a document in the tab of its file, creates the tab if necessary, and makes it the current one.
    void setDocument(std::shared_ptr<const TraceDocument> document);
    void closePage(DocumentPage* page);
    /// Writes the report of the current page, with a picture, as HTML or PDF. Shows errors in the message bar.
    void exportReport(const QString& path);
    /// Waits until nothing is under way that would change the window: noise of a scenario, rows of tables. The events
    /// that come meanwhile are handled. For pictures, which must not depend on when they are drawn.
    void finishWork();
    /// Report of the current page with a picture. Precondition: its document is loaded.
    Report report() const;
    /// All possible chart and table exports in menu order. The first is the whole tab.
    const std::vector<WindowExport>& exports() const { return exports_; }
    /// Writes one export to a file. Shows errors in the message bar.
    void exportTo(const WindowExport& what, const QString& path);
    /// Opens the files that were open when the last window was closed.
    void restoreSession();
    void showError(const QString& text);

    /// The current page; null if nothing is open.
    DocumentPage* page() const;
    QList<DocumentPage*> pages() const;
    MessageBar& messages() const { return *messages_; }
    /// Scenario tools of the current page's profile; null while there is no document.
    ScenarioTools* scenarioTools();
    TaskDetails& details() const { return *details_; }
    SqlConsole& console() const { return *console_; }
    TaskTable& tasks() const { return *tasks_; }
    StatisticsPanel& statistics() const { return *statistics_; }
    MarksPanel& marks() const { return *marks_; }
    SearchBar& search() const { return *search_; }

    // Access to the current page. All except document() require an open page.
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
    /// The current page or its document changed. page() and its document may be null.
    void pageChanged();
    /// The simulated half of the current page's document changed, as it does for every move of a slider.
    void simulationChanged();
    /// The current page's step changed.
    void stepChanged();
    void selectionChanged();

protected:
    bool focusNextPrevChild(bool next) override;
    void closeEvent(QCloseEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

private:
    /// Opens files dropped on text fields, instead of inserting their names.
    void takeDropsFromFields();
    QWidget* createEmptyState();
    void createTabs();
    DocumentPage* addPage(const QString& path);
    DocumentPage* pageOf(const QString& path) const;
    void follow(DocumentPage& page);
    void refreshWindow();
    void setTitle();

    // main_window_files.cpp
    /// Reads the page's file. With `growing`, reads only the new part.
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
    /// Adds a context menu to everything that can be exported, including those of a new tab.
    void offerExports();
    /// The focused export, or one in the panel with the focus, otherwise the tab. Null: nothing is open.
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
    /// Adds comparison modes, and marks on top of the bars.
    void addCompareActions(QMenu& menu);
    void createHelpMenu();
    /// Adds an action on the current page. Its keys act only while a timeline has the focus, so they may be letters.
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
    QList<QAction*> pageActions_;  // disabled without a page
    QMenu* recent_ = nullptr;
};
}  // namespace pipescope
