#pragma once

#include "engine/processes/processes.h"
#include "hardware/hardware.h"

#include <memory>
#include <vector>

namespace pipescope {
/// Messages of one size between rank 0 and the slowest other rank.
struct LinkSample {
    LinkTime time;        ///< medians
    double least_ns = 0;  ///< smallest of all messages
};

/// Collective: measures messages of 1 KiB to 16 MiB between rank 0 and each other rank in turn, over connections such
/// as the engine's, with receives posted ahead. Rank 0 gets the samples, by size; the others get none. Times never
/// decrease with size: if noise puts a time below a smaller message's, it is raised to that. Precondition: at least two
/// processes. Throws ProcessError.
std::vector<LinkSample> profile_links(const std::shared_ptr<Processes>& processes);
}  // namespace pipescope
