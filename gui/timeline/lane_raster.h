#pragma once

#include "gui/style/task_style.h"
#include "gui/timeline/share_pyramid.h"
#include "gui/timeline/timeline_store.h"

#include <QImage>

#include <array>
#include <vector>

namespace pipescope {
/// Rows of pixels of a lane row, as drawn into a QImage.
struct RasterBand {
    std::uint32_t row = 0;  ///< of the store
    int top = 0;            ///< pixel line of the image
    int height = 0;
    double leastBorder = 0;  ///< slices this many pixels wide or more get a dark left edge; 0: none does
};

/// Draws the bodies of rows of slices: computes one line of pixels per row and copies it down the band. Each column
/// shows the kind that fills most of it, mixed with the ground by the share of the column that is busy; a dense zoom
/// thus tells the true load and not that of the slice that came first. Kinds have their patterns, the bubble its dots.
/// Cost: of the order of the image's pixels, whatever the number of slices. Threading: one object per thread.
class LaneRaster {
public:
    /// A strip of this many lines is all there is to know of a row, as its lines repeat.
    static constexpr int kLines = kPatternPeriod;

    explicit LaneRaster(const TimelineColors& colors);

    /// Paints one band, as wide as the image; `window` in the store's times. The image has format RGB32.
    void draw(const TimelineStore& store, const TimeWindow& window, const RasterBand& band, QImage& image);

private:
    void groundOf(const TimelineStore& store, const TimeWindow& window, bool shadeBubble, int columns);
    void mixColumns(int columns);
    void addBorders(const StoredRow& row, const TimeWindow& window, double least, int columns);
    /// Pixel line `line` of a band: columns with their patterns.
    void writeLine(QRgb* target, int columns, int line) const;

    QRgb lane_;
    QRgb bubble_;
    QRgb bubbleDot_;
    QRgb border_;
    std::array<QRgb, kNumTaskKinds> kindColor_{};
    std::array<QRgb, kNumTaskKinds> kindInk_{};
    std::array<PatternTile, kNumTaskKinds> kindTile_{};
    PatternTile bubbleTile_ = tileOf(Pattern::dotted);
    ColumnShares shares_;
    std::vector<std::uint8_t> inStep_;    // per column
    std::vector<std::int32_t> dominant_;  // per column: kind, or -1 for an idle column
    std::vector<float> busy_;
    std::vector<float> most_;
    std::vector<QRgb> line_;
    std::vector<std::uint32_t> inked_;  // per column: bit y: line y has ink; of its kind where that fills the column
    std::vector<QRgb> ink_;
};
}  // namespace pipescope
