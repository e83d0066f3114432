#include "gui/style/task_style.h"

#include "gui/style/number_format.h"

#include <QImage>
#include <QPainter>
#include <QPalette>
#include <QRectF>

#include <algorithm>
#include <array>
#include <iterator>

namespace pipescope {
namespace {
constexpr int kDash = 5;  // of a period
constexpr double kDot = 1.5;
constexpr double kThin = 1.2;
constexpr double kThick = 1.8;

bool hasInk(Pattern pattern, int x, int y) {
    constexpr int kHalf = kPatternPeriod / 2;
    const bool rising = (x + y) % kPatternPeriod < 2;
    const bool falling = (x - y + kPatternPeriod) % kPatternPeriod < 2;
    switch (pattern) {
        case Pattern::plain: return false;
        case Pattern::hatched: return rising;
        case Pattern::back_hatched: return falling;
        case Pattern::crossed: return (x + y) % kPatternPeriod == 0 || (x - y + kPatternPeriod) % kPatternPeriod == 0;
        case Pattern::lined: return y == kHalf - 1;
        case Pattern::barred: return x % kHalf == 1;
        case Pattern::dotted: return x % kHalf == 1 && y % kHalf == 1;
        case Pattern::dashed: return y == kHalf - 1 && x % kPatternPeriod < kDash;
        case Pattern::grid: return y == kHalf - 1 || x % kHalf == 1;
    }
    return false;
}

/// Draws lines through the rectangle that rise (1) or fall (-1) to the right.
void paintDiagonals(QPainter& painter, const QRectF& rect, int slope) {
    const double height = rect.height();
    // Lines end at the rectangle's sides, since Qt's SVG files have no clips.
    const auto draw = [&](double x) {
        const double left = std::max(x, rect.left());
        const double right = std::min(x + height, rect.right());
        if (left < right) {
            const auto y = [&](double at) { return slope > 0 ? rect.bottom() - (at - x) : rect.top() + (at - x); };
            painter.drawLine(QPointF(left, y(left)), QPointF(right, y(right)));
        }
    };
    for (double x = rect.left() - height; x < rect.right(); x += kPatternPeriod) {
        draw(x);
    }
}

void paintAlong(QPainter& painter, const QRectF& rect) {
    for (double y = rect.top() + kPatternPeriod / 2.0 - 0.5; y < rect.bottom(); y += kPatternPeriod) {
        painter.drawLine(QPointF(rect.left(), y), QPointF(rect.right(), y));
    }
}

void paintAcross(QPainter& painter, const QRectF& rect) {
    for (double x = rect.left() + 1.5; x < rect.right(); x += kPatternPeriod / 2.0) {
        painter.drawLine(QPointF(x, rect.top()), QPointF(x, rect.bottom()));
    }
}

void paintDots(QPainter& painter, const QRectF& rect, const QColor& ink) {
    constexpr double kStep = kPatternPeriod / 2.0;
    for (double y = rect.top() + 1; y < rect.bottom(); y += kStep) {
        for (double x = rect.left() + 1; x < rect.right(); x += kStep) {
            painter.fillRect(QRectF(x, y, kDot, kDot), ink);
        }
    }
}

std::array<KindStyle, kNumShownKinds> makeStyles() {
    std::array<KindStyle, kNumShownKinds> styles;
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
    set(kInputHalf, okabe_ito::kBlue, Pattern::dashed, translated("I"), translated("backward of inputs"));
    set(TaskKind::all_reduce, okabe_ito::kVermillion, Pattern::back_hatched, translated("A"), translated("all-reduce"));
    set(TaskKind::shared_forward, okabe_ito::kLightGreen, Pattern::dotted, {}, translated("shared weights"));
    set(TaskKind::shared_backward, okabe_ito::kLightGreen, Pattern::barred, {}, translated("shared gradients"));
    set(TaskKind::shared_sum, okabe_ito::kVermillion, Pattern::grid, translated("S"),
        translated("sum of shared gradients"));
    return styles;
}
}  // namespace

PatternTile tileOf(Pattern pattern) {
    PatternTile tile{};
    for (int x = 0; x < kPatternPeriod; ++x) {
        for (int y = 0; y < kPatternPeriod; ++y) {
            const int bit = hasInk(pattern, x, y) ? 1 << y : 0;
            tile[static_cast<std::size_t>(x)] = static_cast<std::uint8_t>(tile[static_cast<std::size_t>(x)] | bit);
        }
    }
    return tile;
}

PatternTile tileOf(Qt::BrushStyle pattern) {
    PatternTile tile{};
    if (pattern == Qt::SolidPattern || pattern == Qt::NoBrush) {
        return tile;
    }
    QImage image(kPatternPeriod, kPatternPeriod, QImage::Format_RGB32);
    image.fill(Qt::white);
    QPainter(&image).fillRect(image.rect(), QBrush(Qt::black, pattern));
    for (int x = 0; x < kPatternPeriod; ++x) {
        for (int y = 0; y < kPatternPeriod; ++y) {
            const bool ink = qGray(image.pixel(x, y)) < 128;
            tile[static_cast<std::size_t>(x)] |= static_cast<std::uint8_t>(ink ? 1 << y : 0);
        }
    }
    return tile;
}

bool isLight(const QColor& color) {
    constexpr double kAsReadable = 100;  // luminance at which black and white have about equal contrast
    return 0.299 * color.red() + 0.587 * color.green() + 0.114 * color.blue() > kAsReadable;
}

QColor inkOn(const QColor& ground) {
    constexpr double kShare = 0.45;
    const int target = isLight(ground) ? 0 : 255;
    const auto channel = [&](int value) { return static_cast<int>(value + (target - value) * kShare); };
    return QColor(channel(ground.red()), channel(ground.green()), channel(ground.blue()));
}

void paintPattern(QPainter& painter, const QRectF& rect, Pattern pattern, const QColor& ink) {
    if (pattern == Pattern::plain || rect.isEmpty()) {
        return;
    }
    painter.save();
    painter.setClipRect(rect, Qt::IntersectClip);
    painter.setPen(QPen(ink, pattern == Pattern::hatched || pattern == Pattern::back_hatched ? kThick : kThin));
    switch (pattern) {
        case Pattern::plain: break;
        case Pattern::hatched: paintDiagonals(painter, rect, 1); break;
        case Pattern::back_hatched: paintDiagonals(painter, rect, -1); break;
        case Pattern::crossed:
            paintDiagonals(painter, rect, 1);
            paintDiagonals(painter, rect, -1);
            break;
        case Pattern::lined: paintAlong(painter, rect); break;
        case Pattern::barred: paintAcross(painter, rect); break;
        case Pattern::grid:
            paintAlong(painter, rect);
            paintAcross(painter, rect);
            break;
        case Pattern::dotted: paintDots(painter, rect, ink); break;
        case Pattern::dashed:
            for (double y = rect.top() + kPatternPeriod / 2.0 - 0.5; y < rect.bottom(); y += kPatternPeriod) {
                for (double x = rect.left(); x < rect.right(); x += kPatternPeriod) {
                    painter.drawLine(QPointF(x, y), QPointF(std::min(x + kDash, rect.right()), y));
                }
            }
            break;
    }
    painter.restore();
}

const KindStyle& styleOf(TaskKind kind) {
    static const std::array<KindStyle, kNumShownKinds> styles = makeStyles();
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

QString barLabelWithPartition(const TaskKey& key) {
    const QString label = barLabel(key);
    return label.isEmpty() || key.partition < 0 ? label : QString::number(key.partition) + label;
}

QColor partitionShade(const QColor& bar, double place) {
    const auto channel = [&](int value) { return static_cast<int>(value - value * (kDarkestShade * place)); };
    return {channel(bar.red()), channel(bar.green()), channel(bar.blue())};
}

QString taskName(const TaskKey& key) {
    QString name = styleOf(key.kind).name;
    if (key.micro_batch >= 0) {
        name = translated("%1 of micro-batch %2").arg(name).arg(key.micro_batch);
    }
    if (key.skip >= 0) {
        name =
            (is_of_shared(key.kind) ? translated("%1, route %2") : translated("%1, skip %2")).arg(name).arg(key.skip);
    }
    if (key.partition < 0) {
        return name;
    }
    if (key.kind == TaskKind::copy_forward || key.kind == TaskKind::copy_backward) {
        return translated("%1 between partitions %2 and %3").arg(name).arg(key.partition).arg(key.partition + 1);
    }
    return translated("%1 on partition %2").arg(name).arg(key.partition);
}

namespace {
/// Where the arguments of a C++ function, or of its template, begin. Those of a class in front of it do not count.
std::size_t argumentsOf(std::string_view name) {
    auto begin = name.find_first_of("<(", 1);
    while (begin != std::string_view::npos) {
        if (name[begin - 1] != ':') {  // otherwise an (anonymous namespace)
            int depth = 0;
            auto end = begin;
            for (; end < name.size() && name[begin] == '<'; ++end) {
                depth += name[end] == '<' ? 1 : name[end] == '>' ? -1 : 0;
                if (depth == 0) {
                    break;
                }
            }
            if (end == begin || end == name.size() || name.substr(end + 1, 2) != "::") {
                return begin;
            }
            begin = end;
        }
        begin = name.find_first_of("<(", begin + 1);
    }
    return begin;
}
}  // namespace

std::string_view lastPartOf(std::string_view name) {
    const std::string_view whole = name;
    if (const auto caller = name.rfind("): "); caller != std::string_view::npos) {  // file.py(12): function
        name.remove_prefix(caller + 3);
    } else if (name.starts_with("void ") || name.find("::") != std::string_view::npos) {
        // Of a C++ function, without its parameters. What stands in brackets behind a blank is a remark.
        const auto end = argumentsOf(name);
        const bool isList = end != std::string_view::npos && name[end - 1] != ' ';
        name = isList ? name.substr(0, end) : name;
        if (const auto result = name.find(' '); isList && result != std::string_view::npos) {
            name.remove_prefix(result + 1);
        }
    }
    if (const auto separator = name.find_last_of("/\\:"); separator != std::string_view::npos) {
        name.remove_prefix(separator + 1);
    }
    while (name.starts_with(' ')) {
        name.remove_prefix(1);
    }
    return name.empty() ? whole : name;
}

namespace {
/// The number at the end of "layer.3" and "op_81": 3 and 81. 0 for other names, such as "step 7".
std::size_t numberOfPart(std::string_view name) {
    const std::size_t last = name.find_last_not_of("0123456789");
    const bool isPart =
        last != std::string_view::npos && last + 1 < name.size() && (name[last] == '.' || name[last] == '_');
    std::size_t number = 0;
    for (const char digit : isPart ? name.substr(last + 1) : std::string_view()) {
        number = (10 * number + static_cast<std::size_t>(digit - '0')) % kRangeColors.size();
    }
    return number;
}
}  // namespace

std::vector<std::uint8_t> rangeColorsOf(const std::vector<std::string>& names) {
    std::vector<std::string> first;  // by colour: the name that has it before all others
    std::vector<std::uint8_t> ofFirst;
    std::array<bool, kRangeColors.size()> taken{};
    std::vector<std::uint8_t> colors;
    colors.reserve(names.size());
    std::string key;
    for (const std::string& name : names) {
        key.clear();
        std::ranges::copy_if(lastPartOf(name), std::back_inserter(key),
                             [](char letter) { return letter < '0' || letter > '9'; });
        std::uint32_t hash = 2166136261U;  // FNV-1a
        for (const char letter : key) {
            hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
        }
        auto color = static_cast<std::uint8_t>((hash >> 8) % kRangeColors.size());
        const auto known = std::ranges::find(first, key);
        if (known != first.end()) {
            color = ofFirst[static_cast<std::size_t>(known - first.begin())];
        } else if (first.size() < kRangeColors.size()) {
            // The last one resembles the first, so it is the last to be given.
            const bool isLast = first.size() + 1 == kRangeColors.size();
            while (taken[color] || (!isLast && color + 1U == kRangeColors.size())) {
                color = static_cast<std::uint8_t>((color + 1U) % kRangeColors.size());
            }
            taken[color] = true;
            first.push_back(key);
            ofFirst.push_back(color);
        }
        colors.push_back(static_cast<std::uint8_t>((color + numberOfPart(lastPartOf(name))) % kRangeColors.size()));
    }
    return colors;
}
}  // namespace pipescope
