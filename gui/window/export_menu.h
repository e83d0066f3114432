#pragma once

#include "gui/window/window_exports.h"

#include <QObject>

#include <vector>

class QMainWindow;
class QMenu;

namespace pipescope {
class DocumentPage;
class FileTabs;
class PageActions;
class ScenarioDocks;
class TableDocks;
struct Report;

/// Exports of the window's charts and tables and of the report, from the menu, context menus and Ctrl+S.
class ExportMenu : public QObject {
    Q_OBJECT

public:
    /// All must outlive this object.
    ExportMenu(QMainWindow& window, FileTabs& files, TableDocks& tables, ScenarioDocks& scenarios);

    void fill(QMenu& menu, PageActions& actions);
    /// All possible chart and table exports in menu order. The first is the whole tab.
    const std::vector<WindowExport>& all() const { return all_; }
    /// Writes one export to a file.
    void exportTo(const WindowExport& what, const QString& path);
    /// Writes the report of the current page, with a picture, as HTML or PDF.
    void exportReport(const QString& path);

Q_SIGNALS:
    void failed(const QString& text);

private:
    void addTimelines();
    void addTables(TableDocks& tables);
    void addScenarios(ScenarioDocks& scenarios);
    /// Adds a context menu to everything that can be exported, including those of a new tab.
    void offer();
    /// The focused export, or one in the panel with the focus, otherwise the tab. Null: nothing is open.
    const WindowExport* withFocus() const;
    void askForExport(const WindowExport& what);
    void askForReport();

    QMainWindow& window_;
    FileTabs& files_;
    std::vector<WindowExport> all_;
};

/// Report of the page's step with a picture. Precondition: the document is read.
Report reportOf(DocumentPage& page);
}  // namespace pipescope
