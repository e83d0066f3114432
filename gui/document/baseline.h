#pragma once

#include "analysis/two_runs.h"
#include "gui/document/trace_document.h"

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// A run before, with which others are compared. Threading: immutable once created, shared.
struct Baseline {
    QString path;
    ComparedRun compared;   ///< with figures, of the compared steps
    std::int32_t step = 0;  ///< the typical one, which the timeline shows
    /// That step as the simulated half of a document: from time 0, with its optimizer.
    std::shared_ptr<const TimelineStore> timeline;
    std::vector<MemoryTrack> memory;          ///< in that step, by lane
    std::vector<std::optional<Bytes>> peaks;  ///< likewise
    QString whyNoBubble;                      ///< as TraceDocument::whyNoBubble(), for the compared steps
    QString whyNoStepTime;                    ///< as TraceDocument::whyNoStepTime()
    QString whyNoTimesAcrossLanes;            ///< as TraceDocument::whyNoTimesAcrossLanes()
    Timeline typical;                         ///< typical_step() of the compared steps
};

/// Cost: about a microsecond per task of the compared steps. Threading: any thread. Throws Error if the document has no
/// step that can be compared.
std::shared_ptr<const Baseline> baselineOf(const TraceDocument& before);
/// Replaces the document's simulated half by the baseline's step, and compares with the run before. Shares everything
/// large with the original. Where tasks of equal names are not equal work, TraceDocument::whyNoTwins says so, and tasks
/// are not compared. Cost: as above. Throws Error if the document has no measured timeline.
std::shared_ptr<const TraceDocument> withBaseline(const TraceDocument& document,
                                                  std::shared_ptr<const Baseline> baseline);
}  // namespace pipescope
