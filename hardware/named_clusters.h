#pragma once

#include <string_view>
#include <vector>

namespace pipescope {

/// A cluster built into every program.
struct NamedCluster {
    std::string_view name;
    std::string_view json;  ///< the text of a cluster file
};

/// The clusters of examples/clusters/, in the order of their names.
const std::vector<NamedCluster>& named_clusters();

}  // namespace pipescope
