#include "cli/simulated_trace.h"

#include "analysis/recorded_run.h"
#include "balance/profile_file.h"
#include "cli/output_file.h"
#include "trace/pipeline_json.h"
#include "trace/trace_writer.h"

#include <nlohmann/json.hpp>

namespace pipescope {
namespace {
void write_simulation(const std::filesystem::path& path, const Profile& profile, const Simulation& simulation) {
    TraceWriter writer(path, IfExists::replace);
    writer.set_run("model", nlohmann::json(profile.model).dump());
    writer.set_run("configuration", to_json(simulation.options));
    if (const auto graph = pipeline_graph_of(profile, simulation.options)) {
        writer.set_run("pipeline", pipeline_json(*graph));
    }
    writer.set_lanes(simulation.timeline.lanes);
    writer.set_profile(to_json(profile));
    writer.add_timeline(simulation.timeline);
    for (const MemorySample& sample : simulation.memory) {
        writer.add_memory(sample);
    }
    writer.close();
}
}  // namespace

void write_simulated_trace(const std::filesystem::path& path, bool force, const Profile& profile,
                           const Simulation& simulation) {
    replace_output(path, force,
                   [&](const std::filesystem::path& beside) { write_simulation(beside, profile, simulation); });
}
}  // namespace pipescope
