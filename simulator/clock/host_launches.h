#pragma once

#include "profiler/profile/profile.h"
#include "schedule/task_graph.h"
#include "simulator/pipeline_options.h"

#include <optional>
#include <vector>

namespace pipescope {
/// When hosts launch the tasks of a step, in ns since the step's start. Entries are by task of the graph.
///
/// Idea: a host launches its lane's tasks in their order and waits for nothing, so the launches do not depend on what
/// devices do. A device that gets kernel k at l_k, and needs d_k for it, ends a task at the largest of two times: its
/// start plus all d, and l_k + d_k + d_k+1 + .. over all k. The second is `launched` + `paced`. It makes no difference
/// if a task rather starts later by what `paced` exceeds its duration.
///
/// A host begins a step once its device has done the last one, so in a row of equal steps those of lanes that end
/// earlier begin earlier. The step starts when the host of the first partition launches.
struct HostLaunches {
    std::vector<double> launched;  ///< no task starts sooner
    std::vector<double> paced;     ///< no task ends sooner after its launch; 0 for copies
};

/// Empty if no layer of the profile has launches, and if a limit of micro-batches in flight, a send or the other half
/// of a bidirectional pipeline holds up tasks, too. Several layers of one partition are launched as one task. A copy is
/// launched by both hosts; one within a device by none. Preconditions: as of shared_resources().
std::optional<HostLaunches> host_launches(const Profile& profile, const PipelineOptions& options,
                                          const TaskGraph& graph);
}  // namespace pipescope
