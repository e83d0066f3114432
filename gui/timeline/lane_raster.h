#pragma once

#include "gui/style/task_style.h"
#include "gui/timeline/share_pyramid.h"
#include "gui/timeline/timeline_store.h"

#include <QImage>

#include <array>
#include <span>
#include <vector>

namespace pipescope {
/// Pixel rows of a lane row in a QImage.
struct RasterBand {
    std::uint32_t row = 0;  ///< of the store
    int top = 0;            ///< pixel row of the image
    int height = 0;
    double leastBorder = 0;  ///< slices of at least this many pixels get a dark left edge; 0: none do
    bool patterns = true;    ///< false: colours alone, for rows that are too low for a pattern
    std::span<const std::uint32_t> others = {};  ///< rows that share the band with `row`, which shows their mean
};

/// Draws the bodies of slices: computes one line of pixels per row and copies it down the band. Each column shows its
/// dominant kind, blended with the background by the column's busy share. A dense zoom thus shows the real load, and
/// not an arbitrary slice. Where kinds alternate every few columns, lines show their shares to an eighth. Kinds have
/// patterns; the bubble has dots. Runs of columns that are too narrow for a pattern have none, since patterns of many
/// narrow bars would interfere. Cost: proportional to the image's pixels, independent of the number of slices.
/// Threading: one object per thread.
class LaneRaster {
public:
    /// The lines of a row repeat after this many.
    static constexpr int kLines = kPatternPeriod;

    /// Slices of the `hidden` kinds look like a lane outside its steps, which is no bubble.
    explicit LaneRaster(const TimelineColors& colors, const KindSet& hidden = {});

    /// Call it for another store, which may stand at the address of the one before.
    void forget() { groundStore_ = nullptr; }

    /// Draws one band across the image's width. `window` is in the store's times; the image has format RGB32.
    void draw(const TimelineStore& store, const TimeWindow& window, const RasterBand& band, QImage& image);

private:
    void groundOf(const TimelineStore& store, const TimeWindow& window, bool shadeBubble, int columns);
    void findGround(const TimelineStore& store, const TimeWindow& window, int columns);
    /// Adds the shares of one row.
    void addRow(const StoredRow& row, const TimeWindow& window, int columns, std::size_t visible);
    /// `rows`: of which the shares are the sum. `patterns`: fill inked_ and ink_ too.
    void mixColumns(int columns, int rows, bool patterns);
    /// Removes patterns from runs that are too narrow for them.
    void thinPatterns();
    /// Where the kind changes every few columns, replaces these by the shares of the kinds in a bin of columns: as
    /// lines in their proportions, or the bin's dominant kind if `stacks` is false. Columns of alternating kinds would
    /// form patterns that mean nothing. So would shares of columns that hold both tasks and gaps: these have their
    /// mean.
    void mixDenseBins(int columns, bool stacks);
    void addBorders(const StoredRow& row, const TimeWindow& window, double least, int columns);
    /// Writes line `line` of a band: columns with their patterns.
    void writeLine(QRgb* target, int columns, int line) const;

    QRgb lane_;
    QRgb bubble_;
    QRgb bubbleDot_;
    QRgb border_;
    std::array<QRgb, kNumShownKinds> kindColor_{};
    std::array<QRgb, kNumShownKinds> kindInk_{};
    std::array<PatternTile, kNumShownKinds> kindTile_{};
    KindSet hidden_;
    PatternTile bubbleTile_ = tileOf(Pattern::dotted);
    ColumnShares shares_;
    const TimelineStore* groundStore_ = nullptr;  // of the ground, which rows share; null: unknown
    TimeWindow groundWindow_;
    std::vector<QRgb> ground_;                // by column
    std::vector<std::uint8_t> groundInStep_;  // likewise
    std::vector<std::uint8_t> inStep_;        // by column
    std::vector<std::int32_t> dominant_;      // by column: kind, or -1 if idle
    std::vector<float> busy_;
    std::vector<float> most_;
    std::vector<QRgb> line_;
    std::vector<std::uint32_t> inked_;  // by column: bit y is set if line y of its pattern has ink
    std::vector<QRgb> ink_;
    using Stack = std::array<QRgb, kLines>;  // colour of each line
    std::vector<std::int32_t> stackOf_;      // by bin: index into stacks_, or -1
    std::vector<Stack> stacks_;
};
}  // namespace pipescope
