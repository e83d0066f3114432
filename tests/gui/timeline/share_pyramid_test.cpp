#include "gui/timeline/share_pyramid.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
struct Slices {
    std::vector<std::int64_t> start;
    std::vector<std::int64_t> end;
    std::vector<std::uint8_t> kind;

    SliceColumns columns() const { return {start, end, kind}; }
};

Slices randomSlices(std::size_t count) {
    std::mt19937_64 random(7);
    Slices slices;
    std::int64_t time = 1'000'000;
    for (std::size_t i = 0; i < count; ++i) {
        time += static_cast<std::int64_t>(random() % 300);
        slices.start.push_back(time);
        time += static_cast<std::int64_t>(random() % 900);
        slices.end.push_back(time);
        slices.kind.push_back(static_cast<std::uint8_t>(random() % 3));
    }
    return slices;
}

/// Reference: checks every nanosecond.
double shareByHand(const Slices& slices, std::uint8_t kind, double left, double right) {
    double busy = 0;
    for (std::size_t i = 0; i < slices.start.size(); ++i) {
        if (slices.kind[i] == kind) {
            busy += std::max(0.0, std::min(right, double(slices.end[i])) - std::max(left, double(slices.start[i])));
        }
    }
    return busy / (right - left);
}

constexpr std::array kKinds{TaskKind::forward, TaskKind::recompute, TaskKind::backward};

TEST(ColumnShares, AreExactWhenReadSliceBySlice) {
    const Slices slices = randomSlices(500);
    const TimeWindow window{1'050'000, 0.5, 40'000};
    constexpr int kColumns = 64;
    ColumnShares shares;
    shares.reset(kKinds, kColumns);
    addShares(slices.columns(), window, kColumns, shares);
    for (int x = 0; x < kColumns; ++x) {
        const double left = 1'050'000.5 + x * 40'000.0 / kColumns;
        for (std::uint8_t kind = 0; kind < 3; ++kind) {
            EXPECT_NEAR(shares.of[kind][static_cast<std::size_t>(x)],
                        shareByHand(slices, kind, left, left + 40'000.0 / kColumns), 1e-4);
        }
    }
}

TEST(SharePyramid, AgreesWithTheSlicesAtEveryZoomItResolves) {
    const Slices slices = randomSlices(40'000);
    const SharePyramid pyramid(slices.columns());
    constexpr int kColumns = 200;
    int checked = 0;
    for (double length = 40'000 * 600.0; pyramid.resolves(length / kColumns); length /= 3) {
        const TimeWindow window{1'000'000, 0, length};
        ColumnShares exact;
        exact.reset(kKinds, kColumns);
        addShares(slices.columns(), window, kColumns, exact);
        ColumnShares quick;
        quick.reset(kKinds, kColumns);
        pyramid.addShares(window, kColumns, quick);
        double error = 0;
        for (std::size_t kind = 0; kind < 3; ++kind) {
            for (std::size_t x = 0; x < kColumns; ++x) {
                error += std::abs(exact.of[kind][x] - quick.of[kind][x]) / (3 * kColumns);
            }
        }
        EXPECT_LT(error, 0.03) << "window of " << length << " ns";
        ++checked;
    }
    EXPECT_GE(checked, 3);
}

TEST(SharePyramid, KeepsTheWholeRowsShare) {
    const Slices slices = randomSlices(10'000);
    const SharePyramid pyramid(slices.columns());
    const double length = static_cast<double>(slices.end.back() - slices.start.front());
    ColumnShares shares;
    shares.reset(pyramid.kinds(), 1);
    pyramid.addShares({slices.start.front(), 0, length}, 1, shares);
    for (std::uint8_t kind = 0; kind < 3; ++kind) {
        EXPECT_NEAR(shares.of[kind][0],
                    shareByHand(slices, kind, double(slices.start.front()), double(slices.end.back())), 1e-3);
    }
}

TEST(SharePyramid, CostsFewBytesPerSlice) {
    const Slices slices = randomSlices(65'536);
    EXPECT_LE(SharePyramid(slices.columns()).sizeBytes(), 65'536u * 7);
}
}  // namespace
}  // namespace pipescope
