#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/root_causes.h"
#include "analysis/task_join.h"
#include "gui/style/task_style.h"
#include "gui/timeline/timeline_store.h"

#include <QBrush>
#include <QString>

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// Marks on top of a timeline's bars, for one step. Threading: immutable once built.
struct TimelineMarks {
    std::vector<Bubble> bubbles;                        ///< to point at
    bool shadesBubbles = true;                          ///< by cause
    std::bitset<kNumBubbleCauses> hiddenCauses = {};    ///< causes that are not shaded
    std::vector<SliceRef> critical;                     ///< critical path, in order
    std::vector<std::pair<SliceRef, SliceRef>> arrows;  ///< from a dependency to the waiting task

    /// Outlines of the other timeline's tasks; null: none. Lanes are matched by number.
    std::shared_ptr<const TimelineStore> ghosts;
    std::int64_t ghostShift = 0;  ///< added to its times

    /// Tasks painted by lateness of their ends instead of kind.
    std::vector<TaskPair> differences;
    std::int64_t differenceScale = 0;  ///< ns; a larger change is "very late"
    bool fadesOthers = false;          ///< other tasks are faint, even if there are no differences

    /// The chosen step where steps overlap, since updates are staggered: tasks of the others are faint.
    std::optional<std::int32_t> onlyStep;

    /// By partition: for tierColor(), from 0, the nearest link to the next partition. Copies are coloured so instead of
    /// by kind. Empty: by kind.
    std::vector<int> linkTiers;

    bool recolours() const { return fadesOthers || !differences.empty(); }
    bool hides(BubbleCause cause) const { return hiddenCauses.test(static_cast<std::size_t>(cause)); }
};

/// Colour of copies over links of a tier: no colour of a kind that computes.
QColor tierColor(int tier);
QBrush brushOf(BubbleCause cause, const TimelineColors& colors);
QString nameOf(BubbleCause cause);
QString nameOf(RootCause cause);

/// Lateness in distinguishable steps: blue for early, orange for late, never red versus green. Hatched in opposite
/// directions, with lines if the change is large.
enum class Lateness { very_early, early, as_simulated, late, very_late };
inline constexpr int kNumLateness = 5;
/// On time below a tenth of the scale; "very" from half of it.
Lateness latenessOf(std::int64_t ns, std::int64_t scale);
struct LatenessStyle {
    QColor color;
    Qt::BrushStyle pattern = Qt::SolidPattern;
};
LatenessStyle styleOf(Lateness lateness, const TimelineColors& colors);
/// Veil over tasks that are not compared (of other steps, or without a twin), whose kind colours could be mistaken for
/// lateness.
QColor veilOf(const TimelineColors& colors);
/// "late by 0.2 ms to 1 ms". `twoRuns`: relative to an earlier run, not to the simulation.
QString describe(Lateness lateness, std::int64_t scale, bool twoRuns);
/// What late and early mean, and the sign of differences in tables.
QString explainLateness(bool twoRuns);
/// "1.2 ms late", "1.2 ms early": in words, since a difference in tables is the simulated time minus the measured one.
QString latenessText(std::int64_t endChange);
/// Those that occur.
std::bitset<kNumLateness> latenessIn(const std::vector<TaskPair>& pairs, std::int64_t scale);
/// Scale for these pairs: the maximum change of an end, rounded up to 1, 2 or 5 times a power of ten, and 10 ns at
/// least; 0 if no end changed. Changes up to `onTime` ns are on time at that scale.
std::int64_t differenceScaleOf(const std::vector<TaskPair>& pairs, std::int64_t onTime = 0);

/// Arrangement of measured and simulated timelines on screen.
enum class CompareMode {
    side_by_side,  ///< one above the other
    overlay,       ///< simulated tasks as outlines over the measured ones
    difference,    ///< measured tasks, coloured by how late or early they were
};
/// side-by-side, overlay, difference, as on the command line.
QString nameOf(CompareMode mode);
/// Throws UsageError that lists the names.
CompareMode parseCompareMode(const QString& name);

/// Which points of the simulated and the measured step coincide on the axis.
enum class Alignment {
    first_task,  ///< the first forward of both steps
    step,        ///< the simulated start and the start of the training loop's step, before its first task
    task,        ///< the selected task and its twin; without a twin as first_task
};
/// first-task, step, task.
QString nameOf(Alignment alignment);
/// Throws UsageError that lists the names. A command line cannot name `task`: it has no selected task.
Alignment parseAlignment(const QString& name);
}  // namespace pipescope
