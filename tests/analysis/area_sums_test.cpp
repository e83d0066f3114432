#include "analysis/area_sums.h"

#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
const CallInArea* find(const AreaSums& sums, std::optional<std::size_t> outer, std::uint32_t name) {
    for (const CallInArea& call : sums.calls) {
        if (call.outer == outer && call.name == name) {
            return &call;
        }
    }
    return nullptr;
}

TEST(LengthFigures, CountByHand) {
    std::vector<std::int64_t> lengths{40, 10, 20};
    EXPECT_EQ(length_figures(lengths), (LengthFigures{3, 70, 20, 40}));
    lengths = {40, 10, 20, 31};
    EXPECT_EQ(length_figures(lengths).median, 25) << "between 20 and 31";
    lengths.clear();
    for (int k = 1; k <= 100; ++k) {
        lengths.push_back(k);
    }
    EXPECT_EQ(length_figures(lengths).p95, 95);
    lengths.clear();
    EXPECT_EQ(length_figures(lengths), LengthFigures{});
}

// Place 5: outer 0 runs from 0 to 100, with inner 1 from 10 to 40 and from 50 to 60, and inner 2 from 20 to 30 within
// the first of them. Then 1 alone from 110 to 130. Place 6: 1 from 0 to 10.
AreaSums sumsOf(const TimeRange& area) {
    AreaSumming summing(area);
    summing.add({5, 0, 0, {0, 100}, 70});
    summing.add({5, 1, 1, {10, 40}, 71});
    summing.add({5, 2, 2, {20, 30}, 72});
    summing.add({5, 1, 1, {50, 60}, 73});
    summing.add({5, 0, 1, {110, 130}, 74});
    summing.add({6, 0, 1, {0, 10}, 75});
    return summing.sums();
}

TEST(AreaSums, CountsTheTimeOfInnerItemsOnce) {
    const AreaSums sums = sumsOf({0, 200});
    ASSERT_EQ(sums.names.size(), 7U);
    EXPECT_EQ(sums.names[0].inside, 100);
    EXPECT_EQ(sums.names[0].self, 60) << "without 40 of name 1";
    const NameInArea& all = sums.names[2];
    EXPECT_EQ(all.name, 1U);
    EXPECT_FALSE(all.place);
    EXPECT_EQ(all.lengths.count, 4);
    EXPECT_EQ(all.lengths.total, 70);
    EXPECT_EQ(all.self, 60) << "without 10 of name 2";
    EXPECT_EQ(all.longest, 71U);
    EXPECT_EQ(sums.names[3].place, 5U);
    EXPECT_EQ(sums.names[4].place, 6U);
    EXPECT_EQ(sums.names[4].inside, 10);
}

TEST(AreaSums, FollowsWhoCalledWhom) {
    const AreaSums sums = sumsOf({0, 200});
    const CallInArea* place = find(sums, std::nullopt, 5);
    ASSERT_NE(place, nullptr);
    EXPECT_EQ(place->inside, 120);
    EXPECT_EQ(place->self, 0);
    const std::size_t number = static_cast<std::size_t>(place - sums.calls.data());
    const CallInArea* outer = find(sums, number, 0);
    ASSERT_NE(outer, nullptr);
    const CallInArea* inner = find(sums, static_cast<std::size_t>(outer - sums.calls.data()), 1);
    ASSERT_NE(inner, nullptr);
    EXPECT_EQ(inner->count, 2);
    EXPECT_EQ(inner->inside, 40);
    EXPECT_EQ(inner->self, 30);
    ASSERT_NE(find(sums, number, 1), nullptr) << "and once on its own";
    EXPECT_EQ(find(sums, number, 1)->count, 1);
}

TEST(AreaSums, CutsTimesAtTheEdgesButNotLengths) {
    const AreaSums sums = sumsOf({25, 55});
    EXPECT_EQ(sums.names[0].inside, 30);
    EXPECT_EQ(sums.names[0].lengths.total, 100);
    EXPECT_EQ(sums.names[0].self, 10) << "25 to 55, without 25 to 40 and 50 to 55";
    EXPECT_EQ(sums.names[2].lengths.count, 2);
    EXPECT_EQ(sums.names[2].self, 15);
}

TEST(AreaSums, CountsARecursiveNameOnce) {
    AreaSumming summing({0, 100});
    summing.add({0, 0, 3, {0, 50}, 0});
    summing.add({0, 1, 3, {10, 30}, 1});
    const AreaSums sums = summing.sums();
    EXPECT_EQ(sums.names[0].lengths.count, 2);
    EXPECT_EQ(sums.names[0].inside, 50);
    EXPECT_EQ(sums.names[0].self, 50);
}

// Kernels of a name that overlap a little lie in two rows by turns.
TEST(AreaSums, CountItemsThatOverlapBesideEachOther) {
    AreaSumming summing({0, 1000});
    for (int k = 0; k < 4; ++k) {
        summing.add({0, k % 2, 3, {98 * k, 98 * k + 100}, static_cast<std::uint64_t>(k)});
    }
    const AreaSums sums = summing.sums();
    EXPECT_EQ(sums.names.at(0).lengths.count, 4);
    EXPECT_EQ(sums.names.at(0).inside, 394) << "the parts that overlap count once";
    EXPECT_EQ(sums.names.at(0).self, 394);
    ASSERT_EQ(sums.calls.size(), 2U) << "the place and one call: none is within another";
    EXPECT_EQ(sums.calls.at(0).inside, 394);
    EXPECT_EQ(sums.calls.at(0).count, 4);
    EXPECT_EQ(sums.calls.at(1).inside, 394);
}

TEST(AreaSums, CountNoOverlapTwiceInItemsWithInnerOnes) {
    AreaSumming summing({0, 1000});
    summing.add({0, 0, 3, {0, 100}, 0});
    summing.add({0, 1, 4, {0, 100}, 1});
    summing.add({0, 1, 3, {98, 198}, 2});
    summing.add({0, 2, 4, {98, 198}, 3});
    const AreaSums sums = summing.sums();
    EXPECT_EQ(sums.names.at(0).inside, 198);
    EXPECT_EQ(sums.names.at(0).self, 0);
    EXPECT_EQ(sums.names.at(2).inside, 198);
    EXPECT_EQ(sums.names.at(2).self, 198);
}

// The kernels of a later task may run before those of an earlier one.
TEST(AreaSums, CountItemsThatComeOutOfOrder) {
    AreaSumming summing({0, 1000});
    summing.add({0, 0, 1, {0, 10}, 0});
    summing.add({0, 1, 3, {100, 110}, 1, true});
    summing.add({0, 0, 1, {10, 20}, 2});
    summing.add({0, 1, 3, {50, 60}, 3, true});
    const AreaSums sums = summing.sums();
    EXPECT_EQ(sums.names.at(2).inside, 20);
    EXPECT_EQ(sums.calls.at(0).inside, 20);
}

TEST(LengthBins, HoldLengthsOfManyYears) {
    for (const std::int64_t least : {std::int64_t{1}, std::int64_t{1'000'000'000'000'000'000}}) {
        for (const std::int64_t most : {std::int64_t{2'000'000'000'000'000'000}, INT64_MAX}) {
            const std::vector<LengthBin> bins = length_bins({{least, false}, {most, true}});
            ASSERT_LE(bins.size(), 200U);
            EXPECT_EQ(bins.front().count, 1);
            EXPECT_EQ(bins.back().count, 1) << most;
        }
    }
}

TEST(LengthBins, HaveRoundBordersAndHoldEveryLength) {
    std::vector<MeasuredLength> lengths;
    for (int k = 0; k < 100; ++k) {
        lengths.push_back({1'000'000 + k * 10'000, k < 50});
    }
    std::vector<LengthBin> bins = length_bins(lengths);
    EXPECT_LE(bins.size(), 41U);
    std::int64_t count = 0;
    std::int64_t inside = 0;
    for (const LengthBin& bin : bins) {
        EXPECT_EQ(bin.to - bin.from, 50'000);
        EXPECT_EQ(bin.from % 50'000, 0);
        count += bin.count;
        inside += bin.inside;
    }
    EXPECT_EQ(count, 100);
    EXPECT_EQ(inside, 50);
    lengths.push_back({7'000'000'000, true});
    bins = length_bins(lengths);
    EXPECT_LE(bins.size(), 45U) << "ten for each power of ten";
    EXPECT_EQ(bins.back().count, 1);
    EXPECT_LE(bins.back().from, 7'000'000'000);
    EXPECT_GT(bins.back().to, 7'000'000'000);
    EXPECT_TRUE(length_bins({}).empty());
    EXPECT_EQ(length_bins({{0, false}}).size(), 1U);
    EXPECT_EQ(length_bins({{0, false}, {40, false}, {1'000'000, true}}).front().count, 1);
}
}  // namespace
}  // namespace pipescope
