#pragma once

#include "gui/style/theme.h"

#include <QObject>
#include <QString>

#include <functional>
#include <memory>
#include <vector>

class QAbstractItemModel;
class QMainWindow;
class QMenu;
class QWidget;

namespace pipescope {
/// A chart or table of the window that can be exported. Each function refers to the current tab at the time of the
/// call.
struct WindowExport {
    QString text;                                      ///< of its menu entry
    QString file;                                      ///< the proposed name without suffix; unique
    QString remedy;                                    ///< what to do if there is nothing to export
    std::function<QWidget*()> widget;                  ///< the chart, or the widget of the table; null: does not exist
    std::function<const QAbstractItemModel*()> model;  ///< a table's rows; empty for a chart
    std::function<bool()> holds;                       ///< true if there is something to export; empty: always

    bool isTable() const { return model != nullptr; }
    bool isThere() const { return widget() != nullptr && (!holds || holds()); }
    /// Proposed name, and filter of the file dialog.
    QString fileName() const { return file + (isTable() ? QStringLiteral(".csv") : QStringLiteral(".png")); }
    QString fileFilter() const;
};

/// Exports a chart as .png, .svg or .pdf, as on screen, or at its preferred size if it is hidden behind another panel.
/// Exports a table as .csv or .json. Throws Error, with the remedy if there is nothing to export.
void saveExport(const WindowExport& what, const QString& path);

class DocumentPage;
class FileTabs;
class PageActions;
class ScenarioDocks;
class TableDocks;
struct PageScene;

/// Exports of the window's charts and tables, and of an interactive page, from the menu, context menus and Ctrl+S; and
/// a picture for the clipboard.
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
    /// Writes the visible part of the current page as one interactive HTML file, in a worker. `pageWritten` or `failed`
    /// follows.
    void exportPage(const QString& path);
    /// Puts a picture of the current page into the clipboard.
    void copyImage();
    /// Asks where to write one, and writes it.
    void askForExport(const WindowExport& what);

Q_SIGNALS:
    /// What is under way; empty: nothing any more.
    void said(const QString& text);
    /// An interactive page was written.
    void pageWritten(const QString& path);
    void failed(const QString& text);

private:
    void addTimelines();
    void addTables(TableDocks& tables);
    void addScenarios(ScenarioDocks& scenarios);
    /// The focused export, or one in the panel with the focus, otherwise the tab. Null: nothing is open.
    const WindowExport* withFocus() const;
    void askForPage();

    QMainWindow& window_;
    FileTabs& files_;
    std::vector<WindowExport> all_;
};

/// The page's content for an interactive HTML page. Precondition: the document is read.
PageScene pageSceneOf(const DocumentPage& page, Theme theme);
}  // namespace pipescope
