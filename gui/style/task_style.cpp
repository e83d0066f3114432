#include "gui/style/task_style.h"

#include "gui/style/okabe_ito.h"
#include "gui/style/text.h"

#include <QPalette>

#include <array>

namespace pipescope {
namespace {
std::array<KindStyle, kNumTaskKinds> makeStyles() {
    std::array<KindStyle, kNumTaskKinds> styles;
    const auto set = [&](TaskKind kind, QRgb color, Pattern pattern, const QString& letter, const QString& name) {
        styles[static_cast<std::size_t>(kind)] = {QColor::fromRgb(color), pattern, letter, name};
    };
    set(TaskKind::forward, okabe_ito::kOrange, Pattern::plain, translated("F"), translated("forward"));
    set(TaskKind::recompute, okabe_ito::kYellow, Pattern::hatched, translated("R"), translated("recompute"));
    set(TaskKind::backward, okabe_ito::kBlue, Pattern::lined, translated("B"), translated("backward"));
    set(TaskKind::backward_weight, okabe_ito::kSky, Pattern::dotted, translated("W"),
        translated("backward of weights"));
    set(TaskKind::copy_forward, okabe_ito::kGreen, Pattern::plain, {}, translated("copy forward"));
    set(TaskKind::copy_backward, okabe_ito::kGreen, Pattern::hatched, {}, translated("copy backward"));
    set(TaskKind::skip_forward, okabe_ito::kLightGreen, Pattern::lined, {}, translated("skip forward"));
    set(TaskKind::skip_backward, okabe_ito::kLightGreen, Pattern::crossed, {}, translated("skip backward"));
    set(TaskKind::loss, okabe_ito::kVermillion, Pattern::crossed, translated("L"), translated("loss"));
    set(TaskKind::optimizer, okabe_ito::kPurple, Pattern::barred, translated("O"), translated("optimizer"));
    set(TaskKind::all_reduce, okabe_ito::kVermillion, Pattern::back_hatched, translated("A"), translated("all-reduce"));
    return styles;
}
}  // namespace

const KindStyle& styleOf(TaskKind kind) {
    static const std::array<KindStyle, kNumTaskKinds> styles = makeStyles();
    return styles.at(static_cast<std::size_t>(kind));
}

QColor textOn(const QColor& background) {
    return isLight(background) ? Qt::black : Qt::white;
}

bool isDark(const QPalette& palette) {
    return palette.color(QPalette::Window).lightness() < 128;
}

TimelineColors timelineColors(const QPalette& palette) {
    TimelineColors colors;
    const bool dark = isDark(palette);
    colors.paper = palette.color(QPalette::Base);
    colors.text = palette.color(QPalette::Text);
    colors.lane = QColor::fromRgb(dark ? 0x25282B : 0xFAFAFA);
    colors.bubble = QColor::fromRgb(dark ? 0x3A3E42 : 0xE2E2E2);
    colors.bubbleDot = QColor::fromRgb(dark ? 0x52575C : 0xC4C4C4);
    colors.border = QColor::fromRgb(dark ? 0x101214 : 0x404040);
    colors.grid = QColor::fromRgb(dark ? 0x44494E : 0xD0D0D0);
    colors.faintText = QColor::fromRgb(dark ? 0xB4B9BE : 0x5A5A5A);
    colors.selection = QColor::fromRgb(dark ? 0xFFFFFF : 0x000000);
    colors.limit = QColor::fromRgb(dark ? 0xFF6B5E : 0xC62828);
    colors.critical = QColor::fromRgb(dark ? 0xFF7FD0 : 0xB0006E);
    return colors;
}

QString barLabel(const TaskKey& key) {
    const QString& letter = styleOf(key.kind).letter;
    if (letter.isEmpty() || key.micro_batch < 0) {
        return letter;
    }
    return letter + QString::number(key.micro_batch);
}

QString taskName(const TaskKey& key) {
    QString name = styleOf(key.kind).name;
    if (key.micro_batch >= 0) {
        name = translated("%1 of micro-batch %2").arg(name).arg(key.micro_batch);
    }
    if (key.skip >= 0) {
        name = translated("%1, skip %2").arg(name).arg(key.skip);
    }
    if (key.partition < 0) {
        return name;
    }
    if (key.kind == TaskKind::copy_forward || key.kind == TaskKind::copy_backward) {
        return translated("%1 between partitions %2 and %3").arg(name).arg(key.partition).arg(key.partition + 1);
    }
    return translated("%1 on partition %2").arg(name).arg(key.partition);
}
}  // namespace pipescope
