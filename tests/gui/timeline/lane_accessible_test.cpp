#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QAccessible>
#include <QApplication>

namespace pipescope {
namespace {
std::shared_ptr<const TimelineStore> twoLanes() {
    const auto forward = [](int lane, int micro_batch, int start, int end) {
        return Slice{
            {0, TaskKind::forward, lane, micro_batch, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0};
    };
    return std::make_shared<const TimelineStore>(
        Timeline{Source::measured,
                 {{"lane 0", "cuda:0"}, {"lane 1", "cuda:1"}},
                 {forward(0, 0, 0, 1000), forward(0, 1, 1000, 2000), forward(1, 0, 1000, 3000)}});
}

TEST(LaneAccessible, TellsEachLaneItsPlaceAndHowBusyItIsInView) {
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    view.setGutter(80);
    view.resize(1080, 200);
    view.setStore(twoLanes());
    view.show();
    QApplication::processEvents();
    axis.setTotal({0, 4000});
    axis.show({0, 4000});

    QAccessibleInterface* list = QAccessible::queryAccessibleInterface(&view);
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(list->role(), QAccessible::List);
    EXPECT_EQ(list->text(QAccessible::Name), view.accessibleName());
    ASSERT_EQ(list->childCount(), 2);
    QAccessibleInterface* lane = list->child(1);
    ASSERT_NE(lane, nullptr);
    EXPECT_EQ(lane->text(QAccessible::Name), QStringLiteral("lane 1 · cuda:1"));
    EXPECT_EQ(lane->parent(), list);
    EXPECT_EQ(list->indexOfChild(lane), 1);
    const auto said = [](QAccessibleInterface* of) { return of->text(QAccessible::Description).toStdString(); };
    EXPECT_NE(said(lane).find("tasks: 1, busy 50"), std::string::npos) << said(lane);
    EXPECT_NE(said(list->child(0)).find("tasks: 2, busy 50"), std::string::npos) << said(list->child(0));

    const QPoint inside = view.viewport()->mapToGlobal(view.rectOf({1, 0}).center().toPoint());
    EXPECT_EQ(list->childAt(inside.x(), inside.y()), lane);

    axis.show({0, 1000});  // only the first forward of lane 0 is left
    EXPECT_NE(said(list->child(0)).find("tasks: 1, busy 100"), std::string::npos) << said(list->child(0));
    EXPECT_NE(said(lane).find("tasks: 0, busy 0"), std::string::npos) << said(lane);
    view.setStore(nullptr);
    EXPECT_EQ(list->childCount(), 0);
    EXPECT_FALSE(lane->isValid());
    EXPECT_TRUE(lane->text(QAccessible::Name).isEmpty());
}
}  // namespace
}  // namespace pipescope
