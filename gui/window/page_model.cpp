#include "gui/window/page_model.h"

#include "gui/document/scenario.h"

#include <utility>

namespace pipescope {
namespace {
constexpr double kNearTheEnd = 0.02;  // of the window
}

PageModel::PageModel(QObject* parent) : QObject(parent), axis_(new TimeAxisModel(this)) {}

bool PageModel::setDocument(std::shared_ptr<const TraceDocument> document, bool followEnd) {
    recorded_ = document;
    const std::shared_ptr<const TraceDocument> before = std::exchange(document_, std::move(document));
    // When the first measured tasks of a live trace arrive, shows them, wherever the simulated step was.
    const bool keeps = before != nullptr && (before->measured || !document_->measured);
    const std::optional<TaskSelection> selected = axis_->selection();
    const TimeWindow window = axis_->window();
    const std::int64_t origin = axis_->origin();
    const bool follows = keeps && followEnd && showsEnd();
    dropAnalysis();

    const bool hasStep = document_->measured && document_->measured->step(step_) != nullptr;
    step_ = keeps && hasStep ? step_ : typicalStep(*document_);
    Q_EMIT documentReplaced();
    Q_EMIT simulatedTitled({});
    analyse();
    axis_->setTotal(wholeRange(*document_, step_));
    if (keeps) {
        axis_->scrollTo(shifted(window, axis_->origin() - origin));
        if (selected) {
            selectAgain(*selected, *before);
        }
    } else {
        axis_->show(stepRange(*document_, step_));
    }
    if (follows) {
        const auto length = static_cast<std::int64_t>(axis_->window().length);
        const std::int64_t end = axis_->total().end;
        axis_->scrollTo(windowOf({end - length, end}));
    }
    Q_EMIT documentChanged();
    return keeps;
}

bool PageModel::showsEnd() const {
    const TimeWindow& window = axis_->window();
    return static_cast<double>(axis_->total().end - window.start) <= window.length * (1 + kNearTheEnd);
}

void PageModel::dropAnalysis() {
    analysis_ = nullptr;          // belongs to the previous document
    axis_->select(std::nullopt);  // refers to slices of a store that is going away
}

void PageModel::selectAgain(const TaskSelection& selected, const TraceDocument& before) {
    const TaskKey key = before.store(selected.source)->slice(selected.slice).key;
    const TimelineStore* store = document_->store(selected.source);
    const std::optional<SliceRef> slice = store != nullptr ? store->find(key) : std::nullopt;
    if (slice) {
        axis_->select(TaskSelection{selected.source, *slice, twinOf(*document_, selected.source, *slice, step_)});
    }
}

void PageModel::showScenario(const SimulatedScenario& scenario) {
    if (!recorded_) {
        return;
    }
    if (!scenario.runs()) {  // the panel gives the reason; the display stays, with a title that says so
        Q_EMIT simulatedTitled(tr("SIMULATED · this scenario cannot run, the previous one is shown"));
        return;
    }
    if (document_ && document_ != recorded_ && document_->simulated == scenario.timeline) {  // with its noise now
        auto noisy = std::make_shared<TraceDocument>(*document_);
        noisy->simulation = scenario.simulation;
        document_ = std::move(noisy);
        analyse();
        Q_EMIT simulationChanged();
        return;
    }
    replaceSimulated(withScenario(*recorded_, scenario), tr("SIMULATED · WHAT IF"));
}

void PageModel::showRecorded() {
    if (recorded_) {
        replaceSimulated(recorded_, {});
    }
}

void PageModel::showComparison(const SimulatedScenario& scenario, const Comparison& comparison) {
    if (!document_ || document_ == recorded_ || document_->simulated != scenario.timeline) {
        return;  // belongs to an earlier scenario
    }
    auto compared = std::make_shared<TraceDocument>(*document_);
    compared->comparison = comparison;
    document_ = std::move(compared);
    analyse();
    Q_EMIT simulationChanged();
}

void PageModel::replaceSimulated(std::shared_ptr<const TraceDocument> document, const QString& title) {
    const std::optional<TaskSelection> selected = axis_->selection();
    const TimeWindow window = axis_->window();
    const TimeRange before = stepRange(*document_, step_);
    dropAnalysis();
    const std::shared_ptr<const TraceDocument> old = std::exchange(document_, std::move(document));
    Q_EMIT simulatedReplaced();
    Q_EMIT simulatedTitled(title);
    analyse();
    axis_->setTotal(wholeRange(*document_, step_));
    // Keeps the scale, so that a shorter step looks shorter. If the end of a longer step was visible, it stays visible.
    const TimeRange now = stepRange(*document_, step_);
    const double end = static_cast<double>(window.start) + window.length;
    if (now.end > before.end && end >= static_cast<double>(before.end) && end < static_cast<double>(now.end)) {
        axis_->scrollTo({window.start, window.fraction, static_cast<double>(now.end - window.start)});
    } else {
        axis_->scrollTo(window);
    }
    if (selected && document_->store(selected->source) != nullptr) {
        selectAgain(*selected, *old);
    }
    Q_EMIT simulationChanged();
}

void PageModel::analyse() {
    const StepSpan* span = document_->measured ? document_->measured->step(step_) : nullptr;
    axis_->setOrigin(span != nullptr ? span->range().start : 0);
    analysis_ = std::make_shared<const StepAnalysis>(document_, step_);
    Q_EMIT analysed();
}

void PageModel::selectStep(std::int32_t step) {
    if (!document_ || !document_->measured || document_->measured->step(step) == nullptr || step == step_) {
        return;
    }
    // Keeps the visible part at the same position within its step.
    const std::int64_t before = axis_->origin();
    step_ = step;
    analyse();
    const std::int64_t start = axis_->window().start + axis_->origin() - before;
    axis_->show({start, start + static_cast<std::int64_t>(axis_->window().length)});
    if (const std::optional<TaskSelection> selection = axis_->selection()) {
        select(selection->source, selection->slice);
    }
    Q_EMIT stepChanged();
}

void PageModel::select(Source source, std::optional<SliceRef> slice) {
    const TimelineStore* store = document_ ? document_->store(source) : nullptr;
    // A list of the previous scenario may refer to a slice that no longer exists.
    const bool there = slice && store != nullptr && slice->row < store->rows().size() &&
                       slice->index < store->rows()[slice->row].start.size();
    if (!there) {
        axis_->select(std::nullopt);
        return;
    }
    if (source == Source::measured) {
        const std::int32_t of = document_->measured->slice(*slice).key.step;
        if (of != step_ && document_->measured->step(of) != nullptr) {
            axis_->select(std::nullopt);  // moves the simulated step here, so that the twin is beside it
            const TimeWindow window = axis_->window();
            selectStep(of);
            axis_->scrollTo(window);
        }
    }
    axis_->select(TaskSelection{source, *slice, twinOf(*document_, source, *slice, step_)});
    Q_EMIT taskSelected(source, *slice);
}

void PageModel::setChoice(const MarkChoice& choice) {
    if (choice == choice_) {
        return;
    }
    const bool other = choice.mode != choice_.mode;
    choice_ = choice;
    Q_EMIT choiceChanged();
    if (other) {
        Q_EMIT modeChanged();
    }
}
}  // namespace pipescope
