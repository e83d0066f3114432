#include "gui/tables/slow_step_facts.h"

#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/task_details.h"

#include <utility>

namespace pipescope {
namespace {
FactRow rowOf(const QString& name, const StepPair& pair) {
    return {name, formatDuration(pair.step), formatDuration(pair.usual), formatDurationChange(pair.more())};
}

FactSection pathSection(const SlowStep& step) {
    FactSection section{translated("On the critical path"), {}};
    for (const KindInStep& kind : step.kinds) {
        if (kind.path.step > 0 || kind.path.usual > 0) {
            section.rows.push_back(rowOf(styleOf(kind.kind).name, kind.path));
        }
    }
    section.rows.push_back(rowOf(translated("waits between tasks"), step.waits));
    section.rows.push_back(rowOf(translated("the step"), step.time));
    if (step.outside) {
        section.rows.push_back(rowOf(translated("outside the pipeline"), *step.outside));
    }
    return section;
}

QString laneName(const TraceDocument& document, LaneId lane) {
    const std::vector<LaneInfo>& lanes = document.measured->lanes();
    const bool known = lane.index() < lanes.size() && !lanes[lane.index()].name.empty();
    return known ? QString::fromStdString(lanes[lane.index()].name) : translated("lane %1").arg(lane.value());
}

FactSection laneSection(const TraceDocument& document, const SlowStep& step) {
    FactSection section{translated("Busy, by lane"), {}};
    for (const LaneInStep& lane : step.lanes) {
        section.rows.push_back(rowOf(laneName(document, lane.lane), lane.busy));
    }
    return section;
}

FactSection causeSection(const QString& heading, const std::array<StepPair, kNumBubbleCauses>& causes) {
    FactSection section{heading, {}};
    for (std::size_t number = 0; number < causes.size(); ++number) {
        const StepPair& pair = causes[number];
        if (pair.step > 0 || pair.usual > 0) {
            section.rows.push_back(rowOf(nameOf(static_cast<BubbleCause>(number)), pair));
        }
    }
    return section;
}

FactSection loadSection(const SlowStep& step) {
    FactSection section{translated("Load, of the cores' time"), {}};
    if (!step.load) {
        return section;
    }
    const auto add = [&](const QString& name, const std::optional<double>& own, const std::optional<double>& usual) {
        if (own && usual) {
            section.rows.push_back({name, formatShare(*own), formatShare(*usual), formatPoints(*own, *usual)});
        }
    };
    const MachineLoad& own = step.load->step.shares;
    const MachineLoad& usual = step.load->usual.shares;
    add(translated("other programs"), own.others, usual.others);
    add(translated("host of the virtual machine"), own.stolen, usual.stolen);
    add(translated("a task waited for a core"), own.pressure, usual.pressure);
    section.rows.push_back({translated("measured over"),
                            formatDuration(step.load->step.over.count()),
                            formatDuration(step.load->usual.over.count()),
                            {}});
    return section;
}

FactSection taskSection(const TraceDocument& document, const std::vector<TaskInStep>& largest) {
    FactSection section{translated("Tasks that differ most"), {}};
    for (const TaskInStep& task : largest) {
        section.rows.push_back(rowOf(taskName(shownKey(document, task.task)), task.time));
    }
    return section;
}
void addSections(std::vector<FactSection> sections, SelectionFacts& facts) {
    for (FactSection& section : sections) {
        if (!section.rows.empty()) {
            facts.sections.push_back(std::move(section));
        }
    }
}
}  // namespace

SelectionFacts slowStepFacts(const TraceDocument& document, const SlowStep& step) {
    SelectionFacts facts;
    facts.title = translated("Why step %1 takes %2").arg(step.step).arg(formatDuration(step.time.step));
    facts.where = translated("compared with the median step %1").arg(step.usual_step);
    facts.text = QString::fromStdString(slow_step_text(step));
    facts.measuredName = translated("this step");
    facts.simulatedName = translated("median");
    if (step.step == step.usual_step) {
        return facts;
    }
    addSections(
        {pathSection(step), loadSection(step), laneSection(document, step),
         causeSection(translated("Bubbles by cause, all lanes"), step.causes), taskSection(document, step.largest)},
        facts);
    return facts;
}

SelectionFacts laneDifferenceFacts(const TraceDocument& document, const LaneDifference& lane) {
    SelectionFacts facts;
    facts.title = translated("Why %1 works %2 in step %3")
                      .arg(laneName(document, lane.lane), formatDuration(lane.busy.step))
                      .arg(lane.step);
    facts.where = translated("compared with %1; Ctrl + click on another lane's name compares with that one")
                      .arg(laneName(document, lane.usual_lane));
    facts.text = QString::fromStdString(lane_difference_text(lane));
    facts.measuredName = translated("this lane");
    facts.simulatedName = laneName(document, lane.usual_lane);
    if (lane.lane == lane.usual_lane) {
        return facts;
    }
    FactSection times{translated("In the step"), {rowOf(translated("busy"), lane.busy)}};
    if (lane.idle.step > 0 || lane.idle.usual > 0) {  // else its bubbles are not known
        times.rows.push_back(rowOf(translated("idle"), lane.idle));
    }
    FactSection kinds{translated("Tasks by kind"), {}};
    for (const KindInStep& kind : lane.kinds) {
        kinds.rows.push_back(rowOf(styleOf(kind.kind).name, kind.time));
    }
    addSections({std::move(times), std::move(kinds), causeSection(translated("Its bubbles by cause"), lane.causes),
                 taskSection(document, lane.largest)},
                facts);
    return facts;
}
}  // namespace pipescope
