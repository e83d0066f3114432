#pragma once

#include "analysis/task_join.h"
#include "gui/document/trace_document.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_marks.h"

#include <QString>

#include <bitset>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// The copies on one link in a step.
struct LinkUse {
    LaneId from;
    std::optional<LaneId> to;  ///< empty if the step does not show it
    std::int64_t copies = 0;
    Bytes bytes = 0;        ///< 0 if unknown
    std::int64_t busy = 0;  ///< ns in which at least one of the copies ran
};

/// The user's choice of marks on top of the bars.
struct MarkChoice {
    CompareMode mode = CompareMode::side_by_side;
    Alignment alignment = Alignment::first_task;
    bool causes = true;  ///< shade bubbles by their cause
    bool criticalPath = false;
    KindSet hiddenKinds = {};                         ///< kinds of tasks that are not drawn
    std::bitset<kNumBubbleCauses> hiddenCauses = {};  ///< causes of bubbles that are not shaded

    friend bool operator==(const MarkChoice&, const MarkChoice&) = default;
};

/// Compares one measured step with the simulated one: matching tasks, causes of idle time, critical path.
/// Cost: a few ms for a step of ten thousand tasks; steps of more than kMostTasks are not analysed.
/// Threading: immutable once built.
class StepAnalysis {
public:
    static constexpr std::size_t kMostTasks = 200'000;

    StepAnalysis(std::shared_ptr<const TraceDocument> document, std::int32_t step);

    /// Null without that timeline.
    const StepGraph* tasks(Source source) const { return side(source).tasks ? &*side(source).tasks : nullptr; }
    /// Without pairs where times of different lanes cannot be compared: nothing can be called late.
    const TaskMatching& matching() const { return matching_; }
    /// The pairs, with changes relative to where simulated tasks are drawn if `shift` is added to their times.
    std::vector<TaskPair> pairsAt(std::int64_t shift) const;
    const std::vector<Bubble>& bubbles(Source source) const { return side(source).bubbles; }
    /// A bubble's cause, length and culprit, as HTML; for a copy also its bytes, lanes and rate.
    QString describe(Source source, const Bubble& bubble) const;
    /// The bubble of the lane at this time of the store; null if the lane computes, or the step does not contain it.
    const Bubble* bubbleAt(Source source, LaneId lane, std::int64_t time) const;
    /// The bubble of another analysis, or of the other timeline, in one of this analysis; null if it has none.
    const Bubble* counterpart(const StepAnalysis& from, Source fromSource, const Bubble& bubble, Source source) const;
    /// The links on which a lane sends, by receiver. Cost: O(tasks log tasks).
    std::vector<LinkUse> linksFrom(Source source, LaneId lane) const;
    /// A bubble's cause, culprit and next task in a sentence.
    QString sentence(Source source, const Bubble& bubble) const;
    /// The task that a bubble waited for, or, if the lane was done, the last one of a lane that still worked. kNoTask:
    /// none.
    StepTaskIndex culpritOf(Source source, const Bubble& bubble) const;
    /// The root cause of a measured bubble; empty if it is not known.
    std::optional<RootCause> rootOf(Source source, const Bubble& bubble) const;
    const CriticalPath& critical(Source source) const { return side(source).critical; }
    /// Marks on top of one timeline; null if there is no such timeline.
    std::shared_ptr<const TimelineMarks> marks(Source source, const MarkChoice& choice,
                                               const std::optional<TaskSelection>& selection,
                                               const std::optional<PartSelection>& part = std::nullopt) const;
    /// Offset of simulated times.
    std::int64_t shift(Alignment alignment, const std::optional<TaskSelection>& selection) const;
    /// "critical path 44.8 ms: 31.2 ms computing, 9.6 ms copying, 4.0 ms waiting", or why it is not known, as with
    /// bubbles. Empty without one.
    QString criticalPathText(Source source) const;

private:
    struct Side {
        std::optional<StepGraph> tasks;
        std::vector<Bubble> bubbles;  // none while it is unknown
        CriticalPath critical;        // likewise
        QString whyUnknown;
    };
    const Side& side(Source source) const { return source == Source::measured ? measured_ : simulated_; }
    QString taskText(Source source, const StepTask& task) const;
    QString laneName(Source source, LaneId lane) const;
    QString describeCopy(Source source, StepTaskIndex copy) const;
    void addArrows(Source source, SliceRef slice, TimelineMarks& marks) const;

    std::shared_ptr<const TraceDocument> document_;
    std::int32_t step_;
    Side measured_;
    Side simulated_;
    TaskMatching matching_;
};

/// Reason why starts and ends of the two timelines cannot be compared: clocks of one of them that do not fit. Empty if
/// they can.
QString whyNothingIsLate(const TraceDocument& document);

/// Ends that differ by no more than this are on time: the larger of the clocks' error and a thousandth of the step.
std::int64_t onTimeWithin(const TraceDocument& document, std::int32_t step);

/// The task graph of the simulated half, for StepGraph; null if unknown.
std::shared_ptr<const TaskGraph> simulatedGraph(const TraceDocument& document);

/// How its lanes send.
Sends simulatedSends(const TraceDocument& document);

/// Tasks without a twin that share a reason.
struct UnmatchedTasks {
    QString reason;
    std::size_t count = 0;
    std::vector<TaskKey> examples;  ///< the first few, in order of time
};

/// All tasks that only one timeline has, over all measured steps, by reason: the sums of match_tasks() for each step.
/// Empty without two timelines. Cost: O(slices log slices), so call it in a worker for a large trace.
std::vector<UnmatchedTasks> unmatchedTasks(const TraceDocument& document);
}  // namespace pipescope
