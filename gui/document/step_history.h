#pragma once

#include "gui/document/trace_document.h"

#include <QString>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// One step of a run.
struct StepEntry {
    std::int32_t step = 0;
    Nanoseconds time{0};           ///< first forward to last backward; of a layout on a cluster, the whole step
    std::optional<double> bubble;  ///< empty if it is unknown, as after a loss of ranges
    std::optional<double> loss;    ///< of the training; NaN or infinite if it diverged
    bool warmup = false;
    bool cutOff = false;  ///< the recording may have ended within it
    bool faulty = false;  ///< in TraceDocument::check
    bool slow = false;    ///< longer than StepHistory::slowAbove, and neither of the above
    bool spike = false;   ///< the loss is far from those of the steps around

    bool lossIsNoNumber() const { return loss && !std::isfinite(*loss); }
};

/// The measured steps of a run. The figures count those that are whole and no warm-up, or all steps if there are no
/// such ones. A value.
struct StepHistory {
    std::vector<StepEntry> steps;  ///< in order of time
    std::size_t counted = 0;
    QString whyNoTime;  ///< TraceDocument::whyNoStepTime(): times are those of the lanes in the file
    // Indices into `steps`; empty without steps. With an even number of steps, the median is the longer of the middle
    // two.
    std::optional<std::size_t> median;
    Nanoseconds medianTime{0};  ///< of the counted steps; of an even number, the mean of the middle two
    std::optional<std::size_t> fastest;
    std::optional<std::size_t> slowest;
    /// Upper quartile + 1.5 interquartile ranges, and at least 1.05 medians.
    Nanoseconds slowAbove = Nanoseconds::max();

    /// The losses at the ends of a scale on which they can be told apart: all of them, or, where spikes would flatten
    /// the others, without the spikes. The least is above the most if no loss is a number.
    double leastLoss = INFINITY;
    double mostLoss = -INFINITY;

    std::size_t numSlow() const;
    /// The step whose loss a bar of several steps shows, by index: the last one whose loss is no number, otherwise the
    /// last spike, otherwise the last step.
    const StepEntry& lossStepOf(std::size_t first, std::size_t end) const;
    /// Index of the step; empty if there is none.
    std::optional<std::size_t> find(std::int32_t step) const;
    /// "step 7: 402 ms (+1.2 % of the median), bubble 12.3 %, loss 0.7321"
    QString describe(std::size_t index) const;
};

/// Finds spikes among the losses, and their scale. Cost: O(steps).
void judgeLosses(StepHistory& history);
/// Cost: O(steps log steps).
StepHistory stepHistory(const TraceDocument& document);
/// The step to show first: the median. 0 without steps.
std::int32_t typicalStep(const TraceDocument& document);
}  // namespace pipescope
