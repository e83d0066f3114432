#pragma once

#include "cluster/layout.h"

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
using PlacedLayouts = std::vector<std::pair<Layout, PipelineParts>>;
/// The layouts on that many devices of the group that a plan tries and that hold least.
using LayoutsOn = std::function<PlacedLayouts(const NodeGroup& group, int devices)>;

/// The step of the first of these layouts that keeps the memory limit, if one does. Leaves out pipelines whose
/// simulation takes more than a second.
std::optional<LayoutStep> first_that_fits(const LanguageModel& model, const Cluster& cluster,
                                          const PlacedLayouts& layouts);

/// The fewest devices of one type, above that number, on which one of these layouts keeps the memory limit, and that
/// layout's step. The cluster is taken to have as many nodes as that needs. Tries 5/4, 3/2, 7/4 and 2 times the powers
/// of two up to 64 times the number. Empty if none fits.
std::optional<LayoutStep> fewest_devices(const LanguageModel& model, const Cluster& cluster,
                                         const LayoutsOn& layouts_on, int above);
}  // namespace pipescope
