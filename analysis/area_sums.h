#pragma once

#include "analysis/length_figures.h"
#include "analysis/time_range.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipescope {
/// Something that takes time at a place: a task on a lane, a range on a thread, a kernel on a stream.
struct AreaItem {
    std::uint32_t place = 0;
    int depth = 0;  ///< an item of a greater depth lies within the one before, if it ends no later than that one
    std::uint32_t name = 0;
    TimeRange range = {};
    std::uint64_t id = 0;  ///< the caller's
    /// Lies within the one before in any case, such as a kernel that runs after the task that launched it.
    bool belongs = false;
};

/// The items of one name that share time with an area, on all places together or on one. Times in ns.
struct NameInArea {
    std::uint32_t name = 0;
    std::optional<std::uint32_t> place;  ///< empty: all of them
    LengthFigures lengths;               ///< of whole items, including parts outside the area
    std::int64_t inside = 0;             ///< time within the area. On a place, time of several items counts once
    std::int64_t self = 0;               ///< that time, without the items directly within
    std::uint64_t longest = 0;           ///< id of the longest item, the first one in case of a tie
};

/// The items of one name within the same outer ones. Times within the area, in ns; that of several items counts once.
struct CallInArea {
    std::uint32_t name = 0;  ///< of the items, or the place, if there is no outer call
    std::optional<std::size_t> outer;
    std::int64_t count = 0;
    std::int64_t inside = 0;
    std::int64_t self = 0;
    std::uint64_t longest = 0;
};

struct AreaSums {
    std::vector<NameInArea> names;  ///< by name, first all places, then each by its number
    std::vector<CallInArea> calls;  ///< an outer call stands before those within. One without an outer call is a place
};

/// Adds up what happened in an area of a timeline: a range of time on all places. A value.
class AreaSumming {
public:
    explicit AreaSumming(const TimeRange& area) : area_(area) {}

    /// The items of a place come one after the other, by start, an outer item before those within. Leaves out an item
    /// that shares no time with the area. The time of an item that comes later than by its start counts in any case.
    void add(const AreaItem& item);
    AreaSums sums();

private:
    /// The last start and the latest end of items whose time was counted.
    struct Counted {
        std::int64_t start = INT64_MIN;
        std::int64_t end = INT64_MIN;
    };
    struct Group {
        std::vector<std::int64_t> lengths;
        std::int64_t inside = 0;
        std::int64_t self = 0;
        Counted counted;
        std::int64_t most = -1;
        std::uint64_t longest = 0;
    };
    struct Open {
        int depth;
        std::int64_t end;
        std::int64_t covered;  // until this time, by the items within, or counted before
        std::size_t call;
        Group* group;
    };
    static void take(Group& group, std::int64_t length, std::uint64_t id);
    static NameInArea named(std::uint32_t name, std::optional<std::uint32_t> place, Group& group);
    /// Start of the part that was not counted before.
    static std::int64_t take_new(Counted& counted, const TimeRange& part);
    std::size_t call_of(std::optional<std::size_t> outer, std::uint32_t name);

    TimeRange area_;
    std::unordered_map<std::uint64_t, Group> groups_;  // by name and place
    std::vector<CallInArea> calls_;
    std::vector<std::int64_t> most_;                            // length of the longest item, by call
    std::vector<Counted> counted_;                              // by call
    std::unordered_map<std::uint64_t, std::size_t> numbers_;    // of calls, by outer call and name
    std::vector<Open> open_;                                    // the items around the next one
    std::optional<std::pair<std::uint32_t, std::size_t>> own_;  // the place of open_, and its call
};

/// The lengths from `from` to before `to`.
struct LengthBin {
    std::int64_t from = 0;
    std::int64_t to = 0;
    std::int64_t count = 0;
    std::int64_t inside = 0;  ///< those of the items that share time with the area
};
struct MeasuredLength {
    std::int64_t length = 0;
    bool is_inside = false;
};
/// Bins with round borders from the shortest to the longest length: at most about 40 of equal width, or, if the longest
/// is more than 20 times the shortest, about 10 for each power of ten. Empty without lengths.
std::vector<LengthBin> length_bins(const std::vector<MeasuredLength>& lengths);
}  // namespace pipescope
