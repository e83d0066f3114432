#include "gui/timeline/item_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <span>
#include <vector>

namespace pipescope {
namespace {
TEST(ItemRow, FindsTheItemAtATimeOrTheNearestOne) {
    const ItemRow row{0, {0, 500, 520}, {200, 510, 900}};
    EXPECT_EQ(row.itemAt(100, 0), 0U);
    EXPECT_EQ(row.itemAt(300, 0), std::nullopt);
    EXPECT_EQ(row.itemAt(498, 5), 1U);
    EXPECT_EQ(row.itemAt(513, 9), 1U);  // beside a thin item still hits it
    EXPECT_EQ(row.itemAt(518, 9), 2U);
    EXPECT_EQ(row.itemAt(905, 5), 2U);
    EXPECT_EQ(row.itemAt(1000, 5), std::nullopt);
    EXPECT_EQ(ItemRow{}.itemAt(0, 5), std::nullopt);
}

TEST(ItemRow, FindsTheNearestEdge) {
    const ItemRow row{0, {0, 500}, {200, 900}};
    EXPECT_EQ(row.edgeNear(-50), 0);
    EXPECT_EQ(row.edgeNear(340), 200);
    EXPECT_EQ(row.edgeNear(360), 500);
    EXPECT_EQ(row.edgeNear(5000), 900);
    EXPECT_EQ(ItemRow{}.edgeNear(0), std::nullopt);
}

TEST(ItemRow, TellsItemsWithinARangeFromThoseThatTouchIt) {
    const ItemRow row{0, {0, 200, 500}, {200, 200, 900}};
    EXPECT_EQ(row.within({200, 500}).size(), 0U);
    EXPECT_EQ(row.touching({200, 500}).size(), 3U);
    EXPECT_EQ(row.within({199, 501}).size(), 3U);
    EXPECT_EQ(row.within({300, 400}).size(), 0U);
    EXPECT_EQ(row.touching({300, 400}).size(), 0U);
}

/// Rows whose items have gaps and lengths of 0 to 9 ns; every third item counts.
class BusyRows : public testing::Test {
protected:
    BusyRows() {
        std::mt19937 random(3);
        for (ItemRow& row : rows_) {
            std::int64_t time = 0;
            for (int i = 0; i < 1000; ++i) {
                row.start.push_back(time += static_cast<int>(random() % 10));
                row.end.push_back(time += static_cast<int>(random() % 10));
            }
        }
    }
    static bool counts(std::size_t item) { return item % 3 == 0; }
    /// ns in which an item of the first `rows` rows runs that counts.
    std::int64_t covered(std::size_t rows, const TimeRange& range) const {
        std::vector<bool> busy(static_cast<std::size_t>(range.length()));
        for (const ItemRow& row : std::span(rows_).first(rows)) {
            for (std::size_t i = 0; i < row.size(); i += 3) {
                for (std::int64_t t = std::max(row.start[i], range.start); t < std::min(row.end[i], range.end); ++t) {
                    busy[static_cast<std::size_t>(t - range.start)] = true;
                }
            }
        }
        return std::ranges::count(busy, true);
    }

    std::array<ItemRow, 3> rows_;
};

TEST_F(BusyRows, SumTheSameWithAndWithoutBlocks) {
    ItemRow& row = rows_.front();
    const std::vector<ItemSpan> spans{{0, 1000}, {0, 0}, {1, 63}, {63, 129}, {64, 128}, {64, 129}, {130, 999}};
    std::vector<std::int64_t> loose;
    for (const ItemSpan& span : spans) {
        loose.push_back(busyOf(row, span, counts));
    }
    EXPECT_EQ(loose.front(), covered(1, {0, row.end.back()}));
    sumBusy(row, counts);
    for (std::size_t i = 0; i < spans.size(); ++i) {
        EXPECT_EQ(busyOf(row, spans[i], counts), loose[i]) << i;
    }
}

TEST_F(BusyRows, CountSharedTimeOnce) {
    const std::array<const ItemRow*, 3> all{&rows_[0], &rows_[1], &rows_[2]};
    for (const TimeRange& range : {TimeRange{0, 9000}, TimeRange{1234, 1300}, TimeRange{4000, 4001}}) {
        for (std::size_t rows = 1; rows <= all.size(); ++rows) {
            const auto ofItem = [](std::size_t, std::size_t item) { return counts(item); };
            EXPECT_EQ(coveredIn(std::span(all).first(rows), range, ofItem), covered(rows, range));
        }
    }
}
}  // namespace
}  // namespace pipescope
