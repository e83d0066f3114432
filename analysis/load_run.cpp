#include "analysis/load_run.h"

#include "analysis/trace_profile.h"

#include <algorithm>
#include <utility>

namespace pipescope {
LoadedRun load_run(const std::filesystem::path& path, const OpenOptions& what) {
    return load_run(open_trace(path, what));
}

LoadedRun load_run(OpenedTrace trace) {
    LoadedRun loaded;
    loaded.trace = std::move(trace);
    RecordedRun& run = loaded.run = recorded_run(loaded.trace);
    const Timeline& tasks = loaded.timeline();
    if (run.of_another_program && !loaded.is_simulated()) {
        take_measured_profile(run, tasks, whole_steps(run, tasks));  // its pipeline determines which steps are whole
    }
    std::int32_t highest = -1;
    for (const Slice& slice : tasks.slices) {
        highest = std::max(highest, slice.key.partition);
    }
    warn_of_partition(run, highest);
    loaded.check = check_run(run, tasks);
    loaded.steps = whole_steps(run, tasks, loaded.check);
    return loaded;
}
}  // namespace pipescope
