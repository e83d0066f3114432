#include "gui/timeline/lane_raster.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace pipescope {
namespace {
// Keeps a short slice alone in its column visible against the background.
constexpr float kFaintest = 0.25F;
constexpr float kSolid = 0.9F;
constexpr std::size_t kNarrowestPattern = 6;  // columns
constexpr std::size_t kBin = 8;               // columns
constexpr int kDenseChanges = 4;              // of the kind in a bin: bars of less than two columns
// With only a few slices per column, reading them is faster than the pyramid.
constexpr std::size_t kSlicesPerColumnToRead = 4;

QRgb mix(QRgb ground, QRgb color, float share) {
    // Blends red and blue in one multiplication: 256 steps leave room between them.
    const auto part = static_cast<std::uint32_t>(share * 256);
    const std::uint32_t rest = 256 - part;
    const std::uint32_t red_blue = ((ground & 0xFF00FFU) * rest + (color & 0xFF00FFU) * part) >> 8;
    const std::uint32_t green = ((ground & 0xFF00U) * rest + (color & 0xFF00U) * part) >> 8;
    return 0xFF000000U | (red_blue & 0xFF00FFU) | (green & 0xFF00U);
}

}  // namespace

LaneRaster::LaneRaster(const TimelineColors& colors, const KindSet& hidden)
    : lane_(colors.lane.rgb()),
      bubble_(colors.bubble.rgb()),
      bubbleDot_(colors.bubbleDot.rgb()),
      border_(colors.border.rgb()),
      hidden_(hidden) {
    for (int k = 0; k < kNumShownKinds; ++k) {
        const KindStyle& style = styleOf(static_cast<TaskKind>(k));
        kindColor_[static_cast<std::size_t>(k)] = style.color.rgb();
        kindInk_[static_cast<std::size_t>(k)] = inkOn(style.color).rgb();
        kindTile_[static_cast<std::size_t>(k)] = tileOf(style.pattern);
    }
}

void LaneRaster::draw(const TimelineStore& store, const TimeWindow& window, const RasterBand& band, QImage& image) {
    const int top = std::max(0, band.top);
    const int bottom = std::min(image.height(), band.top + band.height);
    const int columns = image.width();
    if (bottom <= top || columns == 0) {
        return;
    }
    const StoredRow& row = store.rows().at(band.row);
    groundOf(store, window, !row.copies, columns);
    const std::size_t visible = row.within(shownRange(window)).size();
    std::vector<TaskKind> kinds = visible > 0 ? row.kinds : std::vector<TaskKind>();
    for (const std::uint32_t other : band.others) {
        const StoredRow& folded = store.rows().at(other);
        const std::vector<TaskKind> more =
            folded.within(shownRange(window)).size() > 0 ? folded.kinds : std::vector<TaskKind>();
        std::vector<TaskKind> both;
        std::set_union(kinds.begin(), kinds.end(), more.begin(), more.end(), std::back_inserter(both));
        kinds = std::move(both);
    }
    shares_.reset(kinds, columns);
    if (visible > 0) {
        addRow(row, window, columns, visible);
    }
    for (const std::uint32_t other : band.others) {
        const StoredRow& folded = store.rows().at(other);
        if (const std::size_t inside = folded.within(shownRange(window)).size(); inside > 0) {
            addRow(folded, window, columns, inside);
        }
    }
    mixColumns(columns, 1 + static_cast<int>(band.others.size()), band.patterns);
    mixDenseBins(columns, band.patterns);
    if (band.patterns) {
        thinPatterns();
    }
    if (band.leastBorder > 0 && visible < static_cast<std::size_t>(columns)) {  // slices of denser rows are narrower
        addBorders(row, window, band.leastBorder, columns);
    }

    const auto bytes = static_cast<std::size_t>(image.width()) * sizeof(QRgb);
    // Computes the first kLines lines and copies them to the others.
    for (int y = top; y < bottom; ++y) {
        auto* target = reinterpret_cast<QRgb*>(image.scanLine(y));
        if (!band.patterns) {
            std::memcpy(target, line_.data(), bytes);
        } else if (y - top >= kLines) {
            std::memcpy(target, image.constScanLine(y - kLines), bytes);
        } else {
            writeLine(target, columns, (y - band.top) % kLines);
        }
    }
}

void LaneRaster::addRow(const StoredRow& row, const TimeWindow& window, int columns, std::size_t visible) {
    const bool read = !row.pyramid || !row.pyramid->resolves(window.length / columns) ||
                      visible < kSlicesPerColumnToRead * static_cast<std::size_t>(columns);
    if (read) {
        addShares(row.columns(), window, columns, shares_);
    } else {
        row.pyramid->addShares(window, columns, shares_);
    }
}

void LaneRaster::groundOf(const TimelineStore& store, const TimeWindow& window, bool shadeBubble, int columns) {
    const auto size = static_cast<std::size_t>(columns);
    if (!shadeBubble) {
        inStep_.assign(size, 0);
        line_.assign(size, lane_);
        return;
    }
    // That of all rows: a long run has a hundred thousand steps.
    if (groundStore_ != &store || groundWindow_ != window || ground_.size() != size) {
        findGround(store, window, columns);
    }
    inStep_ = groundInStep_;
    line_ = ground_;
}

void LaneRaster::findGround(const TimelineStore& store, const TimeWindow& window, int columns) {
    groundStore_ = &store;
    groundWindow_ = window;
    groundInStep_.assign(static_cast<std::size_t>(columns), 0);
    ground_.assign(static_cast<std::size_t>(columns), lane_);
    const auto first = std::partition_point(store.steps().begin(), store.steps().end(),
                                            [&](const StepSpan& step) { return step.range().end < window.start; });
    for (auto step = first; step != store.steps().end(); ++step) {
        const double from = pixelOf(window, columns, step->range().start);
        const double to = pixelOf(window, columns, step->range().end);
        if (from >= columns) {
            break;
        }
        const auto begin = static_cast<std::ptrdiff_t>(std::clamp(std::round(from), 0.0, double(columns)));
        const auto end = static_cast<std::ptrdiff_t>(std::clamp(std::round(to), 0.0, double(columns)));
        std::fill(groundInStep_.begin() + begin, groundInStep_.begin() + std::max(begin, end), std::uint8_t{1});
        std::fill(ground_.begin() + begin, ground_.begin() + std::max(begin, end), bubble_);
    }
}

void LaneRaster::mixColumns(int columns, int rows, bool patterns) {
    const auto size = static_cast<std::size_t>(columns);
    const float part = 1.0F / static_cast<float>(rows);
    dominant_.assign(size, -1);
    busy_.assign(size, 0);
    most_.assign(size, 0);
    inked_.assign(patterns ? size : 0, 0);
    ink_.assign(patterns ? size : 0, bubbleDot_);
    for (const TaskKind kind : shares_.kinds) {  // per kind, so that the compiler can vectorise
        float* share = shares_.of[static_cast<std::size_t>(kind)].data();
        for (std::size_t x = 0; rows > 1 && x < size; ++x) {
            share[x] *= part;
        }
        const auto number = static_cast<std::int32_t>(kind);
        if (contains(hidden_, kind)) {
            for (std::size_t x = 0; x < size; ++x) {
                line_[x] = share[x] > 0 ? mix(line_[x], lane_, std::min(share[x], 1.0F)) : line_[x];
                inStep_[x] = share[x] > kFaintest ? 0 : inStep_[x];
            }
            continue;
        }
        for (std::size_t x = 0; x < size; ++x) {
            busy_[x] += share[x];
            dominant_[x] = share[x] > most_[x] ? number : dominant_[x];
            most_[x] = std::max(most_[x], share[x]);
        }
    }
    for (std::size_t x = 0; x < size && !patterns; ++x) {
        if (dominant_[x] >= 0) {
            line_[x] = mix(line_[x], kindColor_[static_cast<std::size_t>(dominant_[x])],
                           std::clamp(busy_[x], kFaintest, 1.0F));
        }
    }
    for (std::size_t x = 0; x < size && patterns; ++x) {
        if (dominant_[x] < 0) {
            inked_[x] = inStep_[x] != 0 ? bubbleTile_[x % kLines] : 0;
            continue;
        }
        const auto kind = static_cast<std::size_t>(dominant_[x]);
        line_[x] = mix(line_[x], kindColor_[kind], std::clamp(busy_[x], kFaintest, 1.0F));
        inked_[x] = busy_[x] >= kSolid ? kindTile_[kind][x % kLines] : 0;
        ink_[x] = kindInk_[kind];
    }
}

void LaneRaster::mixDenseBins(int columns, bool stacks) {
    const std::size_t bins = static_cast<std::size_t>(columns) / kBin;  // the rest at the right edge stays as it is
    stackOf_.assign(bins, -1);
    stacks_.clear();
    for (std::size_t bin = 0; bin < bins; ++bin) {
        const std::size_t begin = bin * kBin;
        int changes = 0;
        for (std::size_t x = begin + 1; x < begin + kBin; ++x) {
            changes += dominant_[x] != dominant_[x - 1] ? 1 : 0;
        }
        const auto isPartlyBusy = [](float share) { return share > 0 && share < kSolid; };
        const bool isBlurred = std::all_of(busy_.begin() + static_cast<std::ptrdiff_t>(begin),
                                           busy_.begin() + static_cast<std::ptrdiff_t>(begin + kBin), isPartlyBusy);
        if (changes < kDenseChanges && !isBlurred) {
            continue;
        }
        std::array<float, kNumShownKinds> sums{};
        float busy = 0;
        int most = -1;
        for (const TaskKind kind : shares_.kinds) {
            const auto k = static_cast<std::size_t>(kind);
            if (contains(hidden_, kind)) {
                continue;
            }
            for (std::size_t x = begin; x < begin + kBin; ++x) {
                sums[k] += shares_.of[k][x] / kBin;
            }
            busy += sums[k];
            most = most < 0 || sums[k] > sums[static_cast<std::size_t>(most)] ? static_cast<int>(k) : most;
        }
        if (most < 0) {
            continue;
        }
        const QRgb ground = inStep_[begin] != 0 ? bubble_ : lane_;
        const QRgb mixed = mix(ground, kindColor_[static_cast<std::size_t>(most)], std::clamp(busy, kFaintest, 1.0F));
        std::fill(line_.begin() + static_cast<std::ptrdiff_t>(begin),
                  line_.begin() + static_cast<std::ptrdiff_t>(begin + kBin), mixed);
        if (!stacks || changes < kDenseChanges) {
            continue;
        }
        std::fill(inked_.begin() + static_cast<std::ptrdiff_t>(begin),
                  inked_.begin() + static_cast<std::ptrdiff_t>(begin + kBin), 0U);
        Stack stack;
        stack.fill(ground);
        float below = 0;
        for (const TaskKind kind : shares_.kinds) {
            const auto k = static_cast<std::size_t>(kind);
            for (int line = 0; line < kLines; ++line) {
                const float at = (static_cast<float>(line) + 0.5F) / kLines;
                if (at >= below && at < below + sums[k]) {
                    stack[static_cast<std::size_t>(line)] = kindColor_[k];
                }
            }
            below += sums[k];
        }
        stackOf_[bin] = static_cast<std::int32_t>(stacks_.size());
        stacks_.push_back(stack);
    }
}

void LaneRaster::thinPatterns() {
    constexpr std::int32_t kBubbleRun = -1;
    constexpr std::int32_t kNoRun = -2;
    const auto runAt = [this](std::size_t x) {
        return dominant_[x] < 0 ? (inStep_[x] != 0 ? kBubbleRun : kNoRun) : busy_[x] >= kSolid ? dominant_[x] : kNoRun;
    };
    for (std::size_t begin = 0; begin < inked_.size();) {
        std::size_t end = begin + 1;
        for (const std::int32_t run = runAt(begin); end < inked_.size() && runAt(end) == run;) {
            ++end;
        }
        if (end - begin < kNarrowestPattern) {
            std::fill(inked_.begin() + static_cast<std::ptrdiff_t>(begin),
                      inked_.begin() + static_cast<std::ptrdiff_t>(end), 0U);
        }
        begin = end;
    }
}

void LaneRaster::addBorders(const StoredRow& row, const TimeWindow& window, double least, int columns) {
    // Drawn inside the bar, so that neighbours do not add up to a line of double width.
    const auto shortest = static_cast<std::int64_t>(std::ceil(least * window.length / columns));
    for (const std::size_t i : row.within(shownRange(window)).indices()) {
        const double x = pixelOf(window, columns, row.start[i]);
        const bool isShown = !contains(hidden_, static_cast<TaskKind>(row.kind[i]));
        if (x >= 0 && x < columns && row.end[i] - row.start[i] >= shortest && isShown) {
            line_[static_cast<std::size_t>(x)] = border_;
            inked_[static_cast<std::size_t>(x)] = 0;
        }
    }
}

void LaneRaster::writeLine(QRgb* target, int columns, int line) const {
    const std::uint32_t bit = 1U << line;
    for (std::size_t x = 0; x < static_cast<std::size_t>(columns); ++x) {
        target[x] = (inked_[x] & bit) != 0 ? ink_[x] : line_[x];
    }
    for (std::size_t bin = 0; !stacks_.empty() && bin < stackOf_.size(); ++bin) {
        if (stackOf_[bin] >= 0) {
            std::fill_n(target + bin * kBin, kBin,
                        stacks_[static_cast<std::size_t>(stackOf_[bin])][static_cast<std::size_t>(line)]);
        }
    }
}
}  // namespace pipescope
