#pragma once

#include "schedule/memory_category.h"
#include "schedule/timeline.h"
#include "simulator/memory_model.h"
#include "simulator/partition_memory.h"

#include <array>
#include <span>
#include <vector>

namespace pipescope {
/// A part of a running task: what it needs at most beyond what the lane holds, until `until`.
struct WorkSpan {
    Nanoseconds until{0};
    WorkPeak work;
};

/// What one lane holds while the simulated step goes on, and the highest it ever held.
/// A span's work may peak at any instant of it, so it counts with all that is held at some instant of it.
/// Precondition: time does not run backward. Invariant: the peak is at least held() at every instant so far, and what
/// a span's work adds to it once the span is over.
class LaneLedger {
public:
    void add(MemoryCategory category, Bytes bytes, Nanoseconds now);
    void remove(MemoryCategory category, Bytes bytes, Nanoseconds now) { add(category, -bytes, now); }
    /// A task starts that goes through these spans, in order; `gradient` of their work is charged to that category.
    void start_work(std::span<const WorkSpan> spans, MemoryCategory gradient, Nanoseconds now);
    void end_work();

    Bytes held() const { return total_; }
    /// What held() consists of.
    MemoryBreakdown composition() const;
    /// Highest since the last call, or the start; at least what is held now. A span that goes on counts again.
    Bytes take_peak();
    LaneMemoryUse use() const;

private:
    using Categories = std::array<Bytes, kNumMemoryCategories>;
    void pass_to(Nanoseconds now);
    void look();

    Categories held_{};
    Bytes total_ = 0;              // of held_
    std::vector<WorkSpan> spans_;  // of the running task; none while none runs
    std::size_t current_ = 0;      // of spans_
    MemoryCategory gradient_ = MemoryCategory::copy;
    Nanoseconds since_{0};  // the current span began, or something changed in it
    Categories peak_{};
    Bytes peak_bytes_ = -1;
    Nanoseconds peak_time_{0};
    Bytes peak_since_sample_ = 0;
};
}  // namespace pipescope
