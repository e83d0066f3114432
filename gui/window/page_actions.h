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
    /// Adds an action on the current page. Its keys act only while a timeline has the focus, so they may be letters.
    QAction& add(QMenu& menu, const QString& text, const QList<QKeySequence>& keys,
                 std::function<void(DocumentPage&)> run);

    void addZoom(QMenu& menu);
    /// Adds what arranges the lanes.
    void addLanes(QMenu& menu);
    /// Adds comparison modes, and marks on top of the bars.
    void addComparison(QMenu& menu);
    void addSearch(QMenu& menu, SearchBar& search);
    void addPlaces(QMenu& menu);

private:
    FileTabs& files_;
    QList<QAction*> tracked_;
};
}  // namespace pipescope
