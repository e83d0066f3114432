#pragma once

#include "schedule/memory_category.h"
#include "schedule/timeline.h"
#include "simulator/memory/memory_model.h"
#include "simulator/memory/task_work.h"

#include <array>
#include <span>
#include <vector>

namespace pipescope {
/// A part of a running task: its peak need beyond what the lane holds, until `until`.
struct WorkSpan {
    Nanoseconds until{0};
    WorkPeak work;
};

/// Tracks the bytes that one lane holds during the simulated step, and their peak.
/// A span's work may peak at any instant of the span, so it is added to the lane's highest level in it.
/// Precondition: time does not run backward. Invariant: the peak is at least held() at every instant so far, plus a
/// span's work once the span is over.
class LaneLedger {
public:
    void add(MemoryCategory category, Bytes bytes, Nanoseconds now);
    void remove(MemoryCategory category, Bytes bytes, Nanoseconds now) { add(category, -bytes, now); }
    /// Starts a task that goes through these spans in order; charges `gradient` of their work to that category.
    void start_work(std::span<const WorkSpan> spans, MemoryCategory gradient);
    void end_work();

    Bytes held() const { return total_; }
    /// held() by category.
    MemoryBreakdown composition() const;
    /// Returns the peak since the last call, or since the start; at least held(). A span still running counts again.
    Bytes take_peak();
    LaneMemoryUse use() const;

private:
    using Categories = std::array<Bytes, kNumMemoryCategories>;
    void pass_to(Nanoseconds now);
    void look();

    Categories held_{};
    Bytes total_ = 0;              // sum of held_
    std::vector<WorkSpan> spans_;  // of the running task; empty if none runs
    std::size_t current_ = 0;      // index in spans_
    MemoryCategory gradient_ = MemoryCategory::copy;
    Categories peak_{};
    Bytes peak_bytes_ = -1;
    Bytes peak_since_sample_ = 0;
};
}  // namespace pipescope
