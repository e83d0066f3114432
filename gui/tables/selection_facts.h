#pragma once

#include "gui/document/step_analysis.h"
#include "gui/document/trace_document.h"
#include "gui/timeline/time_axis_model.h"

#include <nlohmann/json_fwd.hpp>

#include <QString>

#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// One line of the inspector; an empty value is unknown or does not apply.
struct FactRow {
    QString name;
    QString measured;
    QString simulated;
    QString difference = {};
};

struct FactSection {
    QString heading;
    std::vector<FactRow> rows;
};

/// Everything known about what is selected.
struct SelectionFacts {
    QString title;  ///< "forward of micro-batch 3 on partition 1"
    QString where;  ///< "lane 1 · cpu · step 4"
    QString text;   ///< sentences
    std::vector<FactSection> sections;
    QString measuredName = {};           ///< nameOf() the columns; empty without a selection
    QString simulatedName = {};          ///< empty: the facts have one value each
    bool ofTwoRuns = false;              ///< differences are after minus before
    std::optional<RootCause> root = {};  ///< of a measured bubble, if changes of the pipeline make it shorter
    bool ofWholeStep = false;            ///< nothing is selected; the facts are those of the step

    /// True if nothing is selected.
    bool isEmpty() const { return title.isEmpty() || ofWholeStep; }
    /// Lines of columns separated by tabs.
    QString plainText() const;
};

/// The measured step `step` is compared; `analysis` is its analysis. Without a selection, facts about the step; empty
/// if the document has no tasks. `axis`: says what times count from; null: the start of the step.
SelectionFacts factsOf(const TraceDocument& document, const StepAnalysis& analysis, std::int32_t step,
                       const std::optional<TaskSelection>& task, const std::optional<PartSelection>& part,
                       const TimeAxisModel* axis = nullptr);
/// Facts about a range of a thread or stream, without its arguments. Empty if the document has no such range.
SelectionFacts rangeFacts(const TraceDocument& document, const SliceRef& range, std::int64_t origin,
                          const TimeAxisModel* axis = nullptr);
/// The arguments of a range: `event` is that of its Chrome trace (event_of_chrome()).
std::vector<FactSection> argumentFacts(const nlohmann::json& event);
/// One sentence about a bubble, lane or link, for screen readers.
QString spoken(const TraceDocument& document, const StepAnalysis& analysis, std::int32_t step,
               const PartSelection& part);
}  // namespace pipescope
