#pragma once

#include <QKeySequence>
#include <QList>
#include <QObject>

#include <array>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

class QAction;
class QMenu;

namespace pipescope {
class DocumentPage;
class FileTabs;
class SearchBar;

/// Menu entries that act on the current page, and are disabled while there is none, or while they would do nothing.
class PageActions : public QObject {
    Q_OBJECT

public:
    /// `files` must outlive this object, which it owns.
    explicit PageActions(FileTabs& files);

    /// True if the action does something on the page now.
    using Can = bool (*)(const DocumentPage&);
    /// Disables the action while no page is open, or `can` is false.
    void track(QAction& action, Can can = nullptr) { tracked_.push_back({&action, can}); }
    /// Adds an action on the current page. Its keys may be letters: they act everywhere in the window, unless the
    /// widget with the focus uses them itself, as fields for text do.
    QAction& add(QMenu& menu, const QString& text, const QList<QKeySequence>& keys, Can can,
                 std::function<void(DocumentPage&)> run);
    QAction& add(QMenu& menu, const QString& text, const QList<QKeySequence>& keys,
                 std::function<void(DocumentPage&)> run) {
        return add(menu, text, keys, nullptr, std::move(run));
    }

    void addZoom(QMenu& menu);
    /// Adds what arranges the lanes.
    void addLanes(QMenu& menu);
    /// Adds comparison modes, and marks on top of the bars.
    void addComparison(QMenu& menu);
    void addSearch(QMenu& menu, SearchBar& search);
    void addPlaces(QMenu& menu);
    /// Adds what acts on the selected task or bubble. `copy` copies its description.
    void addSelection(QMenu& menu, SearchBar& search, std::function<void()> copy);

    /// Those of the above that context menus have too.
    enum class Menu { zoom, task, lane, place, step, kinds };
    const QList<QAction*>& of(Menu menu) const { return inContext_[static_cast<std::size_t>(menu)]; }
    QAction& inContext(Menu menu, QAction& action) {
        inContext_[static_cast<std::size_t>(menu)] << &action;
        return action;
    }

protected:
    /// Leaves keys to widgets that use them.
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    struct Tracked {
        QAction* action = nullptr;
        Can can = nullptr;
    };
    void refresh();

    FileTabs& files_;
    std::vector<Tracked> tracked_;
    std::array<QList<QAction*>, 6> inContext_;  // by Menu
};
}  // namespace pipescope
