#include "gui/window/page_actions.h"

#include "gui/style/icons.h"
#include "gui/window/file_tabs.h"
#include "gui/window/search_bar.h"
#include "gui/window/step_strip.h"

#include <QAbstractSpinBox>
#include <QAction>
#include <QComboBox>
#include <QCoreApplication>
#include <QKeyEvent>
#include <QLineEdit>
#include <QMenu>
#include <QPlainTextEdit>
#include <QTextEdit>

#include <algorithm>

namespace pipescope {
namespace {
using Page = DocumentPage;

constexpr double kZoom = 0.7;
constexpr double kPan = 0.1;
constexpr double kCursorStep = 0.01;  // of the visible window

/// True if the widget with the focus uses the key itself: a field types it, a list moves with it.
bool usesKey(const QWidget& widget, const QKeyEvent& press, const QWidget& timelines) {
    if (press.modifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier)) {
        return false;  // the widget accepts those that it uses
    }
    const int key = press.key();
    const bool types = key < Qt::Key_Escape;
    const bool moves = key >= Qt::Key_Home && key <= Qt::Key_PageDown;
    const auto* box = qobject_cast<const QComboBox*>(&widget);
    const bool isText = qobject_cast<const QLineEdit*>(&widget) != nullptr ||
                        qobject_cast<const QAbstractSpinBox*>(&widget) != nullptr ||
                        qobject_cast<const QPlainTextEdit*>(&widget) != nullptr ||
                        qobject_cast<const QTextEdit*>(&widget) != nullptr || (box != nullptr && box->isEditable());
    if (isText) {
        return types || moves || key == Qt::Key_Escape;
    }
    if (box != nullptr) {
        return types || moves;
    }
    return moves && !timelines.isAncestorOf(&widget);
}

/// Zooms around the cursor if it is in a timeline.
void zoomAbout(TimeAxisModel& axis, double factor) {
    const double anchor = axis.cursor() ? pixelOf(axis.window(), 1, *axis.cursor()) : 0.5;
    axis.zoom(std::clamp(anchor, 0.0, 1.0), factor);
}
}  // namespace

PageActions::PageActions(FileTabs& files) : QObject(&files), files_(files) {
    QCoreApplication::instance()->installEventFilter(this);
    for (const auto changed : {&FileTabs::pageChanged, &FileTabs::simulationChanged, &FileTabs::stepChanged,
                               &FileTabs::selectionChanged, &FileTabs::viewChanged}) {
        connect(&files_, changed, this, &PageActions::refresh);
    }
}

void PageActions::refresh() {
    const DocumentPage* page = files_.page();
    for (const Tracked& each : tracked_) {
        each.action->setEnabled(page != nullptr && (each.can == nullptr || each.can(*page)));
    }
}

bool PageActions::eventFilter(QObject* watched, QEvent* event) {
    if (event->type() == QEvent::ShortcutOverride && watched->isWidgetType()) {
        const auto& widget = static_cast<const QWidget&>(*watched);
        if (widget.hasFocus() && usesKey(widget, static_cast<const QKeyEvent&>(*event), files_)) {
            event->accept();
        }
    }
    return QObject::eventFilter(watched, event);
}

QAction& PageActions::add(QMenu& menu, const QString& text, const QList<QKeySequence>& keys, Can can,
                          std::function<void(DocumentPage&)> run) {
    QAction* action = menu.addAction(text, this, [this, run = std::move(run)] {
        if (files_.page() != nullptr) {
            run(*files_.page());
        }
    });
    action->setShortcuts(keys);
    track(*action, can);
    return *action;
}

void PageActions::addZoom(QMenu& menu) {
    const auto isPart = [](const Page& p) { return !p.axis().showsAll(); };
    const auto zoom = [this](QAction& action, Tool tool) { inContext(Menu::zoom, asTool(action, tool)); };
    zoom(add(menu, tr("&Fit the selection, or the step"), {Qt::Key_F}, [](Page& p) { p.navigation().fitSelection(); }),
         Tool::fit);
    zoom(add(menu, tr("Show &all"), {Qt::Key_Home, Qt::Key_0}, isPart, [](Page& p) { p.axis().showAll(); }), Tool::all);
    zoom(add(menu, tr("Zoom &in"), {Qt::Key_W, Qt::Key_Plus, Qt::Key_Equal, QKeySequence::ZoomIn},
             [](Page& p) { zoomAbout(p.axis(), kZoom); }),
         Tool::zoom_in);
    zoom(add(menu, tr("Zoom &out"), {Qt::Key_S, Qt::Key_Minus, QKeySequence::ZoomOut}, isPart,
             [](Page& p) { zoomAbout(p.axis(), 1 / kZoom); }),
         Tool::zoom_out);
    add(menu, tr("Move &left"), {Qt::Key_A}, isPart, [](Page& p) { p.axis().pan(-kPan); });
    add(menu, tr("Move &right"), {Qt::Key_D}, isPart, [](Page& p) { p.axis().pan(kPan); });
    add(menu, tr("Move left by half"), {Qt::SHIFT | Qt::Key_A}, isPart, [](Page& p) { p.axis().pan(-5 * kPan); });
    add(menu, tr("Move right by half"), {Qt::SHIFT | Qt::Key_D}, isPart, [](Page& p) { p.axis().pan(5 * kPan); });
    zoom(add(
             menu, tr("&Back"), {QKeySequence(Qt::ALT | Qt::Key_Left)},
             [](const Page& p) { return p.axis().canGoBack(); }, [](Page& p) { p.axis().goBack(); }),
         Tool::back);
    zoom(add(
             menu, tr("For&ward"), {QKeySequence(Qt::ALT | Qt::Key_Right)},
             [](const Page& p) { return p.axis().canGoForward(); }, [](Page& p) { p.axis().goForward(); }),
         Tool::forward);
}

void PageActions::addLanes(QMenu& menu) {
    const auto hasLane = [](const Page& p) { return p.model().selectedLane().has_value(); };
    const auto hasLanes = [](const Page& p) { return !p.model().lanes().empty(); };
    asTool(add(
               menu, tr("&Fit all lanes"), {Qt::Key_L},
               [](const Page& p) { return p.model().arrangement().rowHeight.has_value(); },
               [](Page& p) { p.lanes().fitAll(); }),
           Tool::lanes);
    add(menu, tr("&Higher lanes"), {Qt::SHIFT | Qt::Key_W}, hasLanes, [](Page& p) { p.lanes().changeHeight(1); });
    add(menu, tr("&Lower lanes"), {Qt::SHIFT | Qt::Key_S}, hasLanes, [](Page& p) { p.lanes().changeHeight(-1); });
    menu.addSeparator();
    inContext(Menu::lane, add(menu, tr("&Collapse or expand the selected lane"), {Qt::Key_X}, hasLane,
                              [](Page& p) { p.lanes().toggleCollapsed(); }));
    inContext(Menu::lane, add(menu, tr("&Pin the selected lane to the top, or unpin it"), {Qt::Key_K}, hasLane,
                              [](Page& p) { p.lanes().togglePinned(); }));
    add(menu, tr("Move the selected lane &up"), {Qt::SHIFT | Qt::Key_Up}, hasLane, [](Page& p) { p.lanes().move(-1); });
    add(menu, tr("Move the selected lane &down"), {Qt::SHIFT | Qt::Key_Down}, hasLane,
        [](Page& p) { p.lanes().move(1); });
    menu.addSeparator();
    add(
        menu, tr("&Group lanes by process or host"), {Qt::Key_G},
        [](const Page& p) { return p.model().arrangement().grouped || hasProcesses(p.model().lanes()); },
        [](Page& p) { p.lanes().toggleGrouping(); });
    add(
        menu, tr("C&ollapse or expand the group of the selected lane"), {Qt::SHIFT | Qt::Key_X},
        [](const Page& p) { return p.model().arrangement().grouped && p.model().selectedLane().has_value(); },
        [](Page& p) { p.lanes().toggleOwnGroup(); });
    menu.addSeparator();
    add(
        menu, tr("&Reset the lanes"), {}, [](const Page& p) { return p.model().arrangement() != LaneArrangement{}; },
        [](Page& p) { p.lanes().reset(); });
}

void PageActions::addComparison(QMenu& menu) {
    const auto choose = [](auto change) {
        return [change](Page& page) {
            MarkChoice choice = page.model().choice();
            change(choice);
            page.model().setChoice(choice);
        };
    };
    const auto hasTwo = [](const Page& p) { return p.document() && p.document()->measured && p.document()->simulated; };
    const auto hasTasks = [](const Page& p) { return p.document() && !hasOnlyTracks(*p.document()); };
    add(menu, tr("Side by &side"), {Qt::Key_1}, hasTwo,
        choose([](MarkChoice& c) { c.mode = CompareMode::side_by_side; }));
    add(menu, tr("O&verlay"), {Qt::Key_2}, hasTwo, choose([](MarkChoice& c) { c.mode = CompareMode::overlay; }));
    add(menu, tr("&Difference"), {Qt::Key_3}, hasTwo, choose([](MarkChoice& c) { c.mode = CompareMode::difference; }));
    inContext(Menu::kinds, add(menu, tr("Causes of b&ubbles"), {Qt::Key_B}, hasTasks,
                               choose([](MarkChoice& c) { c.causes = !c.causes; })));
    add(menu, tr("&Critical path"), {Qt::Key_C}, hasTasks,
        choose([](MarkChoice& c) { c.criticalPath = !c.criticalPath; }));
    inContext(Menu::kinds, add(
                               menu, tr("Show all &kinds"), {Qt::Key_H},
                               [](const Page& p) {
                                   return p.model().choice().hiddenKinds.any() || p.model().choice().hiddenCauses.any();
                               },
                               choose([](MarkChoice& c) {
                                   c.hiddenKinds.reset();
                                   c.hiddenCauses.reset();
                               })));
}

void PageActions::addSearch(QMenu& menu, SearchBar& search) {
    QAction* find = menu.addAction(tr("&Find…"), &search, &SearchBar::start);
    find->setShortcuts(QKeySequence::Find);
    asTool(*find, Tool::find);
    track(*find);
    add(menu, tr("Find from the timeline…"), {Qt::Key_Slash}, [&search](Page&) { search.start(); });
    QAction* next = menu.addAction(tr("Next &hit"), &search, &SearchBar::next);
    next->setShortcuts(QKeySequence::FindNext);
    track(*next);
    QAction* previous = menu.addAction(tr("Previous h&it"), &search, &SearchBar::previous);
    previous->setShortcuts(QKeySequence::FindPrevious);
    track(*previous);
}

void PageActions::addSelection(QMenu& menu, SearchBar& search, std::function<void()> copy) {
    const auto hasTask = [](const Page& p) { return p.axis().selection().has_value(); };
    const auto hasSome = [](const Page& p) { return p.axis().selection() || p.axis().part(); };
    const auto keyOf = [](const Page& p) {
        const TaskSelection& selection = *p.axis().selection();
        return p.document()->store(selection.source)->slice(selection.slice).key;
    };
    inContext(
        Menu::task, add(menu, tr("Find the same tasks"), {}, hasTask, [&search, keyOf](Page& p) {
            const TaskKey key = keyOf(p);
            const QString kind = QString::fromUtf8(to_string(key.kind).data());
            search.find(key.partition < 0 ? kind : QStringLiteral("%1 partition %2").arg(kind).arg(key.partition));
        }));
    inContext(Menu::task, add(menu, tr("Hide tasks of this kind"), {}, hasTask, [](Page& p) {
                  const TaskSelection selection = *p.axis().selection();
                  MarkChoice choice = p.model().choice();
                  const TaskKey shown = p.document()->store(selection.source)->shownKey(selection.slice);
                  choice.hiddenKinds.set(static_cast<std::size_t>(shown.kind));
                  p.model().setChoice(choice);
              }));
    inContext(Menu::task, add(
                              menu, tr("Measure the selection"), {},
                              [](const Page& p) {
                                  return p.axis().selection() ||
                                         (p.axis().part() && p.axis().part()->kind == PartSelection::Kind::bubble);
                              },
                              [](Page& p) { p.axis().setRange(p.navigation().selectedRange()); }));
    inContext(Menu::task,
              add(menu, tr("Copy the description"), {}, hasSome, [copy = std::move(copy)](Page&) { copy(); }));
}

void PageActions::addPlaces(QMenu& menu) {
    const auto hasSteps = [](const Page& p) { return p.stepStrip().history().steps.size() > 1; };
    const auto hasMarks = [](const Page& p) { return !p.axis().marks().empty(); };
    add(menu, tr("Next &task or bubble of the lane"), {Qt::Key_Period},
        [](Page& p) { p.navigation().moveSelection(1); });
    add(menu, tr("Previous task or bubble of the &lane"), {Qt::Key_Comma},
        [](Page& p) { p.navigation().moveSelection(-1); });
    inContext(Menu::task, add(menu, tr("&Next task of the kind, or bubble of the cause"), {Qt::Key_N},
                              [](Page& p) { p.navigation().selectOfKind(1); }));
    add(menu, tr("&Previous task of the kind, or bubble of the cause"), {Qt::Key_P},
        [](Page& p) { p.navigation().selectOfKind(-1); });
    add(
        menu, tr("&Clear the selection"), {Qt::Key_Escape},
        [](const Page& p) { return p.axis().selection() || p.axis().part() || p.axis().range(); },
        [](Page& p) {
            p.axis().select(std::nullopt);
            p.axis().setRange(std::nullopt);
        });
    add(menu, tr("Move the cursor left"), {Qt::CTRL | Qt::Key_Left},
        [](Page& p) { p.axis().moveCursor(-kCursorStep); });
    add(menu, tr("Move the cursor right"), {Qt::CTRL | Qt::Key_Right},
        [](Page& p) { p.axis().moveCursor(kCursorStep); });
    add(menu, tr("Begin or end a measured &range"), {Qt::Key_R}, [](Page& p) { p.axis().markRangeEnd(); });
    menu.addSeparator();
    const auto step = [&](const QString& text, const QList<QKeySequence>& keys, std::function<void(Page&)> run) {
        inContext(Menu::step, add(menu, text, keys, hasSteps, std::move(run)));
    };
    step(tr("Next st&ep"), {Qt::ALT | Qt::Key_PageDown}, [](Page& p) { p.stepStrip().move(1); });
    step(tr("Pre&vious step"), {Qt::ALT | Qt::Key_PageUp}, [](Page& p) { p.stepStrip().move(-1); });
    step(tr("Sl&owest step"), {}, [](Page& p) { p.stepStrip().goTo(p.stepStrip().history().slowest); });
    step(tr("Me&dian step"), {}, [](Page& p) { p.stepStrip().goTo(p.stepStrip().history().median); });
    menu.addSeparator();
    inContext(
        Menu::place,
        asTool(add(menu, tr("&Mark this place"), {Qt::Key_M}, [](Page& p) { p.navigation().addMark(); }), Tool::mark));
    inContext(Menu::place,
              asTool(add(menu, tr("Annotate the ran&ge…"), {Qt::SHIFT | Qt::Key_M}, [](Page& p) { p.askForNote(); }),
                     Tool::annotate));
    add(menu, tr("Next m&ark"), {Qt::Key_BracketRight}, hasMarks, [](Page& p) { p.navigation().goToMark(1); });
    add(menu, tr("Previous mar&k"), {Qt::Key_BracketLeft}, hasMarks, [](Page& p) { p.navigation().goToMark(-1); });
}
}  // namespace pipescope
