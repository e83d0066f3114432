#pragma once

#include <QKeySequence>
#include <QList>
#include <QObject>

#include <functional>

class QAction;
class QMenu;

namespace pipescope {
class DocumentPage;
class FileTabs;
class SearchBar;

/// Menu entries that act on the current page, and are disabled while there is none.
class PageActions : public QObject {
    Q_OBJECT

public:
    /// `files` must outlive this object, which it owns.
    explicit PageActions(FileTabs& files);

    /// Disables the action while no page is open.
    void track(QAction& action) { tracked_ << &action; }
    /// Adds an action on the current page. Its keys may be letters: they act everywhere in the window, unless the
    /// widget with the focus uses them itself, as fields for text do.
    QAction& add(QMenu& menu, const QString& text, const QList<QKeySequence>& keys,
                 std::function<void(DocumentPage&)> run);

    void addZoom(QMenu& menu);
    /// Adds what arranges the lanes.
    void addLanes(QMenu& menu);
    /// Adds comparison modes, and marks on top of the bars.
    void addComparison(QMenu& menu);
    void addSearch(QMenu& menu, SearchBar& search);
    void addPlaces(QMenu& menu);

protected:
    /// Leaves keys to widgets that use them.
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    FileTabs& files_;
    QList<QAction*> tracked_;
};
}  // namespace pipescope
