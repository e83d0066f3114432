#include "gui/timeline/timeline_layout.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
constexpr int kLaneGap = 4;
constexpr int kCopyRow = 7;
constexpr int kKernelRow = 11;
constexpr int kRowGap = 1;
constexpr int kCollapsedLane = 5;
constexpr int kLowestGappedRow = 5;  // lower rows of a compact layout touch each other
constexpr int kGroupHeaderMargin = 4;
constexpr int kFewRows = 8;         // scroll rather than become unreadable in a low window
constexpr double kTightLine = 0.8;  // of a line of text: capitals without the space around them

std::optional<RowBand> bandAt(const std::vector<LaneBand>& lanes, std::vector<RowBand> LaneBand::*rows, int y) {
    for (const LaneBand& lane : lanes) {
        for (const RowBand& row : lane.*rows) {
            if (row.band.contains(y)) {
                return row;
            }
        }
    }
    return std::nullopt;
}

/// Fills the tables for finding bands by row and lane.
void index(TimelineLayout& layout) {
    layout.rowBands.clear();
    layout.laneIndex.clear();
    for (std::size_t i = 0; i < layout.lanes.size(); ++i) {
        const LaneBand& lane = layout.lanes[i];
        if (layout.laneIndex.size() <= lane.lane.index()) {
            layout.laneIndex.resize(lane.lane.index() + 1, -1);
        }
        layout.laneIndex[lane.lane.index()] = static_cast<int>(i);
        for (const RowBand& row : lane.rows) {
            if (layout.rowBands.size() <= row.row) {
                layout.rowBands.resize(row.row + 1);
            }
            layout.rowBands[row.row] = row.band;
        }
    }
}

/// Places lanes from top to bottom.
class LanePlacer {
public:
    LanePlacer(const TimelineStore& store, const TimelineStore* kernels, int lowest, const LaneArrangement& arrangement)
        : store_(store), arranged_(arrangedLanes(arrangement, store.lanes())), lowest_(lowest) {
        rows_.resize(store.lanes().size());
        kernels_.resize(store.lanes().size());
        for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
            rows_[store.rows()[row].lane.index()].push_back(row);
        }
        for (std::uint32_t row = 0; kernels != nullptr && row < kernels->rows().size(); ++row) {
            const StoredRow& stored = kernels->rows()[row];
            if (!stored.start.empty() && stored.lane.index() < kernels_.size()) {
                kernels_[stored.lane.index()].push_back(row);
            }
        }
        std::erase_if(arranged_, [this](const ArrangedLane& lane) { return rows_[lane.lane.index()].empty(); });
        measure();
    }

    /// See heightOfFewRows().
    int heightOfFew() const { return pinnedNeed() + 2 * kRowGap + std::min(compactRows_, kFewRows) * lowest_; }

    TimelineLayout place(int available, std::optional<int> chosen, const RowFit& most) {
        const double full = (available - fixed_ - extras_) / static_cast<double>(std::max(1, taskRows_));
        const bool hasKernels =
            std::any_of(kernels_.begin(), kernels_.end(), [](const auto& rows) { return !rows.empty(); });
        const bool scrolls = taskRows_ <= kFewRows && (hasKernels || taskRows_ * kTightLine * lowest_ > available);
        const bool fits = available <= 0 || full >= lowest_ || scrolls;
        layout_.own.compact = !fits;
        layout_.compact = chosen ? *chosen < lowest_ : !fits || most.compact;
        if (layout_.compact) {
            const int rest = available - pinnedNeed() - 2 * kRowGap;
            layout_.own.height = std::max(rest, 1) / static_cast<double>(std::max(1, compactRows_));
        } else {
            // A few lanes in a huge window are higher than in others, or most of it would be empty.
            const int tallest = std::max({lowest_, kTallestTaskRow, available / 2});
            layout_.own.height = std::clamp(static_cast<int>(full), lowest_, tallest);
        }
        rowHeight_ = chosen ? *chosen : std::min(layout_.own.height, most.height);
        for (std::size_t i = 0; i < arranged_.size(); ++i) {
            add(i);
        }
        finish();
        return std::move(layout_);
    }

private:
    int tasksOf(const ArrangedLane& lane) const {
        const std::vector<std::uint32_t>& rows = rows_[lane.lane.index()];
        return static_cast<int>(
            std::count_if(rows.begin(), rows.end(), [this](std::uint32_t row) { return !store_.rows()[row].copies; }));
    }
    bool beginsGroup(std::size_t i) const {
        return !arranged_[i].group.empty() && (i == 0 || arranged_[i - 1].group != arranged_[i].group);
    }
    bool isFixed(const ArrangedLane& lane) const { return lane.collapsed || lane.grouped; }
    /// Below the first lane of a collapsed group, its others share the same row.
    bool isFolded(std::size_t i) const { return arranged_[i].grouped && !beginsGroup(i); }

    int headerHeight() const { return lowest_ + kGroupHeaderMargin; }

    void measure() {
        fixed_ = kLaneGap;
        for (std::size_t i = 0; i < arranged_.size(); ++i) {
            const ArrangedLane& lane = arranged_[i];
            fixed_ += beginsGroup(i) ? headerHeight() : 0;
            if (isFolded(i)) {
                continue;
            }
            fixed_ += kLaneGap + (lane.grouped ? lowest_ : lane.collapsed ? kCollapsedLane : 0);
            if (!isFixed(lane)) {
                const int tasks = tasksOf(lane);
                const int copies = static_cast<int>(rows_[lane.lane.index()].size()) - tasks;
                taskRows_ += tasks;
                compactRows_ += lane.pinned ? 0 : tasks;
                extras_ += copies * (kCopyRow + kRowGap) +
                           static_cast<int>(kernels_[lane.lane.index()].size()) * (kKernelRow + kRowGap);
            } else {
                ++compactRows_;
            }
        }
    }

    /// In a compact layout.
    int pinnedNeed() const {
        int need = 0;
        for (const ArrangedLane& lane : arranged_) {
            need += lane.pinned ? tasksOf(lane) * lowest_ + kRowGap : 0;
        }
        return need;
    }

    void add(std::size_t i) {
        const ArrangedLane& lane = arranged_[i];
        if (beginsGroup(i)) {
            beginGroup(lane);
        }
        LaneBand band{lane.lane, {}, {}, {}, lane.pinned, lane.group, lane.grouped};
        if (isFolded(i)) {
            band.band = layout_.lanes.back().band;
            for (const std::uint32_t row : rows_[lane.lane.index()]) {
                const bool copies = store_.rows()[row].copies;
                band.rows.push_back({row, copies ? Band{band.band.bottom(), 0} : band.band});
            }
            layout_.lanes.push_back(std::move(band));
            return;
        }
        layout_.compact && !lane.pinned ? placeCompact(lane, band) : placeFull(lane, band);
        layout_.lanes.push_back(std::move(band));
        if (lane.pinned) {
            layout_.pinnedHeight = top();
        }
    }

    void beginGroup(const ArrangedLane& lane) {
        const int height = layout_.compact ? 0 : headerHeight();
        layout_.groups.push_back({lane.group, {top(), height}, {top(), 0}, lane.grouped});
        y_ += height;
    }

    void placeFull(const ArrangedLane& lane, LaneBand& band) {
        int y = top() + (layout_.compact ? 0 : kLaneGap);
        band.band.top = y;
        const int taskRow = lane.collapsed                    ? kCollapsedLane
                            : lane.grouped || layout_.compact ? lowest_
                                                              : static_cast<int>(rowHeight_);
        bool placed = false;
        for (const std::uint32_t row : rows_[lane.lane.index()]) {
            const bool copies = store_.rows()[row].copies;
            if (isFixed(lane) || (copies && layout_.compact)) {  // one band for all its tasks
                band.rows.push_back({row, copies ? Band{y, 0} : Band{band.band.top, taskRow}});
                y = std::max(y, copies ? y : band.band.top + taskRow);
                continue;
            }
            y += placed && copies ? kRowGap : 0;
            band.rows.push_back({row, {y, copies ? kCopyRow : taskRow}});
            y = band.rows.back().band.bottom();
            placed = true;
        }
        for (const std::uint32_t row :
             isFixed(lane) || layout_.compact ? std::vector<std::uint32_t>() : kernels_[lane.lane.index()]) {
            band.below.push_back({row, {y + kRowGap, kKernelRow}});
            y = band.below.back().band.bottom();
        }
        band.band.height = y - band.band.top;
        y_ = y + (layout_.compact ? kRowGap : 0);
    }

    void placeCompact(const ArrangedLane& lane, LaneBand& band) {
        const int first = top();
        for (const std::uint32_t row : rows_[lane.lane.index()]) {
            const auto from = static_cast<int>(std::floor(y_));
            const auto to = std::max(from + 1, static_cast<int>(std::floor(y_ + rowHeight_)));
            const int gap = to - from >= kLowestTaskRow + kLaneGap ? kLaneGap
                            : to - from >= kLowestGappedRow        ? kRowGap
                                                                   : 0;
            const bool copies = store_.rows()[row].copies;
            band.rows.push_back({row, copies ? Band{from, 0} : Band{from, to - from - gap}});
            y_ += copies || isFixed(lane) ? 0 : rowHeight_;
        }
        y_ += isFixed(lane) ? rowHeight_ : 0;
        band.band = {first, std::max(1, static_cast<int>(std::floor(y_)) - first)};
    }

    int top() const { return static_cast<int>(std::floor(y_)); }

    void finish() {
        for (GroupBand& group : layout_.groups) {
            int bottom = group.header.bottom();
            for (const LaneBand& lane : layout_.lanes) {
                bottom = lane.group == group.name ? std::max(bottom, lane.band.bottom()) : bottom;
            }
            group.band.height = bottom - group.band.top;
        }
        layout_.height = static_cast<int>(std::ceil(y_)) + (layout_.compact ? 0 : kLaneGap);
        index(layout_);
    }

    const TimelineStore& store_;
    std::vector<ArrangedLane> arranged_;
    int lowest_;
    std::vector<std::vector<std::uint32_t>> rows_;     // by lane
    std::vector<std::vector<std::uint32_t>> kernels_;  // by lane
    int taskRows_ = 0;                                 // that share the height
    int compactRows_ = 0;                              // that share it in a compact layout
    int fixed_ = 0;                                    // height of gaps, headers and collapsed lanes
    int extras_ = 0;                                   // height of copies and kernels
    double rowHeight_ = 0;
    double y_ = 0;
    TimelineLayout layout_;
};
}  // namespace

TimelineLayout layoutRows(const TimelineStore& store, int available_height, const TimelineStore* kernels, int lowest,
                          const LaneArrangement& arrangement, const RowFit& most) {
    return LanePlacer(store, kernels, std::max(kLowestTaskRow, lowest), arrangement)
        .place(available_height, arrangement.rowHeight, most);
}

int heightOfFewRows(const TimelineStore& store, int lowest, const LaneArrangement& arrangement) {
    return LanePlacer(store, nullptr, std::max(kLowestTaskRow, lowest), arrangement).heightOfFew();
}

TimelineLayout layoutTracks(const TrackStore& tracks, int line, const std::set<std::string>& collapsed) {
    constexpr int kTrackGap = 5;
    constexpr int kCounterLines = 2;
    struct Group {
        std::string name;
        std::vector<std::size_t> threads;
        std::vector<std::uint32_t> counters;
    };
    std::vector<Group> groups;  // a trace may have as many as rows
    std::unordered_map<std::string, std::size_t> places;
    const auto groupOf = [&](const std::string& name) -> Group& {
        const auto [place, isNew] = places.emplace(name, groups.size());
        if (isNew) {
            groups.push_back({name, {}, {}});
        }
        return groups[place->second];
    };
    const std::vector<TrackRows> threads = threadsOf(tracks);
    for (std::size_t thread = 0; thread < threads.size(); ++thread) {
        groupOf(tracks.rows[threads[thread].first].group).threads.push_back(thread);
    }
    for (std::uint32_t counter = 0; counter < tracks.counters.size(); ++counter) {
        groupOf(tracks.counters[counter].group()).counters.push_back(counter);
    }
    TimelineLayout layout;
    int y = kTrackGap;
    const auto take = [&](int height) {  // the last pixel is a gap
        y += height;
        return Band{y - height, height - 1};
    };
    std::size_t lanes = threads.size();
    for (const Group& group : groups) {
        const bool isCollapsed = collapsed.contains(group.name);
        if (groups.size() > 1 && !group.name.empty()) {
            const Band header = take(line + 2);
            layout.groups.push_back({group.name, header, header, isCollapsed});
        }
        for (const std::size_t thread : isCollapsed ? std::vector<std::size_t>() : group.threads) {
            y += thread != group.threads.front() ? kTrackGap : 0;
            LaneBand& lane = layout.lanes.emplace_back();
            lane.lane = LaneId{static_cast<std::int64_t>(thread)};
            for (std::size_t row = threads[thread].first; row < threads[thread].end; ++row) {
                lane.rows.push_back({static_cast<std::uint32_t>(row), take(line)});
            }
        }
        for (const std::uint32_t counter : isCollapsed ? std::vector<std::uint32_t>() : group.counters) {
            y += kTrackGap;
            LaneBand& lane = layout.lanes.emplace_back();
            lane.lane = LaneId{static_cast<std::int64_t>(lanes++)};
            lane.below.push_back({counter, take(kCounterLines * line)});
        }
        y += kTrackGap;
    }
    layout.height = y;
    index(layout);
    return layout;
}

TimelineLayout scrolled(TimelineLayout layout, int by) {
    const auto move = [&](Band& band) {
        const int top = band.top - by;
        if (layout.pinnedHeight == 0) {
            band.top = top;
            return;
        }
        const int bottom = std::max(layout.pinnedHeight, top + band.height);
        band.top = std::max(layout.pinnedHeight, top);
        band.height = bottom - band.top;
    };
    for (LaneBand& lane : layout.lanes) {
        if (lane.pinned) {
            continue;
        }
        move(lane.band);
        for (RowBand& row : lane.rows) {
            move(row.band);
        }
        for (RowBand& row : lane.below) {
            move(row.band);
        }
    }
    for (GroupBand& group : layout.groups) {
        move(group.header);
        move(group.band);
    }
    index(layout);
    return layout;
}

std::optional<RowBand> TimelineLayout::rowAt(int y) const {
    return bandAt(lanes, &LaneBand::rows, y);
}

std::optional<RowBand> TimelineLayout::rowBelowAt(int y) const {
    return bandAt(lanes, &LaneBand::below, y);
}

Band TimelineLayout::bandBelowOf(std::uint32_t row) const {
    for (const LaneBand& lane : lanes) {
        const auto found = std::ranges::find(lane.below, row, &RowBand::row);
        if (found != lane.below.end()) {
            return found->band;
        }
    }
    return {};
}

TimelineLayout layoutBelow(TimelineLayout layout) {
    for (LaneBand& lane : layout.lanes) {
        lane.rows = std::exchange(lane.below, {});
    }
    index(layout);
    return layout;
}

const LaneBand* TimelineLayout::find(LaneId lane) const {
    const int found = lane.value() >= 0 && lane.index() < laneIndex.size() ? laneIndex[lane.index()] : -1;
    return found >= 0 ? &lanes[static_cast<std::size_t>(found)] : nullptr;
}

Band TimelineLayout::bubbleBand(LaneId lane) const {
    const LaneBand* found = find(lane);
    return found == nullptr || found->rows.empty() ? Band{} : found->rows.front().band;
}

std::optional<LaneId> TimelineLayout::laneAt(int y) const {
    const auto found =
        std::find_if(lanes.begin(), lanes.end(), [&](const LaneBand& each) { return each.band.contains(y); });
    return found == lanes.end() ? std::nullopt : std::optional(found->lane);
}

const GroupBand* TimelineLayout::headerAt(int y) const {
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const GroupBand& each) { return each.header.contains(y); });
    return found == groups.end() ? nullptr : &*found;
}
}  // namespace pipescope
