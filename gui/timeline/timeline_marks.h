#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/task_join.h"
#include "gui/style/task_style.h"
#include "gui/timeline/timeline_store.h"

#include <QBrush>
#include <QString>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// What is drawn on top of a timeline's bars, about one step. Threading: immutable once built.
struct TimelineMarks {
    std::vector<BubblePiece> bubbles;                   ///< shaded by their cause
    std::vector<SliceRef> critical;                     ///< the critical path, in its order
    std::vector<std::pair<SliceRef, SliceRef>> arrows;  ///< from what is waited for to what waits

    /// Outlines of the other timeline's tasks; null: none. Lanes are matched by their number.
    std::shared_ptr<const TimelineStore> ghosts;
    std::int64_t ghostShift = 0;  ///< added to its times

    /// Paint these tasks by how late they ended and not by their kind.
    std::vector<TaskPair> differences;
    std::int64_t differenceScale = 0;  ///< ns; this late is "very late"
};

/// How a bubble of this cause is filled.
QBrush brushOf(BubbleCause cause, const TimelineColors& colors);
QString nameOf(BubbleCause cause);

/// Lateness in steps that can be told apart: blue for early, orange for late, never red against green, hatched in
/// opposite directions, and lined where it is much.
enum class Lateness { very_early, early, as_simulated, late, very_late };
inline constexpr int kNumLateness = 5;
/// Within a tenth of the scale nothing is late, from a half on it is very late.
Lateness latenessOf(std::int64_t ns, std::int64_t scale);
struct LatenessStyle {
    QColor color;
    Qt::BrushStyle pattern = Qt::SolidPattern;
};
LatenessStyle styleOf(Lateness lateness, const TimelineColors& colors);
/// Laid over the tasks that are not compared, those of other steps and those without a twin: their kinds' colours would
/// be taken for a lateness.
QColor veilOf(const TimelineColors& colors);
/// "late by 0.2 ms to 1 ms"
QString describe(Lateness lateness, std::int64_t scale);
/// The scale for these pairs: the greatest change of an end, rounded up to 1, 2 or 5 times a power of ten.
std::int64_t differenceScaleOf(const std::vector<TaskPair>& pairs);
}  // namespace pipescope
