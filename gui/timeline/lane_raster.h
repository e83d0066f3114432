#pragma once

#include "gui/style/task_style.h"
#include "gui/timeline/share_pyramid.h"
#include "gui/timeline/timeline_store.h"

#include <QImage>

#include <array>
#include <vector>

namespace pipescope {
/// Pixel rows of a lane row in a QImage.
struct RasterBand {
    std::uint32_t row = 0;  ///< of the store
    int top = 0;            ///< pixel row of the image
    int height = 0;
    double leastBorder = 0;  ///< slices of at least this many pixels get a dark left edge; 0: none do
};

/// Draws the bodies of slices: computes one line of pixels per row and copies it down the band. Each column shows its
/// dominant kind, blended with the background by the column's busy share. A dense zoom thus shows the real load, and
/// not an arbitrary slice. Kinds have patterns; the bubble has dots. Cost: proportional to the image's pixels,
/// independent of the number of slices. Threading: one object per thread.
class LaneRaster {
public:
    /// The lines of a row repeat after this many.
    static constexpr int kLines = kPatternPeriod;

    /// Slices of the `hidden` kinds look like a lane outside its steps, which is no bubble.
    explicit LaneRaster(const TimelineColors& colors, const KindSet& hidden = {});

    /// Draws one band across the image's width. `window` is in the store's times; the image has format RGB32.
    void draw(const TimelineStore& store, const TimeWindow& window, const RasterBand& band, QImage& image);

private:
    void groundOf(const TimelineStore& store, const TimeWindow& window, bool shadeBubble, int columns);
    void mixColumns(int columns);
    void addBorders(const StoredRow& row, const TimeWindow& window, double least, int columns);
    /// Writes line `line` of a band: columns with their patterns.
    void writeLine(QRgb* target, int columns, int line) const;

    QRgb lane_;
    QRgb bubble_;
    QRgb bubbleDot_;
    QRgb border_;
    std::array<QRgb, kNumTaskKinds> kindColor_{};
    std::array<QRgb, kNumTaskKinds> kindInk_{};
    std::array<PatternTile, kNumTaskKinds> kindTile_{};
    KindSet hidden_;
    PatternTile bubbleTile_ = tileOf(Pattern::dotted);
    ColumnShares shares_;
    std::vector<std::uint8_t> inStep_;    // by column
    std::vector<std::int32_t> dominant_;  // by column: kind, or -1 if idle
    std::vector<float> busy_;
    std::vector<float> most_;
    std::vector<QRgb> line_;
    std::vector<std::uint32_t> inked_;  // by column: bit y is set if line y of its pattern has ink
    std::vector<QRgb> ink_;
};
}  // namespace pipescope
