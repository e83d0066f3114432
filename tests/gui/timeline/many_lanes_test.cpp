#include "gui/timeline/lane_arrangement.h"
#include "gui/timeline/lane_raster.h"
#include "gui/timeline/timeline_layout.h"
#include "gui/timeline/timeline_marks.h"
#include "gui/timeline/timeline_view.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QPalette>
#include <QScrollBar>

#include <algorithm>
#include <map>
#include <set>

namespace pipescope {
namespace {
std::vector<LaneInfo> lanesOfTwoProcesses() {
    return {{"lane 0 (rank 0, host a)", "cpu"},
            {"lane 1 (rank 0, host a)", "cpu"},
            {"lane 2 (rank 1, host b)", "cpu"},
            {"lane 3 (rank 1, host b)", "cpu"}};
}

/// One forward and one backward on each lane, with copies on all lanes but the last.
Timeline manyLanes(int lanes) {
    Timeline timeline;
    for (int lane = 0; lane < lanes; ++lane) {
        timeline.lanes.push_back({"lane " + std::to_string(lane), "cpu"});
        const auto add = [&](TaskKind kind, int start, int end) {
            timeline.slices.push_back({{0, kind, lane, 0, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0});
        };
        add(TaskKind::forward, 0, 400);
        if (lane + 1 < lanes) {
            add(TaskKind::copy_forward, 400, 450);
        }
        add(TaskKind::backward, 500, 1000);
    }
    sort_slices(timeline);
    return timeline;
}

std::vector<int> orderOf(const LaneArrangement& arrangement, const std::vector<LaneInfo>& lanes) {
    std::vector<int> order;
    for (const ArrangedLane& lane : arrangedLanes(arrangement, lanes)) {
        order.push_back(lane.lane.value());
    }
    return order;
}

using Order = std::vector<int>;

TEST(LaneArrangement, KnowsTheProcessOfALaneOfAMergedTrace) {
    EXPECT_EQ(processOf({"lane 3 (rank 1, host b)", "cpu"}), "rank 1, host b");
    EXPECT_EQ(processOf({"lane 3", "cpu"}), "");
    EXPECT_TRUE(hasProcesses(lanesOfTwoProcesses()));
    EXPECT_FALSE(hasProcesses({{"lane 0", "cpu"}, {"lane 1", "cpu"}}));
}

TEST(LaneArrangement, PutsPinnedLanesFirstAndMovesLanesAmongTheirNeighbours) {
    const std::vector<LaneInfo> lanes = lanesOfTwoProcesses();
    LaneArrangement arrangement;
    EXPECT_EQ(orderOf(arrangement, lanes), (Order{0, 1, 2, 3}));
    arrangement = withLaneMoved(arrangement, lanes, LaneId{0}, 2);
    EXPECT_EQ(orderOf(arrangement, lanes), (Order{1, 2, 0, 3}));
    arrangement.pinned = {LaneId{3}};
    EXPECT_EQ(orderOf(arrangement, lanes), (Order{3, 1, 2, 0}));
    EXPECT_EQ(orderOf(withLaneMoved(arrangement, lanes, LaneId{1}, -1), lanes), (Order{3, 1, 2, 0}))
        << "not above the pinned one";
    EXPECT_EQ(orderOf(withLaneAt(arrangement, lanes, LaneId{0}, LaneId{1}), lanes), (Order{3, 0, 1, 2}));
}

TEST(LaneArrangement, KeepsLanesOfOneProcessTogether) {
    const std::vector<LaneInfo> lanes = lanesOfTwoProcesses();
    LaneArrangement arrangement;
    arrangement.order = {LaneId{2}, LaneId{0}, LaneId{3}, LaneId{1}};
    arrangement.grouped = true;
    EXPECT_EQ(orderOf(arrangement, lanes), (Order{2, 3, 0, 1}));
    EXPECT_EQ(orderOf(withLaneMoved(arrangement, lanes, LaneId{3}, 5), lanes), (Order{2, 3, 0, 1}))
        << "the last of its group";
    EXPECT_EQ(orderOf(withLaneMoved(arrangement, lanes, LaneId{3}, -1), lanes), (Order{3, 2, 0, 1}));
}

TEST(LaneArrangement, KeepsLanesOfOneHostTogether) {
    const std::vector<LaneInfo> lanes = {{"lane 0 (rank 0, host a)", "cpu"},
                                         {"lane 1 (rank 1, host b)", "cpu"},
                                         {"lane 2 (rank 2, host a)", "cpu"},
                                         {"lane 3 (rank 3, host b)", "cpu"}};
    EXPECT_EQ(hostOf(lanes[1]), "host b");
    EXPECT_TRUE(hasHosts(lanes));
    EXPECT_FALSE(hasHosts({lanes[0], lanes[1]})) << "a host for each process: the groups of processes";
    EXPECT_FALSE(hasHosts({lanes[0], lanes[2]})) << "one host";
    EXPECT_FALSE(hasHosts({lanes[0], {"lane 1 (rank 1)", "cpu"}, lanes[2], lanes[3]})) << "one without a name";
    LaneArrangement arrangement;
    arrangement.grouped = true;
    EXPECT_EQ(orderOf(arrangement, lanes), (Order{0, 1, 2, 3}));
    arrangement.byHost = true;
    EXPECT_EQ(orderOf(arrangement, lanes), (Order{0, 2, 1, 3}));
    EXPECT_EQ(arrangedLanes(arrangement, lanes)[1].group, "host a");
    arrangement.collapsedGroups = {"host b"};
    EXPECT_TRUE(arrangedLanes(arrangement, lanes)[3].grouped);
}

TEST(LaneArrangement, IgnoresLanesThatTheFileHasNoMore) {
    LaneArrangement arrangement;
    arrangement.order = {LaneId{7}, LaneId{1}, LaneId{1}};
    EXPECT_EQ(orderOf(arrangement, {{"lane 0", ""}, {"lane 1", ""}}), (Order{1, 0}));
}

TEST(ManyLanes, AllFitOnOneScreenWithoutOverlap) {
    const TimelineStore store(manyLanes(64));
    const TimelineLayout layout = layoutRows(store, 400);
    EXPECT_TRUE(layout.compact);
    EXPECT_LE(layout.height, 400);
    int bottom = 0;
    for (const LaneBand& lane : layout.lanes) {
        EXPECT_GE(lane.rows.front().band.top, bottom);
        EXPECT_GE(lane.rows.front().band.height, 5);
        bottom = lane.rows.front().band.bottom();
    }
    EXPECT_FALSE(layoutRows(store, 64 * 40).compact);
}

TEST(ManyLanes, ShareAPixelWhereThereAreMoreLanesThanPixels) {
    const TimelineStore store(manyLanes(512));
    const TimelineLayout layout = layoutRows(store, 128);
    EXPECT_LE(layout.height, 128);
    std::set<int> tops;
    for (const LaneBand& lane : layout.lanes) {
        ASSERT_EQ(lane.rows.front().band.height, 1);
        tops.insert(lane.rows.front().band.top);
    }
    EXPECT_GT(tops.size(), 120U);  // the whole height is used
    EXPECT_LT(tops.size(), 129U);
}

TEST(ManyLanes, HaveTheChosenHeightAndScroll) {
    const TimelineStore store(manyLanes(64));
    LaneArrangement arrangement;
    arrangement.rowHeight = 30;
    EXPECT_EQ(layoutRows(store, 400, nullptr, 16, arrangement).bubbleBand(LaneId{5}).height, 30);
    EXPECT_GT(layoutRows(store, 400, nullptr, 16, arrangement).height, 64 * 30);
    arrangement.rowHeight = 9;
    EXPECT_GE(layoutRows(store, 400, nullptr, 16, arrangement).height, 64 * 9);
}

TEST(ManyLanes, LeavePinnedOnesInSightWhenTheyScroll) {
    const TimelineStore store(manyLanes(64));
    LaneArrangement arrangement;
    arrangement.rowHeight = 30;
    arrangement.pinned = {LaneId{40}};
    const TimelineLayout layout = layoutRows(store, 400, nullptr, 16, arrangement);
    const TimelineLayout seen = scrolled(layout, 700);
    EXPECT_EQ(seen.bubbleBand(LaneId{40}), layout.bubbleBand(LaneId{40}));
    EXPECT_EQ(seen.bubbleBand(LaneId{0}).height, 0) << "it went behind the pinned one";
    for (const LaneBand& lane : seen.lanes) {
        EXPECT_TRUE(lane.pinned || lane.band.top >= layout.pinnedHeight);
    }
    arrangement.rowHeight.reset();
    const TimelineLayout compact = layoutRows(store, 400, nullptr, 16, arrangement);
    EXPECT_LE(compact.height, 400);
    EXPECT_EQ(compact.bubbleBand(LaneId{40}).height, 16) << "readable";
    EXPECT_LT(compact.bubbleBand(LaneId{41}).height, 10);
}

TEST(ManyLanes, CollapseToALineAndAGroupToOneRow) {
    Timeline timeline = manyLanes(4);
    timeline.lanes = lanesOfTwoProcesses();
    const TimelineStore store(timeline);
    LaneArrangement arrangement;
    arrangement.collapsed = {LaneId{1}};
    EXPECT_LT(layoutRows(store, 400, nullptr, 16, arrangement).bubbleBand(LaneId{1}).height, 8);
    arrangement.grouped = true;
    arrangement.collapsedGroups = {"rank 1, host b"};
    const TimelineLayout layout = layoutRows(store, 400, nullptr, 16, arrangement);
    ASSERT_EQ(layout.groups.size(), 2U);
    EXPECT_EQ(layout.groups[1].name, "rank 1, host b");
    EXPECT_EQ(layout.bubbleBand(LaneId{2}), layout.bubbleBand(LaneId{3}));
    EXPECT_NE(layout.bubbleBand(LaneId{0}), layout.bubbleBand(LaneId{1}));
    EXPECT_EQ(layout.headerAt(layout.groups[0].header.top + 1), &layout.groups[0]);
}

TEST(ManyLanes, ShowTheMeanOfThoseThatShareAPixel) {
    const TimelineColors colors = timelineColors(QApplication::palette());
    Timeline timeline;
    timeline.lanes = {{"lane 0", ""}, {"lane 1", ""}};
    timeline.slices = {{{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{100}, 0},
                       {{0, TaskKind::forward, 1, 0, -1}, LaneId{1}, Nanoseconds{0}, Nanoseconds{50}, 0}};
    const TimelineStore store(timeline);
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        if (!store.rows()[row].start.empty()) {
            rows.push_back(row);
        }
    }
    ASSERT_EQ(rows.size(), 2U);
    QImage image(100, 1, QImage::Format_RGB32);
    LaneRaster(colors).draw(store, {0, 0, 100}, {rows[0], 0, 1, 0, false, std::span(rows).subspan(1)}, image);
    const QColor full = styleOf(TaskKind::forward).color;
    EXPECT_EQ(image.pixel(20, 0), full.rgb());
    EXPECT_NEAR(qBlue(image.pixel(70, 0)), (full.blue() + colors.bubble.blue()) / 2, 2);
}

TEST(ManyLanes, HaveNoHatchesThatWouldInterfereWhereBarsAreNarrow) {
    const TimelineColors colors = timelineColors(QApplication::palette());
    Timeline timeline;
    timeline.lanes = {{"lane 0", ""}};
    for (int i = 0; i < 100; ++i) {  // recomputes of 3 pixels between forwards of 2
        const auto add = [&](TaskKind kind, int start, int end) {
            timeline.slices.push_back({{0, kind, 0, i, -1}, LaneId{0}, Nanoseconds{start}, Nanoseconds{end}, 0});
        };
        add(TaskKind::forward, i * 5, i * 5 + 2);
        add(TaskKind::recompute, i * 5 + 2, i * 5 + 5);
    }
    const TimelineStore store(timeline);
    QImage image(500, 8, QImage::Format_RGB32);
    LaneRaster(colors).draw(store, {0, 0, 500}, {0, 0, 8}, image);
    for (int y = 0; y < 8; ++y) {
        EXPECT_EQ(image.pixel(3, y), styleOf(TaskKind::recompute).color.rgb()) << y;
    }
}

TEST(ManyLanes, ShowSharesWhereKindsAlternateInEveryPixel) {
    const TimelineColors colors = timelineColors(QApplication::palette());
    Timeline timeline;
    timeline.lanes = {{"lane 0", ""}};
    for (int i = 0; i < 400; ++i) {  // a backward of 1 pixel, a recompute of 1 pixel, half a pixel idle
        const auto add = [&](TaskKind kind, int start, int end) {
            timeline.slices.push_back({{0, kind, 0, i, -1}, LaneId{0}, Nanoseconds{start}, Nanoseconds{end}, 0});
        };
        add(TaskKind::backward, i * 10, i * 10 + 4);
        add(TaskKind::recompute, i * 10 + 4, i * 10 + 8);
    }
    const TimelineStore store(timeline);
    QImage image(1000, 16, QImage::Format_RGB32);
    LaneRaster(colors).draw(store, {0, 0, 4000}, {0, 0, 16}, image);
    std::map<QRgb, int> lines;
    for (int y = 0; y < 8; ++y) {
        ++lines[image.pixel(400, y)];
        EXPECT_EQ(image.pixel(400, y), image.pixel(407, y)) << "the same in all columns of the bin";
    }
    EXPECT_NEAR(lines[styleOf(TaskKind::backward).color.rgb()], 3, 1);
    EXPECT_NEAR(lines[styleOf(TaskKind::recompute).color.rgb()], 3, 1);
    EXPECT_NEAR(lines[colors.bubble.rgb()], 2, 1);
    QImage low(1000, 1, QImage::Format_RGB32);
    LaneRaster(colors).draw(store, {0, 0, 4000}, {0, 0, 1, 0, false}, low);
    for (int x = 1; x < 1000; ++x) {
        ASSERT_EQ(low.pixel(x, 0), low.pixel(x / 8 * 8, 0)) << "no speckle in a row without room for lines: " << x;
    }
}

TEST(ManyLanes, OfACollapsedGroupHaveOnlyTheirMean) {
    Timeline timeline;
    timeline.lanes = lanesOfTwoProcesses();
    for (int lane = 0; lane < 4; ++lane) {  // each lane of a process is busy in one half of the step
        timeline.slices.push_back({{0, TaskKind::forward, lane, 3, -1},
                                   LaneId{lane},
                                   Nanoseconds{lane % 2 * 500},
                                   Nanoseconds{lane % 2 * 500 + 500},
                                   0});
    }
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    view.setGutter(120);
    view.resize(1120, 400);
    view.setStore(std::make_shared<const TimelineStore>(timeline));
    axis.setTotal({0, 1000});
    axis.show({0, 1000});
    LaneArrangement arrangement;
    arrangement.grouped = true;
    arrangement.collapsedGroups = {"rank 1, host b"};
    view.setArrangement(arrangement);
    auto marks = std::make_shared<TimelineMarks>();
    marks->bubbles = {{LaneId{2}, 500, 1000, BubbleCause::finished},
                      {LaneId{3}, 0, 500, BubbleCause::previous_partition}};
    view.setMarks(marks);
    view.show();
    QApplication::processEvents();
    const QImage image = view.viewport()->grab().toImage();
    const QRect row = view.laneRect(LaneId{2});
    ASSERT_EQ(row, view.laneRect(LaneId{3}));
    const QColor bar = styleOf(TaskKind::forward).color;
    const QColor ground = timelineColors(view.palette()).bubble;
    for (int y = row.top(); y < row.bottom(); ++y) {
        for (int x = 130; x < 1110; ++x) {  // neither labels nor bubbles of one lane
            ASSERT_NEAR(image.pixelColor(x, y).blue(), (bar.blue() + ground.blue()) / 2, 3) << x << ", " << y;
        }
    }
}

/// 512 lanes in a view of 900 x 400 pixels.
class ManyLanesView : public testing::Test {
protected:
    ManyLanesView() : view_(Source::measured, axis_) {
        view_.setGutter(120);
        view_.resize(900, 400);
        view_.setStore(std::make_shared<const TimelineStore>(manyLanes(512)));
        axis_.setTotal({0, 1000});
        view_.show();
        QApplication::processEvents();
    }

    void expectNamesApart() {
        const std::vector<AxisView::DrawnName> names = view_.drawnNames();
        EXPECT_GE(names.size(), 3U);
        for (std::size_t i = 0; i < names.size(); ++i) {
            for (std::size_t k = 0; k < i; ++k) {
                EXPECT_FALSE(names[i].rect.intersects(names[k].rect))
                    << names[i].text.toStdString() << " and " << names[k].text.toStdString();
            }
        }
    }

    TimeAxisModel axis_;
    TimelineView view_;
};

TEST(FewLanes, FillMostOfAHugeView) {
    const TimelineStore store(manyLanes(2));
    EXPECT_EQ(layoutRows(TimelineStore(manyLanes(1)), 180).lanes[0].rows[0].band.height, kTallestTaskRow);
    EXPECT_EQ(layoutRows(TimelineStore(manyLanes(1)), 1200).lanes[0].rows[0].band.height, 600);
    const TimelineLayout huge = layoutRows(store, 1200);
    EXPECT_GT(huge.height, 1150);
    EXPECT_LE(huge.height, 1200);
    LaneArrangement arrangement;
    arrangement.rowHeight = 50;
    EXPECT_EQ(layoutRows(store, 1200, nullptr, kLowestTaskRow, arrangement).lanes[0].rows[0].band.height, 50);
}

TEST(FewLanes, ShrinkALittleBeforeTheyScroll) {
    const TimelineStore store(manyLanes(8));
    const int whole = heightOfFewRows(store);
    EXPECT_LE(layoutRows(store, whole).height, whole);
    EXPECT_EQ(layoutRows(store, whole).lanes[7].band.height, kLowestTaskRow);
    const TimelineLayout tight = layoutRows(store, whole * 9 / 10);
    EXPECT_LE(tight.height, whole * 9 / 10);
    EXPECT_GE(tight.lanes[7].band.height, 13) << "digits and names remain legible";
    const TimelineLayout scrolls = layoutRows(store, whole * 3 / 4);
    EXPECT_GT(scrolls.height, whole * 3 / 4);
    EXPECT_EQ(scrolls.lanes[7].rows[0].band.height, kLowestTaskRow);
    EXPECT_EQ(heightOfFewRows(TimelineStore(manyLanes(64))), whole) << "more share the height of eight";
}

TEST(FewLanes, HaveAsMuchOfTheirNamesAsFits) {
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    Timeline timeline = manyLanes(2);
    timeline.lanes = {{"lane 0 (rank 0, host a)", "cpu"}, {"lane 1 (rank 1, host b)", "cpu"}};
    view.setStore(std::make_shared<const TimelineStore>(timeline));
    view.resize(900, 300);
    view.show();
    QApplication::processEvents();
    const auto nameWith = [&](const QString& room) {
        constexpr int kMargin = 10;
        view.setGutter(view.fontMetrics().horizontalAdvance(room) + kMargin);
        QApplication::processEvents();
        return view.drawnNames().at(0).text;
    };
    for (const char* name : {"lane 0 (rank 0, host a) · cpu", "lane 0 (rank 0, host a)", "lane 0"}) {
        const QString whole = QString::fromUtf8(name);
        EXPECT_EQ(nameWith(whole), whole);
        EXPECT_EQ(nameWith(whole + QLatin1Char('i')), whole) << "no dots while a whole form fits";
    }
}

TEST(FewLanes, HaveNamesThatDifferAlsoIfTheseAreShortened) {
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    Timeline timeline = manyLanes(3);
    for (std::size_t lane = 0; lane < 3; ++lane) {
        timeline.lanes[lane] = {"stage_of_the_transformer_" + std::to_string(lane) + "_with_attention_block_1", "cpu"};
    }
    view.setStore(std::make_shared<const TimelineStore>(timeline));
    view.resize(900, 300);
    view.show();
    for (const char* room : {"stage_of_th…k_1", "stage_of_the_transf…ion_block_1"}) {
        view.setGutter(view.fontMetrics().horizontalAdvance(QString::fromUtf8(room)) + 10);
        QApplication::processEvents();
        const std::vector<AxisView::DrawnName> names = view.drawnNames();
        ASSERT_EQ(names.size(), 3U);
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_TRUE(names[i].text.contains(QString::number(i) + QLatin1Char('_')) ||
                        names[i].text.contains(QString::number(i) + QChar(0x2026)))
                << names[i].text.toStdString();
            EXPECT_LE(view.fontMetrics().horizontalAdvance(names[i].text), names[i].rect.width());
        }
    }
}

TEST_F(ManyLanesView, NamesSomeLanesThatNeverOverlap) {
    EXPECT_FALSE(view_.overflows());
    expectNamesApart();
    LaneArrangement arrangement;
    for (const int height : {2, 5, 9, 40}) {
        arrangement.rowHeight = height;
        view_.setArrangement(arrangement);
        expectNamesApart();
    }
}

TEST_F(ManyLanesView, DrawsLowRowsInColumnsOfSeveralPixels) {
    const TimelineStore store(manyLanes(512));
    const TimelineColors colors = timelineColors(view_.palette());
    LaneArrangement arrangement;
    for (const auto& [height, cell] : {std::pair(2, 3), {3, 2}, {4, 1}, {6, 1}}) {
        arrangement.rowHeight = height;
        view_.setArrangement(arrangement);
        for (const int width : {899, 900, 901}) {  // the last column may be narrower
            view_.resize(width, 400);
            view_.verticalScrollBar()->setValue(height + 1);  // cuts a row at the top
            const QImage image = view_.viewport()->grab().toImage().convertToFormat(QImage::Format_RGB32);
            const QRect lanes = view_.lanesRect();
            QImage strip((lanes.width() + cell - 1) / cell, 1, QImage::Format_RGB32);
            for (const int lane : {1, 2, 40, 41, 60}) {
                const std::optional<SliceRef> slice = store.find({0, TaskKind::forward, lane, 0, -1});
                ASSERT_TRUE(slice);
                LaneRaster(colors).draw(store, axis_.window(), {slice->row, 0, 1, 0, false}, strip);
                const QRect row = view_.laneRect(LaneId{lane});
                const int y = std::max(lanes.top(), row.top());
                ASSERT_LT(y, image.height());
                for (int x = 0; x < lanes.width(); ++x) {
                    ASSERT_EQ(image.pixel(lanes.left() + x, y), strip.pixel(x / cell, 0))
                        << "height " << height << ", width " << width << ", lane " << lane << ", column " << x;
                }
            }
        }
    }
}

TEST_F(ManyLanesView, ShadesBubblesOfLowRows) {
    LaneArrangement arrangement;
    arrangement.rowHeight = 2;
    view_.setArrangement(arrangement);
    const auto picture = [&] { return view_.viewport()->grab().toImage().convertToFormat(QImage::Format_RGB32); };
    const QImage plain = picture();
    auto marks = std::make_shared<TimelineMarks>();
    marks->bubbles = {{LaneId{1}, 400, 500, BubbleCause::previous_partition},
                      {LaneId{3}, -5'000, 450, BubbleCause::finished},
                      {LaneId{4}, 400, 400, BubbleCause::finished}};
    view_.setMarks(marks);
    const QImage shaded = picture();
    const QRect lanes = view_.lanesRect();
    const TimelineColors colors = timelineColors(view_.palette());
    const QBrush waits = brushOf(BubbleCause::previous_partition, colors);
    const PatternTile tile = tileOf(waits.style());
    int hatched = 0;
    for (int y = lanes.top(); y < lanes.top() + 60; ++y) {
        for (int x = lanes.left(); x < lanes.left() + lanes.width(); ++x) {
            const auto isIn = [&](int lane, std::int64_t from, std::int64_t to) {
                const QRect row = view_.laneRect(LaneId{lane});
                return y >= row.top() && y < row.top() + 2 && x >= std::lround(view_.pixelAtTime(from)) &&
                       x < std::lround(view_.pixelAtTime(to));
            };
            if (isIn(3, -5'000, 450)) {
                ASSERT_EQ(shaded.pixelColor(x, y), brushOf(BubbleCause::finished, colors).color());
            } else if (isIn(1, 400, 500)) {  // a hatch that runs on through all rows, on the background of bubbles
                const bool inked = (tile[static_cast<std::size_t>((x - lanes.left()) % kPatternPeriod)] >>
                                        ((y - lanes.top()) % kPatternPeriod) &
                                    1) != 0;
                ASSERT_EQ(shaded.pixelColor(x, y), inked ? waits.color() : colors.bubble) << x << ", " << y;
                hatched += inked ? 1 : 0;
            } else {
                ASSERT_EQ(shaded.pixel(x, y), plain.pixel(x, y)) << x << ", " << y;
            }
        }
    }
    EXPECT_GT(hatched, 10);
    auto narrow = std::make_shared<TimelineMarks>();
    narrow->bubbles = {{LaneId{1}, 400, 412, BubbleCause::previous_partition}};
    view_.setMarks(narrow);
    EXPECT_EQ(picture(), plain) << "a hatch of a few pixels between tasks would be a moiré";
    auto hidden = std::make_shared<TimelineMarks>(*marks);
    hidden->hiddenCauses.set();
    view_.setMarks(hidden);
    EXPECT_EQ(picture(), plain);
}

TEST_F(ManyLanesView, AlwaysNamesTheSelectedLane) {
    axis_.select({PartSelection::Kind::lane, Source::measured, LaneId{333}, {}, std::nullopt});
    const std::vector<AxisView::DrawnName> names = view_.drawnNames();
    EXPECT_TRUE(std::any_of(names.begin(), names.end(),
                            [](const AxisView::DrawnName& name) { return name.text == QLatin1String("lane 333"); }));
    expectNamesApart();
}
}  // namespace
}  // namespace pipescope
