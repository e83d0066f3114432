#include "gui/style/theme.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/window/main_window.h"
#include "gui/window/search_bar.h"
#include "gui/window/shortcut_overlay.h"
#include "gui/window/window_settings.h"

#include <QActionGroup>
#include <QDialog>
#include <QMenuBar>
#include <QSettings>

#include <algorithm>

namespace pipescope {
namespace {
constexpr double kZoom = 0.7;
constexpr double kPan = 0.1;
constexpr double kCursorStep = 0.01;  // of the visible window

/// Zooms around the cursor if it is in a timeline.
void zoomAbout(TimeAxisModel& axis, double factor) {
    const double anchor = axis.cursor() ? pixelOf(axis.window(), 1, *axis.cursor()) : 0.5;
    axis.zoom(std::clamp(anchor, 0.0, 1.0), factor);
}
}  // namespace

void MainWindow::addZoomActions(QMenu& menu) {
    using Page = DocumentPage;
    addViewAction(menu, tr("&Fit the selected task, or the step"), {Qt::Key_F}, [](Page& p) { p.fitSelection(); });
    addViewAction(menu, tr("Show &all"), {Qt::Key_Home, Qt::Key_0}, [](Page& p) { p.axis().showAll(); });
    addViewAction(menu, tr("Zoom &in"), {Qt::Key_W, Qt::Key_Plus, Qt::Key_Equal, QKeySequence::ZoomIn},
                  [](Page& p) { zoomAbout(p.axis(), kZoom); });
    addViewAction(menu, tr("Zoom &out"), {Qt::Key_S, Qt::Key_Minus, QKeySequence::ZoomOut},
                  [](Page& p) { zoomAbout(p.axis(), 1 / kZoom); });
    addViewAction(menu, tr("Move &left"), {Qt::Key_A}, [](Page& p) { p.axis().pan(-kPan); });
    addViewAction(menu, tr("Move &right"), {Qt::Key_D}, [](Page& p) { p.axis().pan(kPan); });
    addViewAction(menu, tr("Move left by half"), {Qt::SHIFT | Qt::Key_A}, [](Page& p) { p.axis().pan(-5 * kPan); });
    addViewAction(menu, tr("Move right by half"), {Qt::SHIFT | Qt::Key_D}, [](Page& p) { p.axis().pan(5 * kPan); });
    addViewAction(menu, tr("&Back"), {QKeySequence(Qt::ALT | Qt::Key_Left)}, [](Page& p) { p.axis().goBack(); });
    addViewAction(menu, tr("For&ward"), {QKeySequence(Qt::ALT | Qt::Key_Right)}, [](Page& p) { p.axis().goForward(); });
}

void MainWindow::createGoMenu() {
    QMenu& menu = *menuBar()->addMenu(tr("&Go"));
    using Page = DocumentPage;
    QAction* find = menu.addAction(tr("&Find…"), this, [this] { search_->start(); });
    find->setShortcuts(QKeySequence::Find);
    pageActions_ << find;
    addViewAction(menu, tr("Find from the timeline…"), {Qt::Key_Slash}, [this](Page&) { search_->start(); });
    QAction* next = menu.addAction(tr("Next &hit"), search_, &SearchBar::next);
    next->setShortcuts(QKeySequence::FindNext);
    QAction* previous = menu.addAction(tr("Previous h&it"), search_, &SearchBar::previous);
    previous->setShortcuts(QKeySequence::FindPrevious);
    pageActions_ << next << previous;
    menu.addSeparator();
    addViewAction(menu, tr("Next &task of the lane"), {Qt::Key_Period}, [](Page& p) { p.moveSelection(1); });
    addViewAction(menu, tr("Previous task of the &lane"), {Qt::Key_Comma}, [](Page& p) { p.moveSelection(-1); });
    addViewAction(menu, tr("&Next task of the kind"), {Qt::Key_N}, [](Page& p) { p.selectOfKind(1); });
    addViewAction(menu, tr("&Previous task of the kind"), {Qt::Key_P}, [](Page& p) { p.selectOfKind(-1); });
    addViewAction(menu, tr("&Clear the selection"), {Qt::Key_Escape}, [](Page& p) {
        p.axis().select(std::nullopt);
        p.axis().setRange(std::nullopt);
    });
    addViewAction(menu, tr("Move the cursor left"), {Qt::CTRL | Qt::Key_Left},
                  [](Page& p) { p.axis().moveCursor(-kCursorStep); });
    addViewAction(menu, tr("Move the cursor right"), {Qt::CTRL | Qt::Key_Right},
                  [](Page& p) { p.axis().moveCursor(kCursorStep); });
    addViewAction(menu, tr("Begin or end a measured &range"), {Qt::Key_R}, [](Page& p) { p.axis().markRangeEnd(); });
    menu.addSeparator();
    addViewAction(menu, tr("&Mark this place"), {Qt::Key_M}, [](Page& p) { p.addMark(); });
    addViewAction(menu, tr("Next m&ark"), {Qt::Key_BracketRight}, [](Page& p) { p.goToMark(1); });
    addViewAction(menu, tr("Previous mar&k"), {Qt::Key_BracketLeft}, [](Page& p) { p.goToMark(-1); });
}

void MainWindow::createThemeMenu(QMenu& menu) {
    QMenu* themes = menu.addMenu(tr("&Theme"));
    auto* group = new QActionGroup(this);
    const QString chosen = settings_ != nullptr ? settings_->value(QString(kThemeKey)).toString() : QString();
    const auto add = [&](const QString& text, const QString& name) {
        QAction* action = themes->addAction(text, this, [this, name] {
            applyTheme(parseTheme(name));
            if (settings_ != nullptr) {
                settings_->setValue(QString(kThemeKey), name);
            }
            for (DocumentPage* each : pages()) {
                each->refreshNotes();
            }
        });
        action->setCheckable(true);
        action->setChecked(name == (chosen.isEmpty() ? QStringLiteral("system") : chosen));
        group->addAction(action);
    };
    add(tr("&System"), QStringLiteral("system"));
    add(tr("&Light"), QStringLiteral("light"));
    add(tr("&Dark"), QStringLiteral("dark"));
}

void MainWindow::showShortcuts() {
    createShortcutOverlay(*menuBar(), this)->open();
}
}  // namespace pipescope
