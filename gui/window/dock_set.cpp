#include "gui/window/dock_set.h"

#include "gui/style/arrange.h"
#include "gui/style/number_format.h"
#include "gui/window/session_state.h"

#include <QButtonGroup>
#include <QDockWidget>
#include <QHBoxLayout>
#include <QMainWindow>
#include <QMenuBar>
#include <QToolBar>
#include <QToolButton>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr int kNarrowWindow = 1200;  // too narrow for anything beside a table
constexpr int kWideWindow = 2400;    // a third of it suffices for the widest panel, the plan
constexpr int kLayoutVersion = 4;
constexpr int kInspectorWidth = 380;  // at the usual size of text

/// A title bar that takes no room. The hint of a bare widget is -1, which would place the dock a pixel too low.
class NoTitle : public QWidget {
public:
    using QWidget::QWidget;
    QSize sizeHint() const override { return {0, 0}; }
};

bool isInFront(const QDockWidget* dock) {
    return dock->isVisible() && !dock->isFloating() && !dock->visibleRegion().isEmpty();
}
}  // namespace

QDockWidget& DockSet::add(const QString& title, const char* name, QWidget& content, std::optional<PanelGroup> group) {
    auto* dock = new QDockWidget(title, &window_);
    dock->setObjectName(QString::fromLatin1(name));
    dock->setWidget(&content);
    watch(*dock);
    window_.addDockWidget(Qt::BottomDockWidgetArea, dock);
    dock->hide();
    docks_ << dock;
    if (group) {
        groups_.insert(dock, *group);
    }
    return *dock;
}

QWidget& DockSet::createGroupBar(QWidget& parent) {
    bar_ = named(new QWidget(&parent), translated("Groups of panels"));
    auto* group = new QButtonGroup(bar_);
    group->setExclusive(false);  // in a low window none may be chosen
    const std::array names{translated("F&ind"), translated("Cha&nge"), translated("&Data")};
    const std::array tips{translated("Look something up: bubbles, tasks, statistics, and why a step is slow"),
                          translated("Try another pipeline: what to change, balance, scenarios, plan"),
                          translated("Queries, marks and notes")};
    auto* line = arrange(new QHBoxLayout(bar_), {8, 0, 8, 0}, 4, {});
    for (std::size_t k = 0; k < buttons_.size(); ++k) {
        auto* button = named(new QToolButton(bar_), QString(names[k]).remove(QLatin1Char('&')), tips[k]);
        button->setText(QString(names[k]).remove(QLatin1Char('&')));
        button->setProperty("flat", true);
        button->setCheckable(true);
        button->setAutoRaise(true);
        button->setFocusPolicy(Qt::TabFocus);
        group->addButton(button);
        buttons_[k] = button;
        QObject::connect(button, &QToolButton::clicked, &window_, [this, k] { choose(static_cast<PanelGroup>(k)); });
        line->addWidget(button);
    }
    line->addStretch(1);
    bar_->hide();
    return *bar_;
}

QDockWidget* DockSet::find(const QString& name) const {
    const auto found =
        std::ranges::find_if(docks_, [&](const QDockWidget* dock) { return dock->objectName() == name; });
    return found != docks_.end() ? *found : nullptr;
}

bool DockSet::isOfGroup(const QDockWidget& dock, PanelGroup group) const {
    const auto own = groups_.constFind(&dock);
    return own != groups_.constEnd() && *own == group;
}

bool DockSet::isWanted(const QDockWidget& dock) const {
    return !folded_ && isOfGroup(dock, group_) && !absent_.contains(&dock) && !closed_.contains(&dock);
}

bool DockSet::followsGroup(const QDockWidget& dock) const {
    return groups_.contains(&dock) && !dock.isFloating() &&
           window_.dockWidgetArea(const_cast<QDockWidget*>(&dock)) == Qt::BottomDockWidgetArea;
}

void DockSet::noteFront() {
    if (folded_) {
        return;  // the user closed none of them
    }
    for (QDockWidget* dock : docks_) {
        if (!isOfGroup(*dock, group_)) {
            continue;
        }
        if (isInFront(dock)) {
            fronts_.at(static_cast<std::size_t>(group_)) = dock;
        }
        if (dock->isHidden() && !absent_.contains(dock)) {
            closed_.insert(dock);
        } else if (!dock->isHidden()) {
            closed_.remove(dock);
        }
    }
}

void DockSet::choose(PanelGroup group) {
    if (!shown_) {
        return;
    }
    if (low_ && !folded_ && group == group_) {
        fold(true);
        return;
    }
    noteFront();
    group_ = group;
    fold(false);
    applyGroup();
    if (QDockWidget* front = fronts_.at(static_cast<std::size_t>(group)); front != nullptr && !front->isHidden()) {
        front->raise();
    }
}

void DockSet::applyGroup() {
    QList<QDockWidget*> hidden;
    for (QDockWidget* dock : docks_) {
        if (!followsGroup(*dock)) {
            continue;
        }
        if (isWanted(*dock)) {
            dock->show();
        } else {
            hidden << dock;
        }
    }
    for (QDockWidget* dock : hidden) {  // after the others are there, so that the place keeps its height
        dock->hide();
    }
    refreshButtons();
}

void DockSet::refreshButtons() {
    for (std::size_t k = 0; k < buttons_.size() && bar_ != nullptr; ++k) {
        const auto group = static_cast<PanelGroup>(k);
        buttons_[k]->setChecked(group == group_ && !folded_);
        buttons_[k]->setVisible(std::ranges::any_of(docks_, [&](const QDockWidget* dock) {
            return isOfGroup(*dock, group) && !absent_.contains(dock) && !onDemand_.contains(dock);
        }));
    }
    if (bar_ != nullptr) {
        bar_->setVisible(shown_);
    }
}

void DockSet::bringUp(QDockWidget& dock) {
    if (const auto own = groups_.constFind(&dock); own != groups_.constEnd() && (*own != group_ || folded_)) {
        choose(*own);
    }
    dock.show();
    dock.raise();
}

void DockSet::setPresent(QDockWidget& dock, bool present) {
    if (present == !absent_.contains(&dock)) {
        return;
    }
    if (present) {
        absent_.remove(&dock);
    } else {
        absent_.insert(&dock);
    }
    if (shown_) {
        if (!present && followsGroup(dock)) {
            dock.hide();
        } else if (followsGroup(dock) && isWanted(dock)) {
            dock.show();
        }
        refreshButtons();
    }
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
    if (last > first) {
        groups_.remove(docks_[first]);  // has a place of its own
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
    const bool restored = window_.restoreState(session_.value(state).toByteArray(), kLayoutVersion);
    if (!restored) {
        const int letters = window_.fontMetrics().averageCharWidth();
        if (beside) {
            window_.resizeDocks({docks_.front()}, {std::min(kInspectorWidth, letters * 56)}, Qt::Horizontal);
        }
        if (last > first) {
            window_.resizeDocks({docks_[first], docks_[last]}, {600, 1000}, Qt::Horizontal);
        }
        window_.resizeDocks({docks_[last]}, {firstHeight()}, Qt::Vertical);
    }
    for (const QDockWidget* dock : docks_) {  // the group that the window showed last
        if (const auto own = groups_.constFind(dock); own != groups_.constEnd() && restored && !dock->isHidden()) {
            group_ = *own;
            noteFront();
            break;
        }
    }
    applyGroup();
    if (!restored) {
        docks_[last]->raise();
    }
    narrow_ = false;  // fit() moves what a narrow window has at the right
}

int DockSet::firstHeight() const {
    return std::min(window_.fontMetrics().height() * 13, window_.height() / 4);
}

int DockSet::heightOfBars() const {
    int height = bar_ != nullptr ? bar_->sizeHint().height() : 0;
    for (const QToolBar* tools : window_.findChildren<QToolBar*>(QString(), Qt::FindDirectChildrenOnly)) {
        height += tools->isHidden() ? 0 : tools->sizeHint().height();
    }
    return height + window_.menuBar()->sizeHint().height();
}

void DockSet::fit(int above) {
    if (!shown_) {
        return;
    }
    const bool narrow = window_.width() < kNarrowWindow;
    const bool low = window_.height() < heightOfBars() + above + firstHeight();
    if (narrow == narrow_ && low == low_) {
        return;
    }
    const bool folds = low && (folded_ || !low_);
    noteFront();  // before others come beside it
    fold(false);
    low_ = low;
    if (narrow != narrow_) {
        narrow_ = narrow;
        move();
    }
    fold(folds);
}

void DockSet::fold(bool folded) {
    if (folded == folded_) {
        return;
    }
    if (folded) {
        noteFront();
        for (QDockWidget* dock : withShared()) {
            const bool isBelow = window_.dockWidgetArea(dock) == Qt::BottomDockWidgetArea;
            if (isBelow && !dock->isHidden() && !dock->isFloating() && !followsGroup(*dock)) {
                foldedAway_ << dock;
                dock->hide();
            }
        }
    }
    folded_ = folded;
    applyGroup();
    if (!folded) {
        for (QDockWidget* dock : std::exchange(foldedAway_, {})) {
            dock->show();
        }
        if (QDockWidget* front = fronts_.at(static_cast<std::size_t>(group_)); front != nullptr && !front->isHidden()) {
            front->raise();
        }
    }
}

void DockSet::move() {
    if (narrow_) {
        const auto shown = std::find_if(docks_.begin() + 1, docks_.end(), isInFront);
        frontBefore_ = shown != docks_.end() ? *shown : nullptr;
    }
    QDockWidget* inFront = nullptr;
    const bool frontLeaves = std::ranges::any_of(movedBelow_, isInFront);
    for (QDockWidget* dock : {docks_.front(), shared_}) {
        if (dock == nullptr || dock->isFloating()) {
            continue;
        }
        if (narrow_ && window_.dockWidgetArea(dock) == Qt::RightDockWidgetArea) {
            inFront = isInFront(dock) ? dock : inFront;
            window_.tabifyDockWidget(shownBelow(), dock);
            movedBelow_ << dock;
        } else if (!narrow_ && movedBelow_.contains(dock)) {
            window_.addDockWidget(Qt::RightDockWidgetArea, dock);
            if (dock != docks_.front() && window_.dockWidgetArea(docks_.front()) == Qt::RightDockWidgetArea) {
                window_.tabifyDockWidget(docks_.front(), dock);
            }
        }
    }
    if (!narrow_) {
        movedBelow_.clear();
        if (frontLeaves) {
            const bool known = frontBefore_ != nullptr && !frontBefore_->isHidden() && !frontBefore_->isFloating();
            (known ? frontBefore_ : shownBelow())->raise();  // else Qt shows the last tab
        }
        const int letters = window_.fontMetrics().averageCharWidth();
        window_.resizeDocks({docks_.front()}, {std::min(kInspectorWidth, letters * 56)}, Qt::Horizontal);
    } else if (inFront != nullptr) {
        inFront->raise();
    }
}

QDockWidget* DockSet::shownBelow() const {
    const auto shown = std::find_if(docks_.begin() + 1, docks_.end(),
                                    [](const QDockWidget* dock) { return !dock->isHidden() && !dock->isFloating(); });
    return shown != docks_.end() ? *shown : docks_[1];
}

QList<QDockWidget*> DockSet::withShared() const {
    return shared_ != nullptr ? docks_ + QList<QDockWidget*>{shared_} : docks_;
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
    for (QDockWidget* dock : withShared()) {
        const bool tabbed = !dock->isFloating() && !window_.tabifiedDockWidgets(dock).isEmpty();
        QWidget* title = dock->titleBarWidget();
        if (tabbed && title == nullptr) {
            dock->setTitleBarWidget(new NoTitle(dock));  // the tab tells the name; it can be dragged
        } else if (!tabbed && title != nullptr) {
            dock->setTitleBarWidget(nullptr);
            delete title;
        }
    }
}

void DockSet::save() {
    if (shown_) {
        fold(false);  // a higher window shows them again
        session_.setValue(narrow_ ? kNarrowWindowStateKey : kWindowStateKey, window_.saveState(kLayoutVersion));
    }
}
}  // namespace pipescope
