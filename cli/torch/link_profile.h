#pragma once

#include "engine/processes/processes.h"
#include "hardware/hardware.h"

#include <memory>
#include <vector>

namespace pipescope {
/// Messages of one size between rank 0 and the slowest other rank.
struct LinkSample {
    LinkTime time;        ///< medians
    double least_ns = 0;  ///< of all messages
};

/// Collective: measures messages of 1 KiB to 16 MiB over connections such as the engine's, between rank 0 and each
/// other rank in turn. Receives are posted ahead. Rank 0 gets the samples, by size; the others get none. Times never
/// fall as sizes grow: one that noise put below that of a smaller message is raised to it. Throws ProcessError.
/// Precondition: two processes or more.
std::vector<LinkSample> profile_links(const std::shared_ptr<Processes>& processes);
}  // namespace pipescope
