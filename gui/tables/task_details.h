#pragma once

#include "gui/document/trace_document.h"
#include "gui/timeline/time_axis_model.h"

#include <QString>

#include <optional>

namespace pipescope {
/// Texts about a task and its twin.
struct TaskFacts {
    QString title;   ///< "forward of micro-batch 3 on partition 1"
    QString where;   ///< "lane 1 · cpu · step 4"
    QString bytes;   ///< of a copy; otherwise empty
    QString device;  ///< its work on a device; empty if none
    struct Times {
        QString start;  ///< since the start of the step, or as the axis shows times
        QString end;
        QString duration;
    };
    Times picked;
    std::optional<Times> twin;
    Times change;       ///< simulated relative to measured, or after relative to before; empty without a twin
    QString changeOf;   ///< "simulated against measured"
    QString name;       ///< of its timeline: "measured"
    QString otherName;  ///< of the other one
    QString whyNoTwin;  ///< empty if there is a twin
    bool sinceStep = true;
};
/// `step` is the compared measured step. `axis`: says what times count from; null: the start of the step.
TaskFacts taskFacts(const TraceDocument& document, const TaskSelection& selection, std::int32_t step,
                    const TimeAxisModel* axis = nullptr);
/// The facts as a few lines of HTML.
QString toolTipOf(const TaskFacts& facts);
/// The facts as one sentence for screen readers.
QString spoken(const TaskFacts& facts);

}  // namespace pipescope
