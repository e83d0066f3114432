#include "analysis/compared_bubbles.h"

#include "analysis/stored_simulation.h"
#include "base/sample_statistics.h"

#include <algorithm>
#include <map>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kMostListed = 10;

std::optional<TaskKey> key_of(const StepGraph& tasks, StepTaskIndex index) {
    return index == kNoTask ? std::nullopt : std::optional(tasks.task(index).key);
}

void list_largest(const StepGraph& tasks, std::vector<Bubble> bubbles, BubbleReport& report) {
    std::stable_sort(bubbles.begin(), bubbles.end(),
                     [](const Bubble& a, const Bubble& b) { return a.length() > b.length(); });
    bubbles.resize(std::min(bubbles.size(), kMostListed));
    for (const Bubble& each : bubbles) {
        report.largest.push_back(listed(each, tasks));
    }
}

void add_sums(const BubbleSums& sums, std::size_t steps, std::array<double, kNumBubbleCauses>& ns,
              BubbleReport& report) {
    for (std::size_t cause = 0; cause < sums.ns.size(); ++cause) {
        ns[cause] += static_cast<double>(sums.ns[cause]) / static_cast<double>(steps);
        report.causes[cause].share += sums.share(sums.ns[cause]) / static_cast<double>(steps);
        report.causes[cause].time = Nanoseconds{static_cast<std::int64_t>(ns[cause] + 0.5)};
    }
}

/// `staggered`: the number of the step, if updates are staggered.
StepGraph graph_of(const Timeline& step, const StepStatistics& statistics,
                   const std::shared_ptr<const TaskGraph>& graph,
                   std::optional<std::int32_t> staggered = std::nullopt) {
    return step_graph_of(step, {statistics.start.count(), statistics.end.count()}, graph, staggered);
}

/// The tasks of each compared step; with staggered updates also the tasks of steps that overlap it.
std::map<std::int32_t, Timeline> tasks_within(const Measured& measured) {
    if (measured.update == Update::synchronous) {
        return compared_tasks(measured);
    }
    Measured all{measured.timeline, measured.peaks, steps_of(measured.timeline), {}, measured.update};
    const std::map<std::int32_t, Timeline> tasks = compared_tasks(all);
    std::map<std::int32_t, Timeline> within;
    for (const std::int32_t step : measured.steps) {
        Timeline& around =
            within.emplace(step, Timeline{measured.timeline.source, measured.timeline.lanes, {}}).first->second;
        for (const std::int32_t each : {step - 1, step, step + 1}) {
            if (const auto found = tasks.find(each); found != tasks.end()) {
                around.slices.insert(around.slices.end(), found->second.slices.begin(), found->second.slices.end());
            }
        }
    }
    return within;
}
}  // namespace

ListedBubble listed(const Bubble& bubble, const StepGraph& tasks) {
    BubbleSums step;
    step.whole = tasks.range().length() * static_cast<std::int64_t>(tasks.num_lanes());
    return {bubble.lane,
            Nanoseconds{bubble.start - tasks.range().start},
            Nanoseconds{bubble.length()},
            step.share(bubble.length()),
            bubble.cause,
            key_of(tasks, bubble.culprit),
            key_of(tasks, bubble.next)};
}

double BubbleReport::total() const {
    double sum = 0;
    for (const BubblesOfCause& each : causes) {
        sum += each.share;
    }
    return sum;
}

BubbleReport bubble_report(const Measured& measured, const std::shared_ptr<const TaskGraph>& graph, Sends sends,
                           const TaskLaunches& launches) {
    BubbleReport report;
    const std::map<std::int32_t, Timeline> steps = tasks_within(measured);
    const std::map<std::int32_t, StepStatistics> statistics = statistics_of(measured);
    const bool is_staggered = measured.update == Update::staggered;
    std::vector<std::pair<std::int64_t, std::int32_t>> lengths;
    lengths.reserve(steps.size());
    for (const auto& [step, each] : statistics) {
        lengths.emplace_back(each.step_time().count(), step);
    }
    report.step = median_element(lengths).second;  // the viewer shows this step first
    std::array<double, kNumBubbleCauses> ns{};
    for (const auto& [step, timeline] : steps) {
        const StepGraph tasks =
            graph_of(timeline, statistics.at(step), graph, is_staggered ? std::optional(step) : std::nullopt);
        std::vector<Bubble> bubbles = bubbles_of(tasks, sends, launches);
        const BubbleSums sums = sum_bubbles(tasks, bubbles);
        report.idle_by_step[step] = sums.total();
        add_sums(sums, steps.size(), ns, report);
        if (step == report.step) {
            list_largest(tasks, std::move(bubbles), report);
        }
    }
    return report;
}

ComparedBubbles compare_bubbles(const Measured& measured, const Simulation& simulation,
                                std::shared_ptr<const TaskGraph> graph,
                                std::shared_ptr<const TaskGraph> simulated_graph, const TaskLaunches& launches) {
    ComparedBubbles compared{bubble_report(measured, graph, Sends::overlapped, launches), {}};
    std::array<double, kNumBubbleCauses> ns{};
    const bool is_staggered = simulation.options.update == Update::staggered;
    const StepGraph tasks = graph_of(simulation.timeline, one_step_statistics(simulation), simulated_graph,
                                     is_staggered ? std::optional(simulation.step) : std::nullopt);
    std::vector<Bubble> bubbles = bubbles_of(tasks, simulation.options.hardware.link.sends);
    add_sums(sum_bubbles(tasks, bubbles), 1, ns, compared.simulated);
    const bool is_named = is_staggered || simulation.timeline.slices.empty();
    compared.simulated.step = is_named ? simulation.step : simulation.timeline.slices.front().key.step;
    list_largest(tasks, std::move(bubbles), compared.simulated);
    return compared;
}
}  // namespace pipescope
