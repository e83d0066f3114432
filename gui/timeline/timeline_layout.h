#pragma once

#include "gui/timeline/lane_arrangement.h"
#include "gui/timeline/timeline_store.h"
#include "gui/timeline/track_store.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
/// Pixels from the top of the first lane.
struct Band {
    int top = 0;
    int height = 0;

    int bottom() const { return top + height; }
    bool contains(int y) const { return y >= top && y < bottom(); }
    friend bool operator==(const Band&, const Band&) = default;
};

struct RowBand {
    std::uint32_t row = 0;
    Band band;
};

struct LaneBand {
    LaneId lane;
    Band band;                        ///< all rows of the lane
    std::vector<RowBand> rows;        ///< tasks above copies, or ranges by depth; height 0: no room for copies
    std::vector<RowBand> below = {};  ///< kernels or a counter, with numbers of their own
    bool pinned = false;              ///< does not scroll
    std::string group = {};           ///< empty: none
    bool folded = false;              ///< its group is one row, the mean of its lanes, without anything of one lane
};

/// Lanes of one process, or threads and counters of one process or device.
struct GroupBand {
    std::string name;
    Band header;  ///< line with the name; height 0: no room for it
    Band band;    ///< header and lanes
    bool collapsed = false;
};

/// How high the rows of tasks are unless the user chose it. A view's own fill it; views one above the other share them.
struct RowFit {
    bool compact = false;  ///< rows have no room for copies and a line of text each
    double height = std::numeric_limits<double>::infinity();

    friend bool operator==(const RowFit&, const RowFit&) = default;
};

/// Positions of a view's rows. Rows with the same band share its pixels, which show the mean of these rows: lanes of a
/// collapsed group, and of any group of lanes if there are more than pixels.
struct TimelineLayout {
    std::vector<LaneBand> lanes;    ///< from top to bottom
    std::vector<GroupBand> groups;  ///< from top to bottom
    int height = 0;                 ///< total height; scrolls if it exceeds the available height
    int pinnedHeight = 0;           ///< of the pinned lanes at the top
    bool compact = false;           ///< lanes have no room for copies and a line of text each
    RowFit own;                     ///< without a limit to the height

    std::optional<RowBand> rowAt(int y) const;
    std::optional<RowBand> rowBelowAt(int y) const;
    Band bandOf(std::uint32_t row) const { return row < rowBands.size() ? rowBands[row] : Band{}; }
    Band bandBelowOf(std::uint32_t row) const;
    /// Where the lane's bubbles are: its top row of tasks.
    Band bubbleBand(LaneId lane) const;
    /// Null if the layout has no such lane.
    const LaneBand* find(LaneId lane) const;
    bool isFolded(LaneId lane) const { return find(lane) != nullptr && find(lane)->folded; }
    std::optional<LaneId> laneAt(int y) const;
    /// The group whose header is there.
    const GroupBand* headerAt(int y) const;

    std::vector<Band> rowBands;  ///< by row
    std::vector<int> laneIndex;  ///< by lane: index into lanes, or -1
};

inline constexpr int kLowestTaskRow = 16;
inline constexpr int kTallestTaskRow = 96;  ///< or half the height that is there
/// Rows of fewer pixels show neither patterns nor outlines.
inline constexpr int kLowestPatternRow = 8;

/// Lanes share the available height evenly. `kernels`: rows below those of the same lane; null: none. Rows of tasks are
/// at least `lowest` pixels high: the height of a text line, if that exceeds kLowestTaskRow. If they do not fit, the
/// layout is compact: all lanes fit, without copies and kernels. Up to eight rows scroll instead if they would be
/// lower than 0.8 `lowest`, or have kernels. `available_height` 0: as high as the rows need. `most`: the layout is
/// compact if it says so, and rows are no higher.
TimelineLayout layoutRows(const TimelineStore& store, int available_height, const TimelineStore* kernels = nullptr,
                          int lowest = kLowestTaskRow, const LaneArrangement& arrangement = {},
                          const RowFit& most = {});
/// The height in which all rows of tasks are as high as a line of text, without copies and kernels; of more than eight
/// rows, the height of eight.
int heightOfFewRows(const TimelineStore& store, int lowest = kLowestTaskRow, const LaneArrangement& arrangement = {});
/// Threads and streams, whose lanes are those of threadsOf(), with their counters below them, by process and device. A
/// row is as high as a line of text. With several groups, each has a header, and the `collapsed` ones nothing else.
TimelineLayout layoutTracks(const TrackStore& tracks, int line, const std::set<std::string>& collapsed);
/// The layout as seen after scrolling: pinned lanes stay, the others disappear behind them, with height 0.
TimelineLayout scrolled(TimelineLayout layout, int by);
/// Replaces the lanes' rows by those below them.
TimelineLayout layoutBelow(TimelineLayout layout);
}  // namespace pipescope
