#include "simulator/memory/lane_ledger.h"

#include <algorithm>
#include <utility>

namespace pipescope {
void LaneLedger::add(MemoryCategory category, Bytes bytes, Nanoseconds now) {
    pass_to(now);
    if (bytes < 0) {
        look();  // before the bytes go, since less is held afterwards
    }
    held_[static_cast<std::size_t>(category)] += bytes;
    total_ += bytes;
    if (bytes >= 0) {
        look();
    }
}

void LaneLedger::start_work(std::span<const WorkSpan> spans, MemoryCategory gradient) {
    spans_.assign(spans.begin(), spans.end());
    current_ = 0;
    gradient_ = gradient;
    look();
}

void LaneLedger::end_work() {
    for (; current_ < spans_.size(); ++current_) {
        look();
    }
    spans_.clear();
    current_ = 0;
}

/// Records the spans that ended before `now`.
void LaneLedger::pass_to(Nanoseconds now) {
    while (current_ < spans_.size() && spans_[current_].until < now) {
        look();
        ++current_;
    }
}

void LaneLedger::look() {
    const bool works = current_ < spans_.size() && spans_[current_].work.total() > 0;
    const Bytes bytes = total_ + (works ? spans_[current_].work.total() : 0);
    peak_since_sample_ = std::max(peak_since_sample_, bytes);
    if (bytes <= peak_bytes_) {
        return;
    }
    peak_bytes_ = bytes;
    peak_ = held_;
    if (works) {
        const WorkPeak& work = spans_[current_].work;
        const auto charge = [&](MemoryCategory category, Bytes more) {
            peak_[static_cast<std::size_t>(category)] += more;
        };
        charge(MemoryCategory::boundary, work.boundary);
        charge(MemoryCategory::saved, work.saved);
        charge(gradient_, work.gradient);
        charge(MemoryCategory::transient, work.transient);
        charge(MemoryCategory::skip, work.skip);
    }
}

MemoryBreakdown LaneLedger::composition() const {
    MemoryBreakdown breakdown;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        breakdown[static_cast<MemoryCategory>(k)] = held_[k];
    }
    return breakdown;
}

Bytes LaneLedger::take_peak() {
    return std::exchange(peak_since_sample_, held());
}

LaneMemoryUse LaneLedger::use() const {
    LaneMemoryUse use{std::max<Bytes>(peak_bytes_, 0), {}};
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        use.peak[static_cast<MemoryCategory>(k)] = peak_[k];
    }
    return use;
}
}  // namespace pipescope
