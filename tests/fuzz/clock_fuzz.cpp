// The input chooses a schedule, its shape and times. The recurrence and the event engine must agree where nothing is
// shared, and the order must survive as a table.

#include "schedule/schedule_table.h"
#include "simulator/clock/task_clock.h"
#include "tests/fuzz/fuzzed_random.h"
#include "tests/simulator/clock/random_graph.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    FuzzedRandom random(data, size);
    const TaskGraph graph = random_graph(random);
    const std::vector<double> durations = random_durations(random, graph.tasks().size());
    std::vector<double> expected(durations.size()), starts(durations.size()), ends(durations.size());
    TaskClock(graph).run(durations, expected);
    EventEngine(graph, nothing_shared(graph)).run(durations, starts, ends);
    for (std::size_t task = 0; task < ends.size(); ++task) {
        const double tolerance = 1e-9 * (1 + expected[task]);
        if (!(std::abs(ends[task] - expected[task]) <= tolerance) ||
            !(std::abs(starts[task] - (expected[task] - durations[task])) <= tolerance)) {
            std::abort();
        }
    }
    const ScheduleTable table = schedule_table(graph);
    if (!(parse_schedule_csv(to_csv(table)) == table)) {
        std::abort();
    }
    return 0;
}
