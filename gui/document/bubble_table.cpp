#include "gui/document/bubble_table.h"

#include "analysis/compared_bubbles.h"
#include "gui/document/step_analysis.h"
#include "gui/timeline/step_spans.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

namespace pipescope {
namespace {
SqlValue taskValue(const std::optional<TaskKey>& task) {
    return task ? SqlValue(to_string(*task)) : SqlValue();
}

void addBubbles(const TimelineStore& store, std::int32_t step, bool shown, std::shared_ptr<const TaskGraph> graph,
                Sends sends, const TaskLaunches& launches, SqlTable& table) {
    const StepGraph tasks = stepGraphOf(store, step, std::move(graph));
    for (const Bubble& each : bubbles_of(tasks, sends, launches)) {
        const ListedBubble bubble = listed(each, tasks);
        table.rows.push_back({std::string(to_string(store.source())), std::int64_t{step}, std::int64_t{shown ? 1 : 0},
                              each.lane.value(), each.start, each.end, std::string(to_string(each.cause)), bubble.share,
                              taskValue(bubble.culprit), taskValue(bubble.next)});
    }
}
}  // namespace

bool readsBubbles(const std::string& sql) {
    const std::string name = kBubbleTable;
    const auto same = [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; };
    return std::search(sql.begin(), sql.end(), name.begin(), name.end(), same) != sql.end();
}

SqlTable bubbleTable(const TraceDocument& document, std::int32_t shown, const std::function<bool()>& cancelled) {
    SqlTable table{kBubbleTable,
                   {"source TEXT", "step INTEGER", "shown INTEGER", "lane INTEGER", "start INTEGER", "end INTEGER",
                    "cause TEXT", "share REAL", "culprit TEXT", "next TEXT"},
                   {}};
    std::set<std::int32_t> steps{shown};
    if (document.comparison) {
        steps.insert(document.comparison->steps.begin(), document.comparison->steps.end());
    }
    for (const std::int32_t step : steps) {
        if (measuredStep(document, step) != nullptr && document.whyNoBubble(step).isEmpty() && !cancelled()) {
            addBubbles(*document.measured, step, step == shown, document.run.graph, sends_of(document.run),
                       document.run.launches, table);
        }
    }
    if (document.simulated && !document.simulated->steps().empty() &&
        document.whyNoBubble(Source::simulated, shown).isEmpty() && !cancelled()) {
        addBubbles(*document.simulated, document.simulated->steps().front().step, true, simulatedGraph(document),
                   simulatedSends(document), {}, table);
    }
    return table;
}
}  // namespace pipescope
