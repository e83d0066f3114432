#pragma once

#include "gui/timeline/timeline_store.h"

#include <span>
#include <vector>

namespace pipescope {
/// Collects slices in any order, directly into the columns of a TimelineStore. A copy of a builder is a snapshot: it
/// can be finished while the original continues. Threading: one thread at a time; several builders can be filled in
/// parallel and joined.
class TimelineStoreBuilder {
public:
    TimelineStoreBuilder(Source source, std::vector<LaneInfo> lanes);

    void add(const Slice& slice);
    void add(std::span<const Slice> slices);
    /// Appends the slices of `later`.
    void join(TimelineStoreBuilder&& later);
    std::size_t size() const { return size_; }

    /// Sorts slices, gives overlapping ones separate rows, and builds the indexes, lane by lane on all cores. Leaves
    /// the builder empty. `update`: how lanes updated, which says what a step is.
    TimelineStore finish(Update update = Update::synchronous);

private:
    /// Slices of a lane's tasks or copies, in order of arrival.
    struct Columns : StoredRow {
        bool sorted = true;  // by start, without overlap

        void add(const Slice& slice);
        void join(Columns&& later);
    };
    struct Lane {
        Columns tasks;
        Columns copies;
    };
    struct Finished {
        std::vector<StoredRow> rows;
        std::vector<std::int32_t> partitions;  // ascending
        std::size_t hidden = 0;
    };
    static void split(Columns&& columns, Finished& finished);
    static Finished finishLane(Lane&& lane, LaneId id);

    Source source_;
    std::vector<LaneInfo> names_;
    std::vector<Lane> lanes_;
    std::size_t size_ = 0;
    std::size_t hidden_ = 0;  // slices of invalid lanes
};
}  // namespace pipescope
