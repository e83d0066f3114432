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

FactSection laneSection(const TraceDocument& document, const SlowStep& step) {
    FactSection section{translated("Busy, by lane"), {}};
    for (const LaneInStep& lane : step.lanes) {
        const std::vector<LaneInfo>& lanes = document.measured->lanes();
        const bool known = lane.lane.index() < lanes.size() && !lanes[lane.lane.index()].name.empty();
        section.rows.push_back(rowOf(known ? QString::fromStdString(lanes[lane.lane.index()].name)
                                           : translated("lane %1").arg(lane.lane.value()),
                                     lane.busy));
    }
    return section;
}

FactSection causeSection(const SlowStep& step) {
    FactSection section{translated("Bubbles by cause, all lanes"), {}};
    for (std::size_t number = 0; number < step.causes.size(); ++number) {
        const StepPair& pair = step.causes[number];
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

FactSection taskSection(const TraceDocument& document, const SlowStep& step) {
    FactSection section{translated("Tasks that differ most"), {}};
    for (const TaskInStep& task : step.largest) {
        section.rows.push_back(rowOf(taskName(shownKey(document, task.task)), task.time));
    }
    return section;
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
    for (FactSection section : {pathSection(step), loadSection(step), laneSection(document, step), causeSection(step),
                                taskSection(document, step)}) {
        if (!section.rows.empty()) {
            facts.sections.push_back(std::move(section));
        }
    }
    return facts;
}
}  // namespace pipescope
