#include "analysis/step_peaks.h"

namespace pipescope {
namespace {
/// Joins overlapping steps, in order of time.
std::vector<TimeRange> apart(std::vector<TimeRange> steps) {
    std::ranges::sort(steps, {}, &TimeRange::start);
    std::vector<TimeRange> joined;
    for (const TimeRange& step : steps) {
        if (!joined.empty() && step.start <= joined.back().end) {
            joined.back().end = std::max(joined.back().end, step.end);
        } else {
            joined.push_back(step);
        }
    }
    return joined;
}
}  // namespace

std::vector<std::optional<MeasuredPeak>> measured_peaks(std::span<const MemorySample> samples,
                                                        std::vector<TimeRange> steps, std::size_t num_lanes) {
    const std::vector<TimeRange> ranges = apart(std::move(steps));
    std::vector<std::optional<MeasuredPeak>> peaks(num_lanes);
    for (const MemorySample& sample : samples) {
        const std::int64_t time = sample.time.count();
        const auto step = std::ranges::lower_bound(ranges, time, {}, &TimeRange::end);
        if (step == ranges.end() || time < step->start || sample.lane.index() >= num_lanes) {
            continue;
        }
        std::optional<MeasuredPeak>& peak = peaks[sample.lane.index()];
        if (!peak || peak_of(sample) > peak->bytes) {
            const bool at_peak = sample.allocated == peak_of(sample);
            peak = MeasuredPeak{peak_of(sample), at_peak ? sample.composition : MemoryBreakdown{}};
        }
    }
    return peaks;
}

StepPeaks peaks_of(std::span<const MemorySample> samples) {
    return [samples](const std::vector<TimeRange>& steps, std::size_t num_lanes) {
        std::vector<std::optional<Bytes>> bytes;
        for (const std::optional<MeasuredPeak>& peak : measured_peaks(samples, steps, num_lanes)) {
            bytes.push_back(peak ? std::optional(peak->bytes) : std::nullopt);
        }
        return bytes;
    };
}
}  // namespace pipescope
