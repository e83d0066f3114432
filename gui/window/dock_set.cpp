#include "gui/window/dock_set.h"

#include "gui/window/session_state.h"

#include <QDockWidget>
#include <QMainWindow>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kNarrowWindow = 1200;  // too narrow for anything beside a table
constexpr int kWideWindow = 2400;    // a third of it suffices for the widest panel, the plan
constexpr int kLayoutVersion = 3;
constexpr int kInspectorWidth = 380;  // at the usual size of text
}  // namespace

QDockWidget& DockSet::add(const QString& title, const char* name, QWidget& content, const char* behind) {
    auto* dock = new QDockWidget(title, &window_);
    dock->setObjectName(QString::fromLatin1(name));
    dock->setWidget(&content);
    watch(*dock);
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
    // The first dock, which follows the selection, stands at the right, if there is room. In a wide window the next one
    // has its own place below the timelines. The others share the last place as tabs.
    const bool beside = window_.width() >= kNarrowWindow;
    const qsizetype first = beside ? 1 : 0;
    const qsizetype last = first + (window_.width() < kWideWindow ? 0 : 1);
    if (beside) {
        window_.addDockWidget(Qt::RightDockWidgetArea, docks_.front());
        if (shared_ != nullptr) {
            window_.tabifyDockWidget(docks_.front(), shared_);
        }
    } else {
        movedBelow_ << docks_.front();
    }
    for (qsizetype i = last + 1; i < docks_.size(); ++i) {
        window_.tabifyDockWidget(docks_[last], docks_[i]);
    }
    for (QDockWidget* dock : docks_) {
        // After they are tabbed, or all of them side by side would widen the window.
        dock->setVisible(!onDemand_.contains(dock));
    }
    docks_[last]->raise();
    if (shared_ != nullptr && !shared_->isHidden()) {
        shared_->raise();
    }
    const QLatin1String state = beside ? kWindowStateKey : kNarrowWindowStateKey;
    if (!window_.restoreState(session_.value(state).toByteArray(), kLayoutVersion)) {
        const int letters = window_.fontMetrics().averageCharWidth();
        if (beside) {
            window_.resizeDocks({docks_.front()}, {std::min(kInspectorWidth, letters * 56)}, Qt::Horizontal);
        }
        if (last > first) {
            window_.resizeDocks({docks_[first], docks_[last]}, {600, 1000}, Qt::Horizontal);
        }
        window_.resizeDocks({docks_[last]}, {std::min(window_.fontMetrics().height() * 13, window_.height() / 4)},
                            Qt::Vertical);
    }
    narrow_ = false;
    fit();  // moves what a narrow window has at the right
}

void DockSet::fit() {
    const bool narrow = window_.width() < kNarrowWindow;
    if (!shown_ || narrow == narrow_) {
        return;
    }
    narrow_ = narrow;
    const auto isInFront = [](const QDockWidget* dock) {
        return dock->isVisible() && !dock->isFloating() && !dock->visibleRegion().isEmpty();
    };
    if (narrow) {
        const auto shown = std::find_if(docks_.begin() + 1, docks_.end(), isInFront);
        frontBefore_ = shown != docks_.end() ? *shown : nullptr;
    }
    QDockWidget* inFront = nullptr;
    const bool frontLeaves = std::ranges::any_of(movedBelow_, isInFront);
    for (QDockWidget* dock : {docks_.front(), shared_}) {
        if (dock == nullptr || dock->isFloating()) {
            continue;
        }
        if (narrow && window_.dockWidgetArea(dock) == Qt::RightDockWidgetArea) {
            inFront = isInFront(dock) ? dock : inFront;
            window_.tabifyDockWidget(docks_[1], dock);
            movedBelow_ << dock;
        } else if (!narrow && movedBelow_.contains(dock)) {
            window_.addDockWidget(Qt::RightDockWidgetArea, dock);
            if (dock != docks_.front() && window_.dockWidgetArea(docks_.front()) == Qt::RightDockWidgetArea) {
                window_.tabifyDockWidget(docks_.front(), dock);
            }
        }
    }
    if (!narrow) {
        movedBelow_.clear();
        if (frontLeaves) {
            const bool known = frontBefore_ != nullptr && !frontBefore_->isHidden() && !frontBefore_->isFloating();
            (known ? frontBefore_ : docks_[1])->raise();  // else Qt shows the last tab
        }
        const int letters = window_.fontMetrics().averageCharWidth();
        window_.resizeDocks({docks_.front()}, {std::min(kInspectorWidth, letters * 56)}, Qt::Horizontal);
    } else if (inFront != nullptr) {
        inFront->raise();
    }
}

void DockSet::share(QDockWidget& dock) {
    shared_ = &dock;
    watch(dock);
}

void DockSet::watch(QDockWidget& dock) {
    QObject::connect(&dock, &QDockWidget::topLevelChanged, &window_, [this] { refreshTitles(); });
    QObject::connect(
        &dock, &QDockWidget::dockLocationChanged, &window_, [this] { refreshTitles(); }, Qt::QueuedConnection);
    QObject::connect(
        &dock, &QDockWidget::visibilityChanged, &window_, [this] { refreshTitles(); }, Qt::QueuedConnection);
}

void DockSet::refreshTitles() {
    for (QDockWidget* dock : shared_ != nullptr ? docks_ + QList<QDockWidget*>{shared_} : docks_) {
        const bool tabbed = !dock->isFloating() && !window_.tabifiedDockWidgets(dock).isEmpty();
        QWidget* title = dock->titleBarWidget();
        if (tabbed && title == nullptr) {
            dock->setTitleBarWidget(new QWidget(dock));  // the tab tells the name; it can be dragged
        } else if (!tabbed && title != nullptr) {
            dock->setTitleBarWidget(nullptr);
            delete title;
        }
    }
}

void DockSet::save() const {
    if (shown_) {
        session_.setValue(narrow_ ? kNarrowWindowStateKey : kWindowStateKey, window_.saveState(kLayoutVersion));
    }
}
}  // namespace pipescope
