#pragma once

#include "base/scratch_folder.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/window/dock_set.h"
#include "gui/window/session_state.h"

#include <QMainWindow>

#include <memory>

class QMenu;
class QSettings;
class QStackedWidget;

namespace pipescope {
class DocumentPage;
class ExportMenu;
class FileTabs;
class MessageBar;
class PageActions;
class ScenarioDocks;
class SearchBar;
class StartPage;
class TableDocks;

/// The viewer: the open files in tabs, with docks and menus that follow the current one. Owns these parts and connects
/// them. Threading: the GUI thread.
class MainWindow : public QMainWindow {
    Q_OBJECT

public:
    /// `settings` stores recent files and the window's layout, and must outlive the window. Null: stores nothing.
    explicit MainWindow(QSettings* settings, QWidget* parent = nullptr);
    ~MainWindow() override;

    FileTabs& files() const { return *files_; }
    TableDocks& tables() const { return *tables_; }
    ScenarioDocks& scenarios() const { return *scenarios_; }
    ExportMenu& exports() const { return *exports_; }
    MessageBar& messages() const { return *messages_; }
    SearchBar& search() const { return *search_; }
    StartPage& start() const { return *start_; }

    /// The current page; null if nothing is open.
    DocumentPage* page() const;
    /// Waits until nothing is under way that would change the window: noise of a scenario, rows of tables. The events
    /// that come meanwhile are handled. For pictures, which must not depend on when they are drawn.
    void finishWork();

protected:
    bool focusNextPrevChild(bool next) override;
    void changeEvent(QEvent* event) override;
    void closeEvent(QCloseEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

private:
    /// Fits the docks to the window and the current page.
    void fitDocks();
    void createStartPage();
    void openSample();
    void createToolBar();
    void connectFiles();
    void createFileMenu();
    void createViewMenu();
    /// What times count from, on all pages.
    void createTimesMenu(QMenu& menu);
    void createThemeMenu(QMenu& menu);
    void createGoMenu();
    void createHelpMenu();
    void askForFile();
    void askForFolder();
    void askForBaseline();
    /// The list of the folder's runs, in a window of its own.
    void showRuns(const QString& folder);
    void fillRecentFiles(QMenu& menu);
    void showError(const QString& text);
    void refreshTitle();
    /// Opens files dropped on text fields, instead of inserting their names.
    void takeDropsFromFields();
    bool takesTab(const QWidget& widget) const;

    SessionState session_;
    std::unique_ptr<ScratchFolder> samples_;  // made when it is needed
    DockSet docks_;
    MessageBar* messages_;
    QStackedWidget* stack_;
    StartPage* start_;
    FileTabs* files_;
    TimeStyle times_ = TimeStyle::step;
    SearchBar* search_;
    TableDocks* tables_;
    ScenarioDocks* scenarios_;
    ExportMenu* exports_;
    PageActions* actions_;
};
}  // namespace pipescope
