#pragma once

#include "gui/document/step_analysis.h"
#include "gui/document/trace_document.h"
#include "gui/timeline/lane_arrangement.h"
#include "gui/timeline/time_axis_model.h"

#include <QObject>

#include <memory>
#include <optional>

namespace pipescope {
struct Baseline;
struct SimulatedScenario;

/// Everything that a page shows, without widgets: a document or its what-if scenario, the measured step to compare, the
/// selected task with its twin, the choice of marks, and the analysis of the step. Threading: the GUI thread.
class PageModel : public QObject {
    Q_OBJECT

public:
    explicit PageModel(QObject* parent = nullptr);

    TimeAxisModel& axis() const { return *axis_; }
    /// Null until the file is read.
    const std::shared_ptr<const TraceDocument>& document() const { return document_; }
    /// The document as in the file, without scenario; null until it is read.
    const std::shared_ptr<const TraceDocument>& recorded() const { return recorded_; }
    std::int32_t step() const { return step_; }
    /// Analysis of the step; null until the file is read.
    const StepAnalysis* analysis() const { return analysis_.get(); }
    /// The same, for a worker.
    const std::shared_ptr<const StepAnalysis>& sharedAnalysis() const { return analysis_; }
    const MarkChoice& choice() const { return choice_; }
    /// Order, height and visibility of the lanes.
    const LaneArrangement& arrangement() const { return arrangement_; }

    /// Replaces the document. Keeps zoom, step and selection, as far as they exist in the new one; but if the old one
    /// was a part of the file and nothing was chosen in it, the typical step of the new one is shown. `followEnd`: if
    /// the old end is visible, the new one will be. Returns false if the view starts anew.
    bool setDocument(std::shared_ptr<const TraceDocument> document, bool followEnd);
    /// Replaces the simulated half until showRecorded(). Keeps the measured half and the zoom. For a scenario that
    /// cannot run, only the title changes.
    void showScenario(const SimulatedScenario& scenario);
    void showRecorded();
    /// Shows a run before in place of the simulated half, until showRecorded() or showScenario(), also after the file
    /// is read again. Before the file is read, it takes effect then. Throws Error if the document has no measured half.
    void showBaseline(std::shared_ptr<const Baseline> baseline);
    /// Null: the lower timeline is a simulation.
    const std::shared_ptr<const Baseline>& baseline() const { return baseline_; }
    /// Adds the comparison of the displayed scenario with the measurement, which takes longer than the simulation.
    void showComparison(const SimulatedScenario& scenario, const Comparison& comparison);

    /// Sets the measured step to compare. Ignored if the document has no such step.
    void selectStep(std::int32_t step);
    /// Selects a task of one timeline and marks its twin in the other; nullopt clears the selection.
    void select(Source source, std::optional<SliceRef> slice);
    /// Selects a bubble of the analysed step and marks its counterpart in the other timeline.
    void select(Source source, const Bubble& bubble);
    /// Selects the bubble at a time of the timeline. Shows its step, if that is another one. Clears the selection if
    /// there is none.
    void selectBubbleAt(Source source, LaneId lane, std::int64_t time);
    /// Selects a lane, or the links on which it sends. `comparedWith`: instead of the lane of median busy time.
    void selectLane(Source source, LaneId lane, bool links = false, std::optional<LaneId> comparedWith = {});
    /// Selects a range of a thread or stream; nullopt clears the selection.
    void selectRange(std::optional<SliceRef> range);
    /// Sets the comparison of measured and simulated, and the marks on top.
    void setChoice(const MarkChoice& choice);
    void setArrangement(LaneArrangement arrangement);
    /// The lane that actions on a lane are about: the selected one, or that of the selected task or bubble.
    std::optional<LaneId> selectedLane() const;
    /// The lanes of the document; empty until it is read.
    const std::vector<LaneInfo>& lanes() const;

Q_SIGNALS:
    /// Another document or simulated half, which is not analysed yet: views drop what they hold of the previous one.
    void documentReplaced();
    void simulatedReplaced();
    /// There is a new analysis.
    void analysed();
    void choiceChanged();
    void arrangementChanged();
    /// Emitted after choiceChanged().
    void modeChanged();
    /// Title of the simulated timeline; empty: the usual one.
    void simulatedTitled(const QString& title);
    /// A task, bubble or range was chosen by one of the above.
    void chosen();
    /// The user wants a simulated task to run before the slice `before` of its row, or last if there is no such slice.
    void moveRequested(pipescope::SliceRef task, std::uint32_t before);

    // The model is consistent again.
    void documentChanged();
    /// Only the document's simulated half changed.
    void simulationChanged();
    void stepChanged();

private:
    QString baselineTitle() const;
    void replaceSimulated(std::shared_ptr<const TraceDocument> document, const QString& title);
    void analyse();
    void dropAnalysis();
    /// A selection with what its references refer to.
    struct Selected {
        std::optional<TaskSelection> task;
        std::optional<PartSelection> part;
        std::shared_ptr<const TraceDocument> document;
        std::shared_ptr<const StepAnalysis> analysis;
    };
    Selected selected(std::shared_ptr<const TraceDocument> of) const;
    /// As far as it exists in the present document.
    void selectAgain(const Selected& before);
    bool showsEnd() const;
    /// The part that the user chose to see, the step at that time, and the part that is shown since a scenario changed
    /// the step's length.
    struct Wanted {
        TimeWindow window;
        TimeRange step;
        TimeWindow shown;
    };

    TimeAxisModel* axis_;
    std::optional<Wanted> wanted_;  // empty: no scenario was shown since
    std::shared_ptr<const TraceDocument> document_;
    std::shared_ptr<const TraceDocument> recorded_;
    std::shared_ptr<const Baseline> baseline_;
    std::int32_t step_ = 0;
    std::shared_ptr<const StepAnalysis> analysis_;
    MarkChoice choice_;
    LaneArrangement arrangement_;
    std::optional<std::int32_t> chosenStep_;  // of a measured timeline; empty: the typical one
};
}  // namespace pipescope
