#include "gui/window/page_model.h"

#include "gui/document/baseline.h"
#include "gui/document/scenario.h"
#include "gui/document/step_history.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr double kNearTheEnd = 0.02;  // of the window
}

PageModel::PageModel(QObject* parent) : QObject(parent), axis_(new TimeAxisModel(this)) {}

bool PageModel::setDocument(std::shared_ptr<const TraceDocument> document, bool followEnd) {
    recorded_ = document;
    wanted_.reset();
    if (baseline_ && document->measured) {
        document = withBaseline(*document, baseline_);
    } else if (baseline_ && document->complete) {
        baseline_.reset();
        auto alone = std::make_shared<TraceDocument>(*document);
        alone->notes << tr("No earlier run is shown: this file holds no measured step.");
        document = std::move(alone);
    }
    const std::shared_ptr<const TraceDocument> before = std::exchange(document_, std::move(document));
    // When the first measured tasks of a live trace arrive, shows them, wherever the simulated step was.
    const bool keeps = before != nullptr && (before->measured || !document_->measured);
    const Selected selection = selected(before);
    const TimeWindow window = axis_->window();
    const std::int64_t origin = axis_->origin();
    const bool follows = keeps && followEnd && showsEnd();
    // The typical step of a part of the file is not that of the file.
    const bool provisional = keeps && !before->complete && !chosenStep_ && !selection.task && !selection.part &&
                             window == windowOf(stepRange(*before, step_));
    axis_->setEpoch(document_->measured || document_->tracks ? document_->utcEpoch : std::nullopt);
    dropAnalysis();

    const auto hasStep = [this](std::int32_t step) {
        return document_->measured && document_->measured->step(step) != nullptr;
    };
    if (chosenStep_ && document_->complete && !hasStep(*chosenStep_)) {
        chosenStep_.reset();
    }
    step_ = chosenStep_.value_or(step_);
    step_ = keeps && !provisional && hasStep(step_) ? step_ : typicalStep(*document_);
    Q_EMIT documentReplaced();
    Q_EMIT simulatedTitled(baselineTitle());
    analyse();
    const TimeRange whole = wholeRange(*document_, step_);
    if (keeps && !provisional) {
        axis_->changeTotal(whole, shifted(window, axis_->origin() - origin));
        selectAgain(selection);
    } else {
        axis_->setTotal(whole);
        axis_->show(hasOnlyTracks(*document_) ? whole : stepRange(*document_, step_));
    }
    if (follows) {
        const auto length = static_cast<std::int64_t>(axis_->window().length);
        axis_->changeTotal(whole, windowOf({whole.end - length, whole.end}));
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

PageModel::Selected PageModel::selected(std::shared_ptr<const TraceDocument> of) const {
    return {axis_->selection(), axis_->part(), std::move(of), analysis_};
}

void PageModel::selectAgain(const Selected& before) {
    if (before.task) {
        const TaskKey key = before.document->store(before.task->source)->slice(before.task->slice).key;
        const TimelineStore* store = document_->store(before.task->source);
        const std::optional<SliceRef> slice = store != nullptr ? store->find(key) : std::nullopt;
        if (slice) {
            axis_->select(
                TaskSelection{before.task->source, *slice, twinOf(*document_, before.task->source, *slice, step_)});
        }
    } else if (before.part && before.part->kind == PartSelection::Kind::bubble) {
        const Source source = before.part->source;
        const Bubble* again = before.analysis != nullptr
                                  ? analysis_->counterpart(*before.analysis, source, before.part->bubble, source)
                                  : nullptr;
        if (again != nullptr) {
            select(source, *again);
        }
    } else if (before.part && before.part->kind == PartSelection::Kind::range) {
        const TrackStore* old = before.document->tracks.get();
        const TrackStore* now = document_->tracks.get();
        const SliceRef range = before.part->range;
        if (old != nullptr && now != nullptr && now->has(range) && now->rangeOf(range) == old->rangeOf(range) &&
            now->textOf(range) == old->textOf(range)) {
            axis_->select(*before.part);
        }
    } else if (before.part) {
        selectLane(before.part->source, before.part->lane, before.part->kind == PartSelection::Kind::links,
                   before.part->comparedWith);
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
    baseline_.reset();
    replaceSimulated(withScenario(*recorded_, scenario), tr("SIMULATED · WHAT IF"));
}

void PageModel::showRecorded() {
    baseline_.reset();
    if (recorded_) {
        replaceSimulated(recorded_, {});
    }
}

void PageModel::showBaseline(std::shared_ptr<const Baseline> baseline) {
    if (!recorded_) {
        baseline_ = std::move(baseline);
        return;
    }
    std::shared_ptr<const TraceDocument> compared = withBaseline(*recorded_, baseline);
    baseline_ = std::move(baseline);
    const bool whole = axis_->window() == windowOf(stepRange(*document_, step_));
    replaceSimulated(std::move(compared), {});
    if (whole) {  // the simulated step, which may have been longer, is gone
        axis_->show(stepRange(*document_, step_));
    }
}

QString PageModel::baselineTitle() const {
    return document_ && document_->baseline ? tr("BEFORE") : QString();
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
    const Selected selection = selected(document_);
    const TimeWindow window = axis_->window();
    const TimeRange before = stepRange(*document_, step_);
    if (!wanted_ || window != wanted_->shown) {  // the user moved it since
        wanted_ = Wanted{window, before, {}};
    }
    dropAnalysis();
    document_ = std::move(document);
    Q_EMIT simulatedReplaced();
    Q_EMIT simulatedTitled(title.isEmpty() ? baselineTitle() : title);
    analyse();
    // Keeps the scale, so that a shorter step looks shorter. If the end of a longer step was visible, it stays visible.
    // Once the step is no longer than it was when the user chose what to see, that is shown again.
    const TimeRange now = stepRange(*document_, step_);
    const double end = static_cast<double>(window.start) + window.length;
    if (now.end <= wanted_->step.end) {
        axis_->changeTotal(wholeRange(*document_, step_), wanted_->window);
    } else if (now.end > before.end && end >= static_cast<double>(before.end) && end < static_cast<double>(now.end)) {
        axis_->changeTotal(wholeRange(*document_, step_),
                           {window.start, window.fraction, static_cast<double>(now.end - window.start)});
    } else {
        axis_->changeTotal(wholeRange(*document_, step_), window);
    }
    wanted_->shown = axis_->window();
    selectAgain(selection);
    Q_EMIT simulationChanged();
}

void PageModel::analyse() {
    const StepSpan* span = document_->measured ? document_->measured->step(step_) : nullptr;
    if (!document_->measured && document_->simulated && !document_->simulated->steps().empty()) {
        span = &document_->simulated->steps().front();  // one that overlaps others starts after the step before it
    }
    axis_->setOrigin(span != nullptr ? span->range().start : 0);
    analysis_ = std::make_shared<const StepAnalysis>(document_, step_);
    Q_EMIT analysed();
}

void PageModel::selectStep(std::int32_t step) {
    if (document_ && hasOnlyTracks(*document_)) {
        const bool exists = std::any_of(document_->markedSteps.begin(), document_->markedSteps.end(),
                                        [step](const StepRecord& each) { return each.step == step; });
        if (exists) {
            step_ = step;
            axis_->show(stepRange(*document_, step));
            Q_EMIT stepChanged();
        }
        return;
    }
    if (!document_ || !document_->measured || document_->measured->step(step) == nullptr) {
        return;
    }
    chosenStep_ = step;
    if (step == step_) {
        return;
    }
    // Keeps the visible part at the same position within its step; of a whole step, shows the whole new one.
    const std::int64_t before = axis_->origin();
    const bool whole = axis_->window() == windowOf(stepRange(*document_, step_));
    const Selected selection = selected(document_);
    axis_->select(std::nullopt);  // a bubble refers to the analysis that goes
    step_ = step;
    wanted_.reset();
    analyse();
    const std::int64_t start = axis_->window().start + axis_->origin() - before;
    axis_->show(whole ? stepRange(*document_, step)
                      : TimeRange{start, start + static_cast<std::int64_t>(axis_->window().length)});
    if (selection.task && selection.task->source == Source::measured) {
        TaskKey key = document_->measured->slice(selection.task->slice).key;
        key.step = step;  // otherwise the selection would bring its own step back
        select(Source::measured, document_->measured->find(key));
    } else if (selection.task) {
        select(selection.task->source, selection.task->slice);
    } else {
        selectAgain(selection);
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
    Q_EMIT chosen();
}

void PageModel::select(Source source, const Bubble& bubble) {
    // A list of the previous scenario may refer to a bubble that no longer exists.
    const Bubble* there = analysis_ != nullptr ? analysis_->bubbleAt(source, bubble.lane, bubble.start) : nullptr;
    if (there == nullptr || *there != bubble) {
        axis_->select(std::nullopt);
        return;
    }
    const Source other = otherThan(source);
    const Bubble* twin = analysis_->counterpart(*analysis_, source, bubble, other);
    axis_->select(PartSelection{PartSelection::Kind::bubble, source, bubble.lane, bubble,
                                twin != nullptr ? std::optional(*twin) : std::nullopt});
    Q_EMIT chosen();
}

void PageModel::selectBubbleAt(Source source, LaneId lane, std::int64_t time) {
    const TimelineStore* store = document_ ? document_->store(source) : nullptr;
    if (store == nullptr) {
        return;
    }
    const auto step = std::find_if(store->steps().begin(), store->steps().end(), [time](const StepSpan& each) {
        return each.range().start <= time && time < each.range().end;
    });
    if (source == Source::measured && step != store->steps().end() && step->step != step_) {
        axis_->select(std::nullopt);
        const TimeWindow window = axis_->window();
        selectStep(step->step);
        axis_->scrollTo(window);
    }
    const Bubble* bubble = analysis_->bubbleAt(source, lane, time);
    if (bubble != nullptr) {
        select(source, Bubble(*bubble));
    } else {
        axis_->select(std::nullopt);
    }
}

void PageModel::selectLane(Source source, LaneId lane, bool links, std::optional<LaneId> comparedWith) {
    const TimelineStore* store = document_ ? document_->store(source) : nullptr;
    if (store != nullptr && lane.index() < store->lanes().size()) {
        const auto kind = links ? PartSelection::Kind::links : PartSelection::Kind::lane;
        const bool hasOther = comparedWith && comparedWith->index() < store->lanes().size();
        axis_->select(PartSelection{kind, source, lane, Bubble{}, std::nullopt, SliceRef{},
                                    hasOther ? comparedWith : std::nullopt});
    }
}

void PageModel::selectRange(std::optional<SliceRef> range) {
    if (!range || !document_ || !document_->tracks || !document_->tracks->has(*range)) {
        axis_->select(std::nullopt);
        return;
    }
    PartSelection part;
    part.kind = PartSelection::Kind::range;
    part.lane = LaneId{-1};
    part.range = *range;
    axis_->select(part);
    Q_EMIT chosen();
}

void PageModel::setArrangement(LaneArrangement arrangement) {
    if (arrangement != arrangement_) {
        arrangement_ = std::move(arrangement);
        Q_EMIT arrangementChanged();
    }
}

std::optional<LaneId> PageModel::selectedLane() const {
    if (axis_->part()) {
        return axis_->part()->kind == PartSelection::Kind::range ? std::nullopt : std::optional(axis_->part()->lane);
    }
    const std::optional<TaskSelection>& task = axis_->selection();
    const TimelineStore* store = task && document_ ? document_->store(task->source) : nullptr;
    return store != nullptr ? std::optional(store->rows().at(task->slice.row).lane) : std::nullopt;
}

const std::vector<LaneInfo>& PageModel::lanes() const {
    static const std::vector<LaneInfo> none;
    if (!document_) {
        return none;
    }
    return document_->measured    ? document_->measured->lanes()
           : document_->simulated ? document_->simulated->lanes()
                                  : none;
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
