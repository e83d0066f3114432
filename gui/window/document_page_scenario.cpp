#include "gui/document/scenario.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/document_page.h"

#include <algorithm>
#include <utility>

namespace pipescope {
void DocumentPage::showScenario(const SimulatedScenario& scenario) {
    if (!recorded_) {
        return;
    }
    if (!scenario.runs()) {  // the panel gives the reason; the display stays, with a title that says so
        simulated_->setTitle(tr("SIMULATED · this scenario cannot run, the previous one is shown"));
        return;
    }
    if (document_ && document_ != recorded_ && document_->simulated == scenario.timeline) {  // with its noise now
        auto noisy = std::make_shared<TraceDocument>(*document_);
        noisy->simulation = scenario.simulation;
        document_ = std::move(noisy);
        if (!document_->measured) {
            fillSteps();
        }
        refresh();
        Q_EMIT simulationChanged();
        return;
    }
    replaceSimulated(withScenario(*recorded_, scenario), tr("SIMULATED · WHAT IF"));
}

void DocumentPage::showRecorded() {
    if (recorded_) {
        replaceSimulated(recorded_, {});
    }
}

void DocumentPage::showComparison(const SimulatedScenario& scenario, const Comparison& comparison) {
    if (!document_ || document_ == recorded_ || document_->simulated != scenario.timeline) {
        return;  // belongs to an earlier scenario
    }
    auto compared = std::make_shared<TraceDocument>(*document_);
    compared->comparison = comparison;
    document_ = std::move(compared);
    refresh();
    Q_EMIT simulationChanged();
}

void DocumentPage::replaceSimulated(std::shared_ptr<const TraceDocument> document, const QString& title) {
    const std::optional<TaskSelection> selected = axis_->selection();
    const TimeWindow window = axis_->window();
    const TimeRange before = stepRange(*document_, step_);
    analysis_ = nullptr;          // belongs to the previous document
    axis_->select(std::nullopt);  // refers to slices of a store that is going away
    const std::shared_ptr<const TraceDocument> old = std::exchange(document_, std::move(document));
    view(Source::simulated).setStore(document_->simulated);
    simulated_->setTitle(title);
    refreshLegend();
    alignGutters();
    if (!document_->measured) {
        fillSteps();
    }
    refresh();
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
    syncScrollBars();
    Q_EMIT simulationChanged();
}
}  // namespace pipescope
