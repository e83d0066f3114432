#include "gui/timeline/memory_view.h"

#include "gui/style/number_format.h"

#include <gtest/gtest.h>

#include <QApplication>

#include <cmath>
#include <set>

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

/// One lane with 40 MiB of parameters and 20 MiB saved; in the second half 50 MiB saved and 10 MiB transient.
class MemoryViewTest : public testing::Test {
protected:
    MemoryViewTest() : view_(axis_) {
        tracks_.emplace_back(std::vector<MemorySample>{sampleAt(0, 40 * kMiB, 20 * kMiB, 0),
                                                       sampleAt(500, 40 * kMiB, 50 * kMiB, 10 * kMiB),
                                                       sampleAt(1000, 40 * kMiB, 50 * kMiB, 10 * kMiB)});
        view_.setGutter(80);
        view_.resize(1080, 240);
        view_.setScene({{{"lane 0", "cpu"}}, &tracks_, nullptr, 0, {}});
        view_.setStacked(true);
        view_.show();
        QApplication::processEvents();
        axis_.setTotal({0, 1000});
        axis_.show({0, 1000});
    }
    /// Pixel line of a number of bytes.
    double lineOf(Bytes bytes, std::size_t lane = 0) const {
        const QRect box = view_.laneBox(lane);
        return box.bottom() + 1 -
               static_cast<double>(bytes) / static_cast<double>(view_.bytesAtTop()) * (box.height() - 1);
    }
    /// Expects the category's colour on each line between `from` and `to` bytes, in the column at `time`.
    void expectFilled(const QImage& image, std::int64_t time, Bytes from, Bytes to, MemoryCategory category) {
        const MemoryStyle style = styleOf(category);
        const int x = static_cast<int>(view_.pixelAtTime(time));
        for (int y = static_cast<int>(lineOf(to)) + 2; y < static_cast<int>(lineOf(from)) - 1; ++y) {
            const QColor found = image.pixelColor(x, y);
            EXPECT_TRUE(found.rgb() == style.color.rgb() || found.rgb() == style.over.color().rgb())
                << found.name().toStdString() << " at line " << y << ", " << nameOf(category).toStdString();
        }
    }

    TimeAxisModel axis_;
    std::vector<MemoryTrack> tracks_;
    MemoryView view_;
};

TEST_F(MemoryViewTest, HasNamesOfLanesThatDifferAlsoIfTheseAreShortened) {
    tracks_.emplace_back(std::vector<MemorySample>{sampleAt(0, 10 * kMiB, 0, 0), sampleAt(1000, 10 * kMiB, 0, 0)});
    view_.setScene(
        {{{"stage_of_the_transformer_0_with_attention", "cpu"}, {"stage_of_the_transformer_1_with_attention", "cpu"}},
         &tracks_,
         nullptr,
         0,
         {}});
    view_.setGutter(view_.fontMetrics().horizontalAdvance(QStringLiteral("stage_of_the_tran · 100 MiB")));
    QApplication::processEvents();
    const std::vector<AxisView::DrawnName> names = view_.drawnNames();
    ASSERT_EQ(names.size(), 2U);
    for (std::size_t lane = 0; lane < 2; ++lane) {
        const QString& text = names[lane].text;
        EXPECT_TRUE(text.contains(QStringLiteral("%1_").arg(lane))) << text.toStdString();
        EXPECT_TRUE(text.endsWith(QStringLiteral("MiB"))) << text.toStdString();
    }
}

TEST_F(MemoryViewTest, StacksWhatTheBytesAreForAtTheirHeights) {
    const QImage image = view_.grab().toImage();
    expectFilled(image, 250, 0, 40 * kMiB, MemoryCategory::parameters);
    expectFilled(image, 250, 40 * kMiB, 60 * kMiB, MemoryCategory::saved);
    expectFilled(image, 750, 0, 40 * kMiB, MemoryCategory::parameters);
    expectFilled(image, 750, 40 * kMiB, 90 * kMiB, MemoryCategory::saved);
    expectFilled(image, 750, 90 * kMiB, 100 * kMiB, MemoryCategory::transient);
    // Nothing is painted above.
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
    EXPECT_NE(low, styleOf(MemoryCategory::parameters).color.rgb());
}

TEST_F(MemoryViewTest, TellsCategoriesApartWithoutTheirColour) {
    std::set<Qt::BrushStyle> patterns;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        patterns.insert(styleOf(static_cast<MemoryCategory>(k)).over.style());
    }
    EXPECT_EQ(patterns.size(), kNumMemoryCategories);

    // Neighbouring categories also have different patterns.
    MemorySample all = sampleAt(0, 0, 0, 0);
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        all.composition[static_cast<MemoryCategory>(k)] = kMiB;
    }
    all.allocated = all.peak = static_cast<Bytes>(kNumMemoryCategories) * kMiB;
    MemorySample last = all;
    last.time = Nanoseconds{1000};
    tracks_ = {MemoryTrack({all, last})};
    view_.resize(1080, 600);
    view_.setScene({{{"lane 0", "cpu"}}, &tracks_, nullptr, 0, {}});
    QApplication::processEvents();
    const QImage image = view_.grab().toImage();
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const MemoryStyle style = styleOf(static_cast<MemoryCategory>(k));
        const int y = static_cast<int>(lineOf(static_cast<Bytes>(k) * kMiB + kMiB / 2));
        int inked = 0;
        for (int x = 300; x < 364; ++x) {
            for (int line = y - 4; line < y + 4; ++line) {  // a period of the patterns
                const QRgb found = image.pixel(x, line);
                EXPECT_TRUE(found == style.color.rgb() || found == style.over.color().rgb()) << k;
                inked += found != style.color.rgb() ? 1 : 0;
            }
        }
        EXPECT_EQ(inked > 0, style.over.style() != Qt::NoBrush) << k;
    }
}

/// One lane: 60 MiB measured in the first half, 100 MiB in the second; simulated 40, then 80. Peaks are at the middle
/// and, simulated, at three quarters.
class MemoryLines : public MemoryViewTest {
protected:
    MemoryLines() {
        // A sample's peak covers the time since the previous sample.
        tracks_ = {MemoryTrack({sampleAt(0, 60 * kMiB, 0, 0), sampleAt(499, 60 * kMiB, 0, 0),
                                sampleAt(500, 100 * kMiB, 0, 0), sampleAt(1000, 90 * kMiB, 0, 0)})};
        simulated_ = {MemoryTrack({sampleAt(0, 40 * kMiB, 0, 0), sampleAt(749, 40 * kMiB, 0, 0),
                                   sampleAt(750, 80 * kMiB, 0, 0), sampleAt(1000, 80 * kMiB, 0, 0)})};
        view_.setStacked(false);
        show(110 * kMiB);
    }
    void show(std::optional<Bytes> limit) {
        view_.setScene(
            {{{"lane 0", "cpu"}}, &tracks_, &simulated_, 0, limit ? std::vector{*limit} : std::vector<Bytes>{}});
        QApplication::processEvents();
        image_ = view_.grab().toImage();
    }
    int lineNear(Bytes bytes) const { return static_cast<int>(std::round(lineOf(bytes))); }
    QRgb at(std::int64_t time, int line) const { return image_.pixel(static_cast<int>(view_.pixelAtTime(time)), line); }
    /// Number of columns in a time range with this colour on a line.
    int columnsOf(QRgb color, std::int64_t from, std::int64_t to, int line) const {
        int found = 0;
        for (auto x = static_cast<int>(view_.pixelAtTime(from)); x < static_cast<int>(view_.pixelAtTime(to)); ++x) {
            found += image_.pixel(x, line) == color ? 1 : 0;
        }
        return found;
    }

    const TimelineColors colors_ = timelineColors(QApplication::palette());
    std::vector<MemoryTrack> simulated_;
    QImage image_;
};

TEST_F(MemoryLines, DrawTheLimitInRedAtItsBytesAndNowhereElse) {
    ASSERT_TRUE(view_.showsLimit(0));
    const QRgb red = colors_.limit.rgb();
    EXPECT_GT(qRed(red), 2 * std::max(qGreen(red), qBlue(red)));
    const QRect box = view_.laneBox(0);
    for (int line = box.top(); line <= box.bottom(); ++line) {
        const int columns = columnsOf(red, 10, 990, line);
        if (line == lineNear(110 * kMiB)) {
            EXPECT_GT(columns, 400);  // dashes
        } else {
            EXPECT_EQ(columns, 0) << line;
        }
    }
    show(std::nullopt);
    for (int line = box.top(); line <= box.bottom(); ++line) {
        EXPECT_EQ(columnsOf(red, 10, 990, line), 0) << line;
    }
    show(10'000 * kMiB);  // far above all that is held: it would flatten the tracks
    EXPECT_FALSE(view_.showsLimit(0));
}

TEST_F(MemoryLines, LeaveRoomForPeaksBeforeTheWindow) {
    view_.setScene({{{"lane 0", "cpu"}}, nullptr, &simulated_, 0, {}});
    const Bytes inTheWindow = view_.bytesAtTop();
    const Bytes peak = 2 * simulated_.front().highest();
    view_.setScene({{{"lane 0", "cpu"}}, nullptr, &simulated_, 0, {}, {peak}});
    EXPECT_GE(view_.bytesAtTop(), peak);
    EXPECT_LT(inTheWindow, peak);
}

TEST_F(MemoryLines, DrawEachLanesOwnLimitOnOneScale) {
    tracks_.push_back(tracks_.front());
    simulated_.push_back(simulated_.front());
    view_.setScene({{{"lane 0", "cpu"}, {"lane 1", "cpu"}}, &tracks_, &simulated_, 0, {130 * kMiB, 60 * kMiB}});
    view_.resize(view_.width(), 2 * view_.height());
    QApplication::processEvents();
    image_ = view_.grab().toImage();
    EXPECT_GE(view_.bytesAtTop(), 130 * kMiB);
    const QRgb red = colors_.limit.rgb();
    for (const auto& [lane, limit] : {std::pair<std::size_t, Bytes>{0, 130 * kMiB}, {1, 60 * kMiB}}) {
        const QRect box = view_.laneBox(lane);
        int found = -1;
        for (int line = box.top(); line <= box.bottom(); ++line) {
            if (columnsOf(red, 10, 990, line) > 400) {
                EXPECT_EQ(found, -1) << "two lines on lane " << lane;
                found = line;
            }
        }
        EXPECT_EQ(found, static_cast<int>(std::round(lineOf(limit, lane)))) << "lane " << lane;
    }
}

TEST_F(MemoryLines, DrawTheSimulatedTrackAsALineAtItsBytes) {
    const QRgb ink = colors_.text.rgb();
    EXPECT_GT(columnsOf(ink, 10, 740, lineNear(40 * kMiB)), 700);
    EXPECT_GT(columnsOf(ink, 770, 980, lineNear(80 * kMiB)), 200);
    EXPECT_EQ(columnsOf(ink, 10, 480, lineNear(80 * kMiB)), 0);
    // The step between them is vertical.
    const int middle = lineNear(60 * kMiB);
    EXPECT_EQ(columnsOf(ink, 745, 756, middle), 1);
}

TEST_F(MemoryLines, FillTheMeasuredTrackUpToItsBytes) {
    const QRgb ground = colors_.lane.rgb();
    for (const auto& [time, bytes] : {std::pair<int, Bytes>{250, 60 * kMiB}, {900, 100 * kMiB}}) {
        EXPECT_EQ(at(time, lineNear(bytes) - 2), ground) << time;
        EXPECT_NE(at(time, lineNear(bytes) + 2), ground) << time;
    }
}

TEST_F(MemoryLines, NameThePeakOfTheRunByItsMark) {
    view_.setGutter(300);
    ASSERT_EQ(view_.drawnNames().size(), 1u);
    EXPECT_EQ(view_.drawnNames()[0].text, QStringLiteral("lane 0 · ▼ ") + formatBytes(100 * kMiB));
}

TEST_F(MemoryLines, MarkThePeaksWhereAndWhenTheyWere) {
    // Triangles below the peaks: the measured one blue, the simulated one in the colour of its line.
    const QRgb blue = QColor(QStringLiteral("#0072B2")).rgb();
    EXPECT_EQ(at(500, lineNear(100 * kMiB) + 2), blue);
    EXPECT_NE(at(520, lineNear(100 * kMiB) + 2), blue);
    EXPECT_NE(at(500, lineNear(100 * kMiB) + 12), blue);
    EXPECT_EQ(at(750, lineNear(80 * kMiB) + 2), colors_.text.rgb());
    // If the peak is reached again, the first time in view has the mark.
    axis_.setTotal({0, 1200});
    axis_.show({900, 1200});
    image_ = view_.grab().toImage();
    EXPECT_EQ(at(1000, lineNear(80 * kMiB) + 2), colors_.text.rgb());
    // A peak outside the view has no mark.
    axis_.show({600, 1000});
    image_ = view_.grab().toImage();
    for (int x = 80; x < 1080; ++x) {
        EXPECT_NE(image_.pixel(x, lineNear(100 * kMiB) + 2), blue) << x;
    }
}
}  // namespace
}  // namespace pipescope
