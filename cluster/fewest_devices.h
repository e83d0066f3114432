#pragma once

#include "cluster/layout.h"

#include <optional>

namespace pipescope {
/// The fewest devices of one type, above that number, on which some layout of the model keeps the memory limit, and
/// that layout's step. The cluster is taken to have as many nodes as that needs. `like` gives batch, dtype, gradient
/// bytes and bucket, sends and dispatch. Tries 5/4, 3/2, 7/4 and 2 times the powers of two up to 64 times the number,
/// with one sample a micro-batch, full recompute and ZeRO 3. Empty if none fits.
std::optional<LayoutStep> fewest_devices(const LanguageModel& model, const Cluster& cluster, const Layout& like,
                                         int above);
}  // namespace pipescope
