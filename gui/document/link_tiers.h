#pragma once

#include "simulator/simulation.h"

#include <QString>

#include <vector>

namespace pipescope {
/// How far the lanes of a simulated pipeline are from each other. Threading: a plain value.
struct LinkTiers {
    std::vector<QString> names;    ///< of the different links that partitions use, the quickest first
    std::vector<int> ofPartition;  ///< by partition but the last: index of its link to the next one; -1: none is needed

    bool empty() const { return names.empty(); }
};
/// Empty unless the pipeline's hardware has links that differ, as on a cluster.
LinkTiers linkTiers(const PipelineOptions& options);
}  // namespace pipescope
