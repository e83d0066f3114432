#include "tests/gui/sample_trace.h"

#include "analysis/stored_simulation.h"
#include "cluster/language_model.h"
#include "cluster/layout.h"
#include "cluster/step_parts.h"
#include "hardware/cluster.h"
#include "hardware/device_catalogue.h"

#include <QTemporaryDir>

namespace pipescope {
std::filesystem::path temporaryPath(const std::string& name) {
    static const QTemporaryDir folder;
    return std::filesystem::path(folder.path().toStdString()) / name;
}

LayoutStep clusterStep(const Layout& layout) {
    const Cluster cluster = parse_cluster(
        R"({"format": "pipescope.cluster", "version": 1, "name": "c", "nodes": [{"device": "A100", "count": 4,
            "devices": 8}], "between_nodes": {"bytes_per_second": 25000000000, "latency_ns": 5000}})",
        device_catalogue());
    return simulate_layout(parse_language_model("gpt:layers=4,hidden=1024,heads=16,sequence=1024,vocabulary=51200"),
                           cluster, cluster.groups.front(), layout);
}

LayoutStep writeClusterTrace(const std::filesystem::path& path) {
    LayoutStep step = clusterStep({.pipeline = 2, .data = 2, .tensor = 4, .batch = 16, .recompute = Recompute::full});
    write_simulation(path, *step.profile, step.simulation, step_on_cluster(step));
    return step;
}
}  // namespace pipescope
