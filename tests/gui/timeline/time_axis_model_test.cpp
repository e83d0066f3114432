#include "gui/timeline/time_axis_model.h"

#include <gtest/gtest.h>

#include <QSignalSpy>

namespace pipescope {
namespace {
TEST(TimeAxisModel, UndoesAWholeGestureAtATime) {
    TimeAxisModel axis;
    axis.setTotal({0, 1'000'000});
    const TimeWindow all = axis.window();
    axis.zoom(0.5, 0.8);
    axis.zoom(0.5, 0.8);
    const TimeWindow zoomed = axis.window();
    axis.pan(0.1);
    axis.goBack();
    EXPECT_EQ(axis.window(), zoomed);
    axis.goBack();
    EXPECT_EQ(axis.window(), all);
    const TimeWindow shown = axis.window();
    axis.goBack();
    EXPECT_EQ(axis.window(), shown) << "there is nothing to go back to";
    axis.goForward();
    EXPECT_EQ(axis.window(), zoomed);
}

// A scenario or a growing trace changes the content while a user looks at a part of it.
TEST(TimeAxisModel, KeepsItsHistoryWhenTheContentChanges) {
    TimeAxisModel axis;
    axis.setTotal({0, 1'000'000});
    const TimeWindow all = axis.window();
    axis.zoom(0.5, 0.5);
    const TimeWindow zoomed = axis.window();
    axis.pan(0.1);
    const TimeWindow moved = axis.window();
    axis.changeTotal({0, 900'000}, moved);
    EXPECT_EQ(axis.window(), moved);
    axis.pan(0.1);
    axis.goBack();
    EXPECT_EQ(axis.window(), moved) << "the move after the change is one of its own";
    axis.goBack();
    EXPECT_EQ(axis.window(), zoomed);
    axis.goBack();
    EXPECT_EQ(axis.window(), windowOf({0, 900'000})) << "as much as there is of what was shown: " << all.length;
}

TEST(TimeAxisModel, LeadsBackOnlyToOtherParts) {
    TimeAxisModel axis;
    axis.setTotal({0, 1'000'000});
    EXPECT_FALSE(axis.canGoBack());
    axis.show({0, 900'000});
    axis.show({0, 800'000});
    axis.show({0, 100'000});
    axis.show({0, 800'000});
    axis.changeTotal({0, 500'000}, axis.window());  // a scenario with a shorter step
    axis.goBack();
    EXPECT_EQ(axis.window(), windowOf({0, 100'000}));
    EXPECT_TRUE(axis.canGoBack());
    axis.goBack();
    EXPECT_EQ(axis.window(), windowOf({0, 500'000}));
    EXPECT_FALSE(axis.canGoBack()) << "the others are all of it too";
    axis.changeTotal({0, 1'000'000}, axis.window());
    axis.goBack();
    EXPECT_EQ(axis.window(), windowOf({0, 900'000}));
    for (const std::int64_t end : {500'000, 100'000, 500'000}) {
        ASSERT_TRUE(axis.canGoForward());
        axis.goForward();
        EXPECT_EQ(axis.window(), windowOf({0, end}));
    }
    EXPECT_FALSE(axis.canGoForward());
}

TEST(TimeAxisModel, TellsItsViewsOnlyWhatChanged) {
    TimeAxisModel axis;
    axis.setTotal({0, 1'000'000});
    QSignalSpy windows(&axis, &TimeAxisModel::windowChanged);
    axis.pan(-1);  // already at the left end
    EXPECT_EQ(windows.count(), 0);
    axis.zoom(0, 0.5);
    axis.pan(0.5);
    EXPECT_EQ(windows.count(), 2);
    QSignalSpy selections(&axis, &TimeAxisModel::selectionChanged);
    axis.select(TaskSelection{Source::measured, {0, 1}, SliceRef{0, 2}});
    axis.select(TaskSelection{Source::measured, {0, 1}, SliceRef{0, 2}});
    EXPECT_EQ(selections.count(), 1);
}

TEST(TaskSelection, NamesTheTwinInTheOtherPane) {
    const TaskSelection selection{Source::simulated, {1, 2}, SliceRef{3, 4}};
    EXPECT_EQ(selection.in(Source::simulated), (SliceRef{1, 2}));
    EXPECT_EQ(selection.in(Source::measured), (SliceRef{3, 4}));
}
}  // namespace
}  // namespace pipescope
