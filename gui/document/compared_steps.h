#pragma once

#include "gui/document/trace_document.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipescope {
/// The measured steps that are compared with a simulated one. Joining tasks takes about a microsecond each, so of a
/// longer run than kMostTasks only some are taken.
struct ComparedSteps {
    static constexpr std::size_t kMostTasks = 500'000;

    std::vector<StepRecord> steps;  ///< evenly chosen over the run; without wall times where none were recorded
    std::size_t available = 0;      ///< warm-up left out, while there are others
};
ComparedSteps stepsToCompare(const TraceDocument& document);
/// Their slices. The store is read once.
Timeline timelineOf(const TimelineStore& store, const std::vector<StepRecord>& steps);
/// Takes out half_recorded() steps: the others still tell. Returns them.
std::vector<std::int32_t> leaveOutHalves(ComparedSteps& compared, Timeline& timeline);
/// All slices.
Timeline timelineOf(const TimelineStore& store);
}  // namespace pipescope
