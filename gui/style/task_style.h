#pragma once

#include "schedule/task_key.h"

#include <QColor>
#include <QString>

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

class QPainter;
class QPalette;
class QRectF;

namespace pipescope {
/// Marks a category in addition to its colour, so that colour is never the only cue.
enum class Pattern {
    plain,
    hatched,       ///< lines rising to the right
    back_hatched,  ///< lines falling to the right
    crossed,       ///< both
    lined,         ///< lines along the bar
    barred,        ///< lines across the bar
    dotted,
    dashed,  ///< interrupted lines along the bar
    grid,    ///< lines along and across
};

/// Period of the patterns in pixels, in both directions.
inline constexpr int kPatternPeriod = 8;
/// Inked pixels of a pattern: bit y of element x.
using PatternTile = std::array<std::uint8_t, kPatternPeriod>;
PatternTile tileOf(Pattern pattern);
/// The brush's pattern as drawn on a pixel grid, which repeats after kPatternPeriod pixels.
PatternTile tileOf(Qt::BrushStyle pattern);

/// True if black is more readable than white on this colour.
bool isLight(const QColor& color);
/// Pattern colour for a ground: lighter on a dark ground, darker on a light one.
QColor inkOn(const QColor& ground);
/// Draws the pattern as lines and squares, so that it also suits vector devices.
void paintPattern(QPainter& painter, const QRectF& rect, Pattern pattern, const QColor& ink);

/// The palette of Okabe and Ito (2008), distinguishable in every common form of colour blindness. All category colours
/// are from it or tints of it. Categories also differ in pattern or shape.
namespace okabe_ito {
inline constexpr QRgb kBlack = 0xFF000000;
inline constexpr QRgb kOrange = 0xFFE69F00;
inline constexpr QRgb kSky = 0xFF56B4E9;
inline constexpr QRgb kGreen = 0xFF009E73;
inline constexpr QRgb kYellow = 0xFFF0E442;
inline constexpr QRgb kBlue = 0xFF0072B2;
inline constexpr QRgb kVermillion = 0xFFD55E00;
inline constexpr QRgb kPurple = 0xFFCC79A7;
inline constexpr std::array kAll{kBlack, kOrange, kSky, kGreen, kYellow, kBlue, kVermillion, kPurple};

/// Mixes the colour with this share of white, 0 to 1.
constexpr QRgb tint(QRgb color, double white) {
    const auto channel = [white](int value) { return static_cast<int>(value + (255 - value) * white); };
    return qRgb(channel(qRed(color)), channel(qGreen(color)), channel(qBlue(color)));
}
inline constexpr QRgb kLightGreen = tint(kGreen, 0.5);
inline constexpr QRgb kLightSky = tint(kSky, 0.4);
inline constexpr QRgb kLightOrange = tint(kOrange, 0.45);
inline constexpr QRgb kGrey = tint(kBlack, 0.6);
}  // namespace okabe_ito

/// Colours of ranges of threads and streams. The last one is lighter than the first, and otherwise like it.
inline constexpr std::array kRangeColors{okabe_ito::kSky,    okabe_ito::kOrange, okabe_ito::kGreen,
                                         okabe_ito::kPurple, okabe_ito::kYellow, okabe_ito::kLightSky};
/// The part of a range's name that distinguishes it, a view of it: "forward_step" of "core/schedules.py(30):
/// forward_step", "mm" of "aten::mm", "0F0" of "PP:0F0", "copy" of "void at::copy<float>(int)". The name itself if it
/// has no such parts.
std::string_view lastPartOf(std::string_view name);
/// Indices of the ranges' colours, by the last parts of their names without digits: "step 7" and "step 8" have the same
/// one, "layer.3" and "layer.4" neighbouring ones. The first names of a file differ; later ones may share a colour,
/// where edges and names separate neighbours.
std::vector<std::uint8_t> rangeColorsOf(const std::vector<std::string>& names);

struct KindStyle {
    QColor color;
    Pattern pattern = Pattern::plain;
    QString letter;  ///< before the micro-batch number on a bar: F3, R3, B3
    QString name;    ///< in legend and details
};

/// The half of a backward that computes the gradients of inputs, if a task of its own computes those of weights. Only
/// the viewer tells it from a whole backward (StoredRow::kind). In keys and traces both are TaskKind::backward.
inline constexpr auto kInputHalf = static_cast<TaskKind>(kNumTaskKinds);
/// Kinds that the viewer draws apart: those of tasks, and kInputHalf.
inline constexpr int kNumShownKinds = kNumTaskKinds + 1;
/// The kind in keys of a shown kind.
constexpr TaskKind keyKindOf(TaskKind shown) {
    return shown == kInputHalf ? TaskKind::backward : shown;
}

/// Shown kinds, by their number.
using KindSet = std::bitset<kNumShownKinds>;
inline bool contains(const KindSet& kinds, TaskKind kind) {
    return kinds.test(static_cast<std::size_t>(kind));
}

/// The style of a shown kind. Each kind has its own pattern, but copies and skips, whose bars are thin, share those of
/// tasks.
const KindStyle& styleOf(TaskKind kind);
/// Black or white, whichever is more readable on `background`.
QColor textOn(const QColor& background);

/// Background colours of a timeline, for a light or dark palette.
struct TimelineColors {
    QColor paper;
    QColor lane;    ///< background of a lane outside its steps
    QColor bubble;  ///< idle time of a lane within a step
    QColor bubbleDot;
    QColor border;
    QColor grid;
    QColor text;
    QColor faintText;
    QColor selection;
    QColor limit;
    QColor critical;  ///< the critical path
};
bool isDark(const QPalette& palette);
TimelineColors timelineColors(const QPalette& palette);

/// "F3". The key may have a shown kind. Empty for kinds without a letter: "copy 3 forward" would never fit.
QString barLabel(const TaskKey& key);
/// "5F3" on partition 5, as in the file of a schedule.
QString barLabelWithPartition(const TaskKey& key);
/// The top of a bar on a lane of several partitions: darker than the bar the later the partition is among them, from 0
/// to 1.
QColor partitionShade(const QColor& bar, double place);
inline constexpr double kDarkestShade = 0.6;
/// "forward of micro-batch 3 on partition 1". The key may have a shown kind.
QString taskName(const TaskKey& key);
}  // namespace pipescope
