#include "gui/timeline/memory_view.h"

#include <gtest/gtest.h>

#include <QApplication>

namespace pipescope {
namespace {
constexpr Bytes kMiB = Bytes{1} << 20;

MemorySample sampleAt(std::int64_t time, Bytes parameters, Bytes saved, Bytes transient) {
    MemorySample sample;
    sample.lane = LaneId{0};
    sample.time = Nanoseconds{time};
    sample.allocated = parameters + saved + transient;
    sample.peak = sample.allocated;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        sample.composition[static_cast<MemoryCategory>(k)] = 0;
    }
    sample.composition[MemoryCategory::parameters] = parameters;
    sample.composition[MemoryCategory::saved] = saved;
    sample.composition[MemoryCategory::transient] = transient;
    return sample;
}

/// One lane: 40 MiB of parameters and 20 saved; from the middle on 50 saved and 10 in a task.
class MemoryViewTest : public testing::Test {
protected:
    MemoryViewTest() : view_(axis_) {
        tracks_.emplace_back(std::vector<MemorySample>{sampleAt(0, 40 * kMiB, 20 * kMiB, 0),
                                                       sampleAt(500, 40 * kMiB, 50 * kMiB, 10 * kMiB),
                                                       sampleAt(1000, 40 * kMiB, 50 * kMiB, 10 * kMiB)});
        view_.setGutter(80);
        view_.resize(1080, 240);
        view_.setScene({{{"lane 0", "cpu"}}, &tracks_, nullptr, 0, std::nullopt});
        view_.setStacked(true);
        view_.show();
        QApplication::processEvents();
        axis_.setTotal({0, 1000});
        axis_.show({0, 1000});
    }
    /// The line at which so many bytes end.
    double lineOf(Bytes bytes) const {
        const QRect box = view_.laneBox(0);
        return box.bottom() + 1 -
               static_cast<double>(bytes) / static_cast<double>(view_.bytesAtTop()) * (box.height() - 1);
    }
    /// Of the column at `time`: whether each line from `from` to `to` bytes has a colour of the category.
    void expectFilled(const QImage& image, std::int64_t time, Bytes from, Bytes to, MemoryCategory category) {
        const QColor color = brushOf(category).color();
        const int x = static_cast<int>(view_.pixelAtTime(time));
        for (int y = static_cast<int>(lineOf(to)) + 2; y < static_cast<int>(lineOf(from)) - 1; ++y) {
            const QColor found = image.pixelColor(x, y);
            EXPECT_TRUE(found.rgb() == color.rgb() || found.rgb() == color.lighter(150).rgb())
                << found.name().toStdString() << " at line " << y << ", " << nameOf(category).toStdString();
        }
    }

    TimeAxisModel axis_;
    std::vector<MemoryTrack> tracks_;
    MemoryView view_;
};

TEST_F(MemoryViewTest, StacksWhatTheBytesAreForAtTheirHeights) {
    const QImage image = view_.grab().toImage();
    expectFilled(image, 250, 0, 40 * kMiB, MemoryCategory::parameters);
    expectFilled(image, 250, 40 * kMiB, 60 * kMiB, MemoryCategory::saved);
    expectFilled(image, 750, 0, 40 * kMiB, MemoryCategory::parameters);
    expectFilled(image, 750, 40 * kMiB, 90 * kMiB, MemoryCategory::saved);
    expectFilled(image, 750, 90 * kMiB, 100 * kMiB, MemoryCategory::transient);
    // Nothing stands on top.
    const QRgb ground = timelineColors(view_.palette()).lane.rgb();
    for (const auto& [time, bytes] : {std::pair<int, Bytes>{250, 60 * kMiB}, {750, 100 * kMiB}}) {
        const int x = static_cast<int>(view_.pixelAtTime(time));
        EXPECT_EQ(image.pixel(x, static_cast<int>(lineOf(bytes)) - 2), ground) << time;
    }
}

TEST_F(MemoryViewTest, ShowsOneAreaUntilAskedForTheStack) {
    view_.setStacked(false);
    const QImage image = view_.grab().toImage();
    const int x = static_cast<int>(view_.pixelAtTime(250));
    const QRgb low = image.pixel(x, static_cast<int>(lineOf(20 * kMiB)));
    EXPECT_EQ(image.pixel(x, static_cast<int>(lineOf(50 * kMiB))), low);
    EXPECT_NE(low, brushOf(MemoryCategory::parameters).color().rgb());
}
}  // namespace
}  // namespace pipescope
