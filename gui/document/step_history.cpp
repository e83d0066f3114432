#include "gui/document/step_history.h"

#include "analysis/two_runs.h"
#include "base/sample_statistics.h"
#include "gui/style/number_format.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

namespace pipescope {
namespace {
constexpr double kQuartileRanges = 1.5;  // Tukey's fences
constexpr double kLeastSlowness = 1.05;  // steps of equal length have quartiles next to each other
constexpr std::size_t kAround = 5;       // losses on either side with which a loss is compared
constexpr double kSpike = 10;            // median deviations
constexpr double kLeastSpike = 0.5;      // of the median loss: losses that hardly change deviate little
constexpr double kFlattened = 4;         // ranges of the other losses; beyond, spikes do not count for the scale
constexpr double kFarEnd = 20;           // likewise, for the first and the last loss, which have no others on one side

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

void judgeLosses(StepHistory& history) {
    std::vector<std::size_t> known;
    for (std::size_t index = 0; index < history.steps.size(); ++index) {
        history.steps[index].spike = false;
        if (const auto& loss = history.steps[index].loss; loss && std::isfinite(*loss)) {
            known.push_back(index);
        }
    }
    const auto lossAt = [&](std::size_t place) { return *history.steps[known[place]].loss; };
    std::vector<double> deviations;
    std::vector<double> sizes;
    std::vector<double> around;
    for (std::size_t place = 0; place < known.size(); ++place) {
        // As many before it as after: in the middle of losses that fall is the loss itself.
        const std::size_t beside = std::min({place, known.size() - 1 - place, kAround});
        around.clear();
        for (std::size_t each = place - beside; each <= place + beside; ++each) {
            around.push_back(lossAt(each));
        }
        const auto middle = around.begin() + static_cast<std::ptrdiff_t>((around.size() - 1) / 2);
        std::nth_element(around.begin(), middle, around.end());
        deviations.push_back(std::abs(lossAt(place) - *middle));
        sizes.push_back(std::abs(lossAt(place)));
    }
    if (known.empty()) {
        return;
    }
    const double spike = std::max(kSpike * median(deviations), kLeastSpike * median(sizes));
    const auto rangeOf = [&](bool withSpikes, std::optional<std::size_t> without = std::nullopt) {
        std::pair<double, double> range{INFINITY, -INFINITY};
        for (std::size_t place = 0; place < known.size(); ++place) {
            if (place != without && (withSpikes || !history.steps[known[place]].spike)) {
                range = {std::min(range.first, lossAt(place)), std::max(range.second, lossAt(place))};
            }
        }
        return range;
    };
    for (std::size_t place = 0; place < known.size(); ++place) {
        history.steps[known[place]].spike = deviations[place] > spike;
    }
    for (const std::size_t end : {std::size_t{0}, known.size() - 1}) {
        const auto [least, most] = rangeOf(false, end);
        const double away = std::max(least - lossAt(end), lossAt(end) - most);
        history.steps[known[end]].spike =
            known.size() > 2 && least <= most && away > std::max(spike, kFarEnd * (most - least));
    }
    const auto [least, most] = rangeOf(true);
    const auto [leastOther, mostOther] = rangeOf(false);
    const bool isFlattened = leastOther <= mostOther && most - least > kFlattened * (mostOther - leastOther);
    history.leastLoss = isFlattened ? leastOther : least;
    history.mostLoss = isFlattened ? mostOther : most;
}

std::size_t StepHistory::numSlow() const {
    return static_cast<std::size_t>(
        std::count_if(steps.begin(), steps.end(), [](const StepEntry& each) { return each.slow; }));
}

const StepEntry& StepHistory::lossStepOf(std::size_t first, std::size_t end) const {
    const StepEntry* drawn = &steps.at(end - 1);
    for (std::size_t index = first; index < end; ++index) {
        const StepEntry& each = steps[index];
        if (each.lossIsNoNumber() || (each.spike && !drawn->lossIsNoNumber())) {
            drawn = &each;
        }
    }
    return *drawn;
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
        text += (entry.spike ? translated(", loss %1, far from the steps around") : translated(", loss %1"))
                    .arg(*entry.loss, 0, 'g', 5);
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
    judgeLosses(history);
    return history;
}

std::int32_t typicalStep(const TraceDocument& document) {
    const StepHistory history = stepHistory(document);
    return history.median ? history.steps[*history.median].step : 0;
}
}  // namespace pipescope
