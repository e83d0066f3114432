#pragma once

#include "profiler/profile/profile.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// Computes how much lanes slow each other down, from passes over the same layers with some and with all lanes busy.
/// Each pass with fewer lanes is compared to the full one right before it, so that a slow moment of the machine affects
/// both.
class LaneSlowdown {
public:
    /// `lanes` includes the measured one; at least 1.
    explicit LaneSlowdown(int lanes) : ratios_(static_cast<std::size_t>(lanes > 1 ? lanes - 1 : 0)) {}

    /// Number of busy lanes for the next pass: 1, 2, .. and then again from 1.
    int next_busy() const { return static_cast<int>(added_ % ratios_.size()) + 1; }
    /// Adds a pass that took `some_ns`; the previous one, with all lanes busy, took `all_ns`.
    void add(double some_ns, double all_ns);

    /// Entry k: the time of a layer with k + 1 busy lanes divided by its time with one, by medians. Never below 1 or
    /// the previous entry: lanes do not speed each other up, so a lower value is noise. Interpolates numbers of lanes
    /// without a pass. Empty without a pass with one busy lane.
    PerLane slowdown() const;

private:
    std::vector<std::vector<double>> ratios_;  // by busy lanes, minus one: some_ns / all_ns
    std::size_t added_ = 0;
};
}  // namespace pipescope
