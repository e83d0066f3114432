#pragma once

#include "gui/timeline/timeline_store.h"

#include <span>
#include <vector>

namespace pipescope {
/// Takes slices in any order, straight into the columns that a TimelineStore is made of. A copy of a builder is a
/// snapshot: it can be finished while the original goes on.
/// Threading: one thread at a time; several builders may be filled at once and joined.
class TimelineStoreBuilder {
public:
    TimelineStoreBuilder(Source source, std::vector<LaneInfo> lanes);

    void add(const Slice& slice);
    void add(std::span<const Slice> slices);
    /// What `later` took comes after what this one has.
    void join(TimelineStoreBuilder&& later);
    std::size_t size() const { return size_; }

    /// Sorts what is not sorted, gives overlapping slices rows of their own, and builds the indexes, lane by lane on
    /// every core. The builder is empty afterwards.
    TimelineStore finish();

private:
    /// The slices of a lane's tasks, or of its copies, in the order they came in.
    struct Columns {
        std::vector<std::int64_t> start;
        std::vector<std::int64_t> end;
        std::vector<std::uint8_t> kind;
        std::vector<std::uint64_t> key;
        std::vector<std::int64_t> bytes;  // empty while all are 0
        bool sorted = true;               // by start, none overlapping

        void add(const Slice& slice);
        void join(Columns&& later);
    };
    struct Lane {
        Columns tasks;
        Columns copies;
    };
    struct Finished {
        std::vector<StoredRow> rows;
        std::size_t hidden = 0;
    };
    static void split(Columns&& columns, LaneId lane, bool copies, Finished& finished);
    static Finished finishLane(Lane&& lane, LaneId id);

    Source source_;
    std::vector<LaneInfo> names_;
    std::vector<Lane> lanes_;
    std::size_t size_ = 0;
    std::size_t hidden_ = 0;  // of impossible lanes
};
}  // namespace pipescope
