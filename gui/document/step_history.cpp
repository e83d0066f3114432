#include "gui/document/step_history.h"

#include "analysis/two_runs.h"
#include "gui/style/number_format.h"
#include "schedule/sample_statistics.h"

#include <algorithm>
#include <functional>
#include <span>

namespace pipescope {
namespace {
constexpr double kQuartileRanges = 1.5;  // Tukey's fences
constexpr double kLeastSlowness = 1.05;  // steps of equal length have quartiles next to each other

/// Judges the steps, shortest first: `order` has their indices.
void judge(const std::vector<std::size_t>& order, StepHistory& history) {
    const auto timeAt = [&](std::size_t place) {
        return static_cast<double>(history.steps[order[place]].time.count());
    };
    history.counted = order.size();
    history.fastest = order.front();
    history.median = order[order.size() / 2];
    const Nanoseconds longer = history.steps[*history.median].time;
    const Nanoseconds shorter = history.steps[order[(order.size() - 1) / 2]].time;
    history.medianTime = shorter + (longer - shorter) / 2;
    history.slowest = order.back();
    const double upper = quantile(order.size(), 0.75, timeAt);
    const double lower = quantile(order.size(), 0.25, timeAt);
    const double middle = quantile(order.size(), 0.5, timeAt);
    const double fence = std::max(upper + kQuartileRanges * (upper - lower), kLeastSlowness * middle);
    history.slowAbove = Nanoseconds(static_cast<std::int64_t>(fence));
    for (const std::size_t index : order) {
        history.steps[index].slow = history.steps[index].time > history.slowAbove;
    }
}
}  // namespace

std::size_t StepHistory::numSlow() const {
    return static_cast<std::size_t>(
        std::count_if(steps.begin(), steps.end(), [](const StepEntry& each) { return each.slow; }));
}

std::optional<std::size_t> StepHistory::find(std::int32_t step) const {
    const auto found =
        std::find_if(steps.begin(), steps.end(), [step](const StepEntry& each) { return each.step == step; });
    return found != steps.end() ? std::optional(static_cast<std::size_t>(found - steps.begin())) : std::nullopt;
}

QString StepHistory::describe(std::size_t index) const {
    const StepEntry& entry = steps.at(index);
    QString text = translated("step %1: %2").arg(entry.step).arg(formatDuration(entry.time.count()));
    if (!whyNoTime.isEmpty()) {
        text += translated(" of the recorded lanes alone");
    }
    if (counted > 1 && medianTime.count() > 0 && entry.time != medianTime) {
        const double ratio = static_cast<double>(entry.time.count()) / static_cast<double>(medianTime.count());
        text += translated(" (%1 against the median)").arg(formatShareChange(ratio - 1));
    }
    if (entry.bubble) {
        text += translated(", bubble %1").arg(formatShare(*entry.bubble));
    }
    if (entry.loss) {
        text += translated(", loss %1").arg(*entry.loss, 0, 'g', 5);
    }
    const auto before = std::span(steps).first(index);
    const bool drains = entry.warmup && !std::all_of(before.begin(), before.end(), std::mem_fn(&StepEntry::warmup));
    return text + (entry.cutOff   ? translated(", cut off")
                   : drains       ? translated(", drains the pipeline")
                   : entry.warmup ? translated(", warm-up")
                   : entry.faulty ? translated(", tasks are missing or doubled")
                   : entry.slow   ? translated(", slow")
                                  : QString());
}

StepHistory stepHistory(const TraceDocument& document) {
    StepHistory history;
    history.whyNoTime = document.whyNoStepTime();
    const bool anyLoss = knows_losses(document.run);
    std::vector<std::size_t> order;
    const std::vector<StepSpan>& spans = stepsOf(document);
    for (const StepSpan& span : spans) {
        StepEntry entry;
        entry.step = span.step;
        entry.time = !document.measured && document.simulation
                         ? expected_step(*document.simulation)
                         : span.statistics.step_time() + after_pipeline(document.run);
        if (document.whyNoBubble(span.step).isEmpty()) {
            entry.bubble = span.statistics.bubble_fraction;
        }
        if (const StepRecord* record = document.run.record_of(span.step); record != nullptr) {
            entry.warmup = record->warmup;
            if (anyLoss) {
                entry.loss = record->training_loss;
            }
        }
        entry.cutOff = document.measured && !document.run.is_whole(span.step, spans.back().step);
        entry.faulty = document.check.faults.contains(span.step);
        if (!entry.warmup && !entry.cutOff && !entry.faulty) {
            order.push_back(history.steps.size());
        }
        history.steps.push_back(entry);
    }
    if (hasOnlyTracks(document)) {
        for (const StepRecord& marked : document.markedSteps) {
            order.push_back(history.steps.size());
            StepEntry& entry = history.steps.emplace_back();
            entry.step = marked.step;
            entry.time = marked.wall_end - marked.wall_start;
        }
    }
    if (order.empty()) {
        for (std::size_t index = 0; index < history.steps.size(); ++index) {
            order.push_back(index);
        }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return history.steps[a].time < history.steps[b].time; });
    if (!order.empty()) {
        judge(order, history);
    }
    return history;
}

std::int32_t typicalStep(const TraceDocument& document) {
    const StepHistory history = stepHistory(document);
    return history.median ? history.steps[*history.median].step : 0;
}
}  // namespace pipescope
