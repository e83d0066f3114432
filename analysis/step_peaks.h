#pragma once

#include "analysis/time_range.h"
#include "schedule/timeline.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// The largest number of bytes in the sample, whoever wrote it.
inline Bytes peak_of(const MemorySample& sample) {
    return std::max(sample.peak, sample.allocated);
}

struct MeasuredPeak {
    Bytes bytes = 0;
    MemoryBreakdown composition = {};  ///< all unknown unless a sample was taken at the instant of the peak
};

/// The peak of each lane: its highest sample within the steps, including both `start` and `end`. Ignores samples
/// between steps, and with them an optimizer's scratch memory. Empty for a lane without a sample in the steps. Steps
/// may overlap.
std::vector<std::optional<MeasuredPeak>> measured_peaks(std::span<const MemorySample> samples,
                                                        std::vector<TimeRange> steps, std::size_t num_lanes);

/// The bytes of these peaks, from any storage of the samples: a list, or columns to draw.
using StepPeaks =
    std::function<std::vector<std::optional<Bytes>>(const std::vector<TimeRange>& steps, std::size_t num_lanes)>;
/// Uses measured_peaks(). Refers to the samples.
StepPeaks peaks_of(std::span<const MemorySample> samples);
}  // namespace pipescope
