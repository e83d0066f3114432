#pragma once

#include "simulator/simulation.h"

#include <QString>

#include <vector>

namespace pipescope {
/// How far the lanes of a simulated pipeline are from each other. Threading: a plain value.
struct LinkTiers {
    struct Tier {
        QString name;   ///< "copies between nodes"; by speed if it is not known where the links lie
        QString about;  ///< speeds and latencies of its links, a line each
        int color = 0;  ///< for tierColor(): the same for links of one place in all pipelines
    };
    std::vector<Tier> tiers;       ///< of the links that partitions use, the nearest first
    std::vector<int> ofPartition;  ///< by partition but the last: index of its link's tier; -1: no link is needed

    bool empty() const { return tiers.empty(); }
    /// By partition: the colour of its copies; -1: none.
    std::vector<int> colors() const;
};
/// Empty unless the pipeline's links lie on a cluster, or differ.
LinkTiers linkTiers(const PipelineOptions& options);
}  // namespace pipescope
