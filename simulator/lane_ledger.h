#pragma once

#include "schedule/memory_category.h"
#include "schedule/timeline.h"
#include "simulator/memory_model.h"
#include "simulator/partition_memory.h"

#include <array>
#include <optional>

namespace pipescope {
/// What one lane holds while the simulated step goes on, and the highest it ever held.
/// Invariant: peak() is at least held() plus the running task's work at every instant so far.
class LaneLedger {
public:
    void add(MemoryCategory category, Bytes bytes, Nanoseconds now);
    void remove(MemoryCategory category, Bytes bytes) { held_[static_cast<std::size_t>(category)] -= bytes; }
    /// A task starts that needs this much more while it runs; `gradient` of it is charged to the given category.
    void start_work(const WorkPeak& work, MemoryCategory gradient, Nanoseconds now);
    void end_work() { work_.reset(); }

    Bytes held() const;
    /// What held() consists of.
    MemoryBreakdown composition() const;
    /// Highest since the last call, or the start; at least what is held now.
    Bytes take_peak();
    LaneMemoryUse use() const;

private:
    using Categories = std::array<Bytes, kNumMemoryCategories>;
    static Bytes total(const Categories& categories);
    void look(Nanoseconds now);

    Categories held_{};
    std::optional<Categories> work_;
    Categories peak_{};
    Bytes peak_bytes_ = -1;
    Nanoseconds peak_time_{0};
    Bytes peak_since_sample_ = 0;
};
}  // namespace pipescope
