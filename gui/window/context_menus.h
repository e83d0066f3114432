#pragma once

#include <QObject>

#include <functional>
#include <map>
#include <utility>
#include <vector>

class QAction;
class QMainWindow;
class QWidget;

namespace pipescope {
class ExportMenu;
class FileTabs;
class PageActions;

/// The context menus of charts, tables and the strip of steps: their export, and entries of the menus that act on what
/// was clicked, which a right click in a timeline selects first. Shift+F10 opens the menu of what has the focus, as the
/// menu key does.
class ContextMenus : public QObject {
    Q_OBJECT

public:
    /// All must outlive this object.
    ContextMenus(QMainWindow& window, FileTabs& files, ExportMenu& exports, PageActions& actions);

protected:
    /// Disables what would do nothing, before a menu opens.
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    /// Gives everything that lacks its menu one, including what is in a new tab.
    void offer();
    void offer(QWidget& widget, const std::vector<QAction*>& actions);
    /// A new entry of the widget's menu. `can`: whether it does something now.
    QAction& entry(QWidget& widget, const QString& text, std::function<void()> run, std::function<bool()> can);
    void openMenu();

    QMainWindow& window_;
    FileTabs& files_;
    ExportMenu& exports_;
    PageActions& actions_;
    std::map<const QObject*, std::vector<std::pair<QAction*, std::function<bool()>>>> entries_;
};
}  // namespace pipescope
