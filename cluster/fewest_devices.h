#pragma once

#include "cluster/layout.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
using PlacedLayouts = std::vector<std::pair<Layout, PipelineParts>>;
/// The layouts with the least memory that a plan tries on that many devices of the group.
using LayoutsOn = std::function<PlacedLayouts(const NodeGroup& group, int devices)>;

/// The step of the first of these layouts that keeps the memory limit, if any. Skips pipelines whose simulation takes
/// more than a second.
std::optional<LayoutStep> first_that_fits(const LanguageModel& model, const Cluster& cluster,
                                          const PlacedLayouts& layouts);

/// The smallest number of devices of one type, above `above`, on which one of these layouts keeps the memory limit,
/// with that layout's step. Assumes a cluster with as many nodes as needed. Tries 5/4, 3/2, 7/4 and 2 times the powers
/// of two up to 64 times the number. Empty if none fits.
std::optional<LayoutStep> fewest_devices(const LanguageModel& model, const Cluster& cluster,
                                         const LayoutsOn& layouts_on, int above);
}  // namespace pipescope
