#include "gui/window/context_menus.h"

#include "gui/style/legend.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_view.h"
#include "gui/timeline/track_view.h"
#include "gui/window/export_menu.h"
#include "gui/window/file_tabs.h"
#include "gui/window/page_actions.h"
#include "gui/window/step_strip.h"

#include <QAbstractScrollArea>
#include <QAction>
#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QHeaderView>
#include <QMainWindow>
#include <QShortcut>
#include <QTableView>

#include <algorithm>
#include <iterator>
#include <utility>

namespace pipescope {
namespace {
/// The row's shown cells in the order of the columns on screen, with tabs between them.
QString rowText(const QTableView& table, int row) {
    QStringList cells;
    for (int place = 0; place < table.horizontalHeader()->count(); ++place) {
        const int column = table.horizontalHeader()->logicalIndex(place);
        if (!table.isColumnHidden(column)) {
            cells << table.model()->index(row, column).data().toString();
        }
    }
    return cells.join(QLatin1Char('\t'));
}

/// The entries of several groups, with a line between groups. The lines belong to the widget.
std::vector<QAction*> grouped(QWidget& widget, const std::vector<QList<QAction*>>& groups) {
    std::vector<QAction*> all;
    for (const QList<QAction*>& group : groups) {
        auto* line = new QAction(&widget);
        line->setSeparator(true);
        all.push_back(line);
        all.insert(all.end(), group.begin(), group.end());
    }
    return all;
}
}  // namespace

ContextMenus::ContextMenus(QMainWindow& window, FileTabs& files, ExportMenu& exports, PageActions& actions)
    : QObject(&window), window_(window), files_(files), exports_(exports), actions_(actions) {
    connect(&files_, &FileTabs::pageChanged, this, qOverload<>(&ContextMenus::offer));
    auto* open = new QShortcut(QKeySequence(Qt::SHIFT | Qt::Key_F10), &window_);
    connect(open, &QShortcut::activated, this, &ContextMenus::openMenu);
}

void ContextMenus::offer() {
    using Menu = PageActions::Menu;
    for (const WindowExport& each : exports_.all()) {
        QWidget* const widget = each.widget();
        if (widget == nullptr || widget->contextMenuPolicy() == Qt::ActionsContextMenu) {
            continue;  // does not exist yet, or already has its menu
        }
        const auto exportOf = [&](QWidget& of) {
            return &entry(
                of, each.isTable() ? tr("E&xport this table…") : tr("E&xport this chart…"),
                [this, &each] { exports_.askForExport(each); }, [&each] { return each.isThere(); });
        };
        std::vector<QAction*> actions{exportOf(*widget)};
        for (auto* view : widget != files_.page() ? widget->findChildren<AxisView*>() : QList<AxisView*>()) {
            offer(*view, {exportOf(*view)});  // it has a menu of its own
        }
        if (auto* table = qobject_cast<QTableView*>(widget)) {
            const auto hasRow = [table] { return table->currentIndex().isValid(); };
            actions.push_back(&entry(
                *table, tr("&Copy the row"),
                [table, hasRow] {
                    if (hasRow()) {
                        QApplication::clipboard()->setText(rowText(*table, table->currentIndex().row()));
                    }
                },
                hasRow));
        }
        offer(*widget, actions);
    }
    if (files_.document() == nullptr) {
        return;
    }
    const auto add = [&](QWidget& widget, const std::vector<Menu>& menus) {
        std::vector<QList<QAction*>> groups;
        std::ranges::transform(menus, std::back_inserter(groups), [this](Menu menu) { return actions_.of(menu); });
        if (!widget.actions().contains(groups.front().front())) {
            offer(widget, grouped(widget, groups));
        }
    };
    for (auto* view : files_.page()->findChildren<AxisView*>()) {
        if (qobject_cast<TimelineView*>(view) != nullptr) {
            add(*view, {Menu::zoom, Menu::task, Menu::lane, Menu::place});
        } else if (qobject_cast<TrackView*>(view) != nullptr) {
            add(*view, {Menu::zoom, Menu::task, Menu::place});
        } else {
            add(*view, {Menu::zoom, Menu::place});
        }
    }
    add(files_.page()->minimap(), {Menu::zoom});
    add(files_.page()->stepStrip(), {Menu::step});
    for (auto* legend : files_.page()->findChildren<Legend*>()) {
        add(*legend, {Menu::kinds});
    }
}

void ContextMenus::offer(QWidget& widget, const std::vector<QAction*>& actions) {
    for (QAction* action : actions) {
        widget.addAction(action);
    }
    widget.setContextMenuPolicy(Qt::ActionsContextMenu);
}

QAction& ContextMenus::entry(QWidget& widget, const QString& text, std::function<void()> run,
                             std::function<bool()> can) {
    auto* action = new QAction(text, &widget);
    connect(action, &QAction::triggered, this, std::move(run));
    if (!entries_.contains(&widget)) {
        widget.installEventFilter(this);
        if (auto* area = qobject_cast<QAbstractScrollArea*>(&widget)) {
            area->viewport()->installEventFilter(this);  // which gets those of the mouse
        }
        connect(&widget, &QObject::destroyed, this, [this, of = &widget] { entries_.erase(of); });
    }
    entries_[&widget].emplace_back(action, std::move(can));
    return *action;
}

bool ContextMenus::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::ContextMenu) {
        const auto own = entries_.find(watched);
        if (const auto found = own != entries_.end() ? own : entries_.find(watched->parent());
            found != entries_.end()) {
            for (const auto& [action, can] : found->second) {
                action->setEnabled(can());
            }
        }
    }
    return QObject::eventFilter(watched, event);
}

void ContextMenus::openMenu() {
    QWidget* const at = window_.focusWidget();
    if (at == nullptr) {
        return;
    }
    const QPoint middle = at->inputMethodQuery(Qt::ImCursorRectangle).toRect().center();
    QContextMenuEvent event(QContextMenuEvent::Keyboard, middle, at->mapToGlobal(middle));
    QApplication::sendEvent(at, &event);
}
}  // namespace pipescope
