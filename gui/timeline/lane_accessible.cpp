#include "gui/timeline/timeline_view.h"

#include <QAccessible>
#include <QAccessibleWidget>

#include <map>

namespace pipescope {
namespace {
/// Describes a lane, which has no widget, to screen readers.
class LaneAccessible : public QAccessibleInterface {
public:
    LaneAccessible(TimelineView& view, LaneId lane) : view_(view), lane_(lane) {}

    bool isValid() const override { return view_.store() != nullptr && lane_.index() < view_.store()->lanes().size(); }
    QObject* object() const override { return nullptr; }
    QAccessibleInterface* parent() const override { return QAccessible::queryAccessibleInterface(&view_); }
    QAccessibleInterface* child(int) const override { return nullptr; }
    QAccessibleInterface* childAt(int, int) const override { return nullptr; }
    int childCount() const override { return 0; }
    int indexOfChild(const QAccessibleInterface*) const override { return -1; }
    QAccessible::Role role() const override { return QAccessible::ListItem; }
    QAccessible::State state() const override {
        QAccessible::State state;
        state.readOnly = true;
        state.invisible = !isValid();
        return state;
    }
    QString text(QAccessible::Text text) const override {
        if (!isValid()) {
            return {};
        }
        switch (text) {
            case QAccessible::Name: return view_.laneTitle(lane_);
            case QAccessible::Description: return view_.laneDescription(lane_);
            default: return {};
        }
    }
    void setText(QAccessible::Text, const QString&) override {}
    QRect rect() const override {
        const QRect lane = view_.laneRect(lane_);
        return {view_.viewport()->mapToGlobal(lane.topLeft()), lane.size()};
    }

private:
    TimelineView& view_;
    LaneId lane_;
};

class TimelineAccessible : public QAccessibleWidget {
public:
    explicit TimelineAccessible(TimelineView& view) : QAccessibleWidget(&view, QAccessible::List), view_(view) {}
    ~TimelineAccessible() override {
        for (const auto& [lane, id] : lanes_) {
            QAccessible::deleteAccessibleInterface(id);
        }
    }

    int childCount() const override {
        return view_.store() != nullptr ? static_cast<int>(view_.store()->lanes().size()) : 0;
    }
    QAccessibleInterface* child(int index) const override {
        if (index < 0 || index >= childCount()) {
            return nullptr;
        }
        const auto known = lanes_.find(index);
        if (known != lanes_.end()) {
            return QAccessible::accessibleInterface(known->second);
        }
        auto* lane = new LaneAccessible(view_, LaneId{index});  // registration makes Qt the owner
        lanes_.emplace(index, QAccessible::registerAccessibleInterface(lane));
        return lane;
    }
    int indexOfChild(const QAccessibleInterface* child) const override {
        for (const auto& [lane, id] : lanes_) {
            if (QAccessible::accessibleInterface(id) == child) {
                return lane;
            }
        }
        return -1;
    }
    QAccessibleInterface* childAt(int x, int y) const override {
        for (int lane = 0; lane < childCount(); ++lane) {
            if (child(lane)->rect().contains(x, y)) {
                return child(lane);
            }
        }
        return nullptr;
    }

private:
    TimelineView& view_;
    mutable std::map<int, QAccessible::Id> lanes_;
};

QAccessibleInterface* makeAccessible(const QString&, QObject* object) {
    auto* view = qobject_cast<TimelineView*>(object);
    return view != nullptr ? new TimelineAccessible(*view) : nullptr;
}
}  // namespace

void describeLanesToScreenReaders() {
    static const bool once = [] {
        QAccessible::installFactory(makeAccessible);
        return true;
    }();
    static_cast<void>(once);
}
}  // namespace pipescope
