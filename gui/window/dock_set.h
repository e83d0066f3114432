#pragma once

#include <QHash>
#include <QList>
#include <QPointer>
#include <QSet>
#include <QString>

#include <array>
#include <optional>

class QDockWidget;
class QMainWindow;
class QToolButton;
class QWidget;

namespace pipescope {
class SessionState;

/// What a panel below the timelines is for. The tabs of one group are shown at a time.
enum class PanelGroup {
    find,    ///< look something up: bubbles, tasks, statistics
    change,  ///< try another pipeline
    data,    ///< queries and notes
};
inline constexpr std::size_t kNumPanelGroups = 3;

/// The docks beside and below the timelines. They are hidden until there is something to show, then placed as the user
/// left them. Those below are in groups, of which buttons choose one; panels with nothing to show are absent.
class DockSet {
public:
    /// Both must outlive this object.
    DockSet(QMainWindow& window, SessionState& session) : window_(window), session_(session) {}

    /// `name` identifies the dock in saved layouts. Its place is the last one.
    QDockWidget& add(const QString& title, const char* name, QWidget& content, std::optional<PanelGroup> group = {});
    /// The buttons that choose a group; hidden until the docks are shown.
    QWidget& createGroupBar(QWidget& parent);
    QToolButton& button(PanelGroup group) const { return *buttons_.at(static_cast<std::size_t>(group)); }
    PanelGroup group() const { return group_; }
    void choose(PanelGroup group);
    /// Shows the dock, its group, and it in front of the others. No effect before show().
    void bringUp(QDockWidget& dock);
    /// A dock that is not present is hidden whichever group is chosen, until somebody asks for it.
    void setPresent(QDockWidget& dock, bool present);
    QDockWidget* find(const QString& name) const;
    /// A dock of someone else that shares the place of the first dock, as a tab.
    void share(QDockWidget& dock);
    /// A dock that show() leaves hidden until somebody asks for it.
    void showOnDemand(QDockWidget& dock) {
        onDemand_.push_back(&dock);
        closed_.insert(&dock);
    }
    const QList<QDockWidget*>& all() const { return docks_; }
    /// Shows the docks. From the second call on the user decides. fit() must follow.
    void show();
    /// Moves the docks at the right below the timelines once the window is too narrow for both, and back once it is
    /// wide again. Once the window is too low for timelines and panels, hides those below until a group is chosen. Call
    /// it after a change of the window's size, or of its page. `above`: the height of the page above the panels.
    void fit(int above);
    /// Saves the layout, if it was ever shown.
    void save();

private:
    bool isOfGroup(const QDockWidget& dock, PanelGroup group) const;
    /// True if the chosen group shows the dock, where it follows its group.
    bool isWanted(const QDockWidget& dock) const;
    /// True if the dock is shown with its group: the user moved it nowhere else.
    bool followsGroup(const QDockWidget& dock) const;
    /// Shows the docks of the chosen group that are present, and hides those of others.
    void applyGroup();
    /// How high panels below the timelines are at first.
    int firstHeight() const;
    /// The height of the menus, the tools and the groups' buttons.
    int heightOfBars() const;
    void noteFront();
    /// Moves between the right and the bottom, after a change of `narrow_`.
    void move();
    /// Hides all docks below the timelines, or shows them again.
    void fold(bool folded);
    QList<QDockWidget*> withShared() const;
    /// A dock below the timelines that is shown, or else the first one.
    QDockWidget* shownBelow() const;
    void refreshButtons();
    /// A dock under a tab has no title of its own.
    void refreshTitles();
    /// Keeps its title so.
    void watch(QDockWidget& dock);

    QMainWindow& window_;
    SessionState& session_;
    QList<QDockWidget*> docks_;
    QList<QDockWidget*> onDemand_;
    QDockWidget* shared_ = nullptr;
    QHash<const QDockWidget*, PanelGroup> groups_;
    QSet<const QDockWidget*> absent_;
    QSet<const QDockWidget*> closed_;                            // by the user, or not yet asked for
    std::array<QPointer<QDockWidget>, kNumPanelGroups> fronts_;  // the tab in front when the group was last chosen
    std::array<QToolButton*, kNumPanelGroups> buttons_{};
    QWidget* bar_ = nullptr;
    PanelGroup group_ = PanelGroup::find;
    bool shown_ = false;
    bool narrow_ = false;
    bool low_ = false;
    bool folded_ = false;
    QList<QDockWidget*> foldedAway_;      // by fold(), of no group
    QList<QDockWidget*> movedBelow_;      // by fit()
    QDockWidget* frontBefore_ = nullptr;  // the tab below that the window showed when it was wide
};
}  // namespace pipescope
