#pragma once

#include "balance/profile.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// Works out by how much lanes slow each other down, from passes over the same layers with some lanes and with all of
/// them busy. Each pass with fewer is held against one with all that ran right before it, so that a slow moment of the
/// machine falls on both.
class LaneSlowdown {
public:
    /// The measured one included; at least 1.
    explicit LaneSlowdown(int lanes) : ratios_(static_cast<std::size_t>(lanes > 1 ? lanes - 1 : 0)) {}

    /// With how many lanes busy the next pass is wanted: 1, 2, .. in turn.
    int next_busy() const { return static_cast<int>(added_ % ratios_.size()) + 1; }
    /// That pass took `some_ns`, and the one before it, with all busy, `all_ns`.
    void add(double some_ns, double all_ns);

    /// Entry k: how many times as long a layer takes with k + 1 lanes busy as with one, by medians. Never below 1 nor
    /// below the entry before: lanes do not quicken each other, and what looks so is noise. Numbers of lanes that had
    /// no pass lie on the line between their neighbours. Empty without a pass with one lane busy.
    PerLane slowdown() const;

private:
    std::vector<std::vector<double>> ratios_;  // by lanes busy, less one: some_ns / all_ns
    std::size_t added_ = 0;
};
}  // namespace pipescope
