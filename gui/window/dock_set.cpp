#include "gui/window/dock_set.h"

#include "gui/window/session_state.h"

#include <QDockWidget>
#include <QMainWindow>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kNarrowWindow = 1200;  // too narrow for anything beside a table
constexpr int kWideWindow = 2400;    // a third of it suffices for the widest panel, the plan
constexpr int kLayoutVersion = 2;
}  // namespace

QDockWidget& DockSet::add(const QString& title, const char* name, QWidget& content, const char* behind) {
    auto* dock = new QDockWidget(title, &window_);
    dock->setObjectName(QString::fromLatin1(name));
    dock->setWidget(&content);
    window_.addDockWidget(Qt::BottomDockWidgetArea, dock);
    dock->hide();
    const auto before = std::find_if(docks_.cbegin(), docks_.cend(), [behind](const QDockWidget* each) {
        return each->objectName() == QLatin1String(behind);
    });
    docks_.insert(before == docks_.cend() ? docks_.cend() : before + 1, dock);
    return *dock;
}

void DockSet::show() {
    if (shown_) {
        return;
    }
    shown_ = true;
    // Places the selection beside the other docks, and in a wide window also the lanes. The others share the last place
    // as tabs.
    const qsizetype places = window_.width() < kNarrowWindow ? 1 : window_.width() < kWideWindow ? 2 : 3;
    for (qsizetype i = places; i < docks_.size(); ++i) {
        window_.tabifyDockWidget(docks_[places - 1], docks_[i]);
    }
    for (QDockWidget* dock : docks_) {
        dock->show();  // after they are tabbed, or all of them side by side would widen the window
    }
    docks_[places - 1]->raise();
    if (!window_.restoreState(session_.value(kWindowStateKey).toByteArray(), kLayoutVersion)) {
        const QList<int> widths = {420, places < 3 ? 1080 : 500, 800};
        window_.resizeDocks(docks_.mid(0, places), widths.mid(0, places), Qt::Horizontal);
        window_.resizeDocks({docks_.front()}, {window_.fontMetrics().height() * 12}, Qt::Vertical);
    }
}

void DockSet::save() const {
    if (shown_) {
        session_.setValue(kWindowStateKey, window_.saveState(kLayoutVersion));
    }
}
}  // namespace pipescope
