#pragma once

#include <QList>
#include <QString>

class QDockWidget;
class QMainWindow;
class QWidget;

namespace pipescope {
class SessionState;

/// The docks beside and below the timelines. They are hidden until there is something to show, then placed as the user
/// left them.
class DockSet {
public:
    /// Both must outlive this object.
    DockSet(QMainWindow& window, SessionState& session) : window_(window), session_(session) {}

    /// `name` identifies the dock in saved layouts. Its place is the last one, or behind the dock named `behind`.
    QDockWidget& add(const QString& title, const char* name, QWidget& content, const char* behind = nullptr);
    /// A dock of someone else that shares the place of the first dock, as a tab.
    void share(QDockWidget& dock);
    /// A dock that show() leaves hidden until somebody asks for it.
    void showOnDemand(QDockWidget& dock) { onDemand_.push_back(&dock); }
    const QList<QDockWidget*>& all() const { return docks_; }
    /// Shows the docks. From the second call on the user decides.
    void show();
    /// Moves the docks at the right below the timelines once the window is too narrow for both, and back once it is
    /// wide again. Call it after a change of the window's width.
    void fit();
    /// Saves the layout, if it was ever shown.
    void save() const;

private:
    /// A dock under a tab has no title of its own.
    void refreshTitles();
    /// Keeps its title so.
    void watch(QDockWidget& dock);

    QMainWindow& window_;
    SessionState& session_;
    QList<QDockWidget*> docks_;
    QList<QDockWidget*> onDemand_;
    QDockWidget* shared_ = nullptr;
    bool shown_ = false;
    bool narrow_ = false;
    QList<QDockWidget*> movedBelow_;      // by fit()
    QDockWidget* frontBefore_ = nullptr;  // the tab below that the window showed when it was wide
};
}  // namespace pipescope
