#include "gui/style/task_style.h"

#include <gtest/gtest.h>

#include <QImage>
#include <QPainter>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

namespace pipescope {
namespace {
constexpr std::array kPatterns{Pattern::plain,   Pattern::hatched, Pattern::back_hatched,
                               Pattern::crossed, Pattern::lined,   Pattern::barred,
                               Pattern::dotted,  Pattern::dashed,  Pattern::grid};

std::vector<TaskKind> everyKind() {
    std::vector<TaskKind> kinds;
    for (int k = 0; k < kNumShownKinds; ++k) {
        kinds.push_back(static_cast<TaskKind>(k));
    }
    return kinds;
}

/// Contrast ratio of WCAG: 1 for equal colours, 21 for black on white.
double contrast(const QColor& a, const QColor& b) {
    const auto luminance = [](const QColor& color) {
        const auto linear = [](double channel) {
            return channel <= 0.03928 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
        };
        return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
    };
    const auto [low, high] = std::minmax({luminance(a), luminance(b)});
    return (high + 0.05) / (low + 0.05);
}

TEST(TaskStyle, KindsOfOneShapeDifferInPattern) {
    // Copies are distinguished from tasks by their shape: their bars are thin and below the lane's tasks.
    for (const bool copies : {false, true}) {
        std::set<Pattern> patterns;
        std::size_t kinds = 0;
        for (const TaskKind kind : everyKind()) {
            if (is_copy(kind) == copies) {
                patterns.insert(styleOf(kind).pattern);
                ++kinds;
            }
        }
        EXPECT_EQ(patterns.size(), kinds) << (copies ? "copies" : "tasks");
    }
}

TEST(TaskStyle, KindsHaveColoursOfOkabeAndItoOrATint) {
    std::set<QRgb> allowed(okabe_ito::kAll.begin(), okabe_ito::kAll.end());
    allowed.insert(okabe_ito::tint(okabe_ito::kGreen, 0.5));
    for (const TaskKind kind : everyKind()) {
        EXPECT_TRUE(allowed.contains(styleOf(kind).color.rgb())) << styleOf(kind).name.toStdString();
    }
    EXPECT_EQ(okabe_ito::tint(okabe_ito::kGreen, 0.5), 0xFF7FCEB9);
    EXPECT_EQ(okabe_ito::tint(okabe_ito::kBlack, 1), 0xFFFFFFFF);
}

TEST(TaskStyle, LabelsAndPatternsStandOutOnTheirGround) {
    for (const TaskKind kind : everyKind()) {
        const QColor& ground = styleOf(kind).color;
        EXPECT_GE(contrast(ground, textOn(ground)), 4.5) << styleOf(kind).name.toStdString();
        EXPECT_GE(contrast(ground, textOn(ground)),
                  std::max(contrast(ground, Qt::black), contrast(ground, Qt::white)) - 0.01);
        EXPECT_GT(contrast(ground, inkOn(ground)), 1.6) << styleOf(kind).name.toStdString();
    }
}

TEST(TaskStyle, NamesTheHalfOfABackwardApart) {
    EXPECT_EQ(barLabel({0, kInputHalf, 1, 3, -1}), QStringLiteral("I3"));
    EXPECT_EQ(taskName({0, kInputHalf, 1, 3, -1}),
              QStringLiteral("backward of inputs of micro-batch 3 on partition 1"));
    EXPECT_EQ(keyKindOf(kInputHalf), TaskKind::backward);
    EXPECT_EQ(keyKindOf(TaskKind::forward), TaskKind::forward);
}

TEST(Pattern, TilesDifferAndLeaveMostOfTheGround) {
    std::set<PatternTile> tiles;
    for (const Pattern pattern : kPatterns) {
        const PatternTile tile = tileOf(pattern);
        int ink = 0;
        for (const std::uint8_t column : tile) {
            ink += std::popcount(column);
        }
        EXPECT_EQ(ink == 0, pattern == Pattern::plain);
        EXPECT_LT(ink, kPatternPeriod * kPatternPeriod / 2);
        tiles.insert(tile);
    }
    EXPECT_EQ(tiles.size(), kPatterns.size());
}

TEST(Pattern, IsPaintedWithinItsRectangleAndUnlikeTheOthers) {
    std::set<QByteArray> pictures;
    for (const Pattern pattern : kPatterns) {
        QImage image(48, 32, QImage::Format_RGB32);
        image.fill(Qt::white);
        QPainter painter(&image);
        paintPattern(painter, QRectF(8, 8, 32, 16), pattern, Qt::black);
        painter.end();
        int inside = 0;
        for (int y = 0; y < image.height(); ++y) {
            for (int x = 0; x < image.width(); ++x) {
                const bool in = QRect(8, 8, 32, 16).contains(x, y);
                const bool inked = image.pixel(x, y) != QColor(Qt::white).rgb();
                EXPECT_FALSE(!in && inked) << x << " " << y;
                inside += in && inked ? 1 : 0;
            }
        }
        EXPECT_EQ(inside > 0, pattern != Pattern::plain);
        pictures.insert(QByteArray(reinterpret_cast<const char*>(image.constBits()), image.sizeInBytes()));
    }
    EXPECT_EQ(pictures.size(), kPatterns.size());
}
TEST(RangeNames, HaveAPartThatDistinguishesThem) {
    for (const auto& [name, part] : std::vector<std::pair<std::string, std::string>>{
             {"megatron/core/schedules.py(300): forward_step", "forward_step"},
             {"<frozen importlib>(12): <module>", "<module>"},
             {"aten::mm", "mm"},
             {"PP:0F0", "0F0"},
             {"nccl:all_reduce", "all_reduce"},
             {"autograd::engine::evaluate_function: MmBackward0", "MmBackward0"},
             {"void at::native::vectorized_kernel<4, at::native::Add<float> >(int, float)", "vectorized_kernel"},
             {"void at::native::(anonymous namespace)::copy<at::Half>(int)", "copy"},
             {"ns::run(int, char const*)", "run"},
             {"ns::k<a::b>::gemm(int)", "gemm"},
             {"void ns::k<a<b>, 3>::gemm<c::d>(int)", "gemm"},
             {"ns::less<(a)", "less"},
             {"FSDP::pre_forward (layers.3)", "pre_forward (layers.3)"},
             {"Optimizer.step#Adam.step", "Optimizer.step#Adam.step"},
             {"ProfilerStep#3", "ProfilerStep#3"},
             {"a/b/", "a/b/"},
             {"::", "::"},
             {"<<", "<<"},
             {"void ", "void "},
             {"", ""}}) {
        EXPECT_EQ(lastPartOf(name), part) << name;
    }
}

TEST(RangeNames, TellTheNumberedPartsOfAModelApart) {
    const std::vector<std::uint8_t> colors =
        rangeColorsOf({"layer.3", "layer.4", "op_81", "op_233", "step 7", "step 8"});
    EXPECT_NE(colors[0], colors[1]);
    EXPECT_NE(colors[2], colors[3]);
    EXPECT_EQ(colors[4], colors[5]) << "a step is the same work again";
}

TEST(RangeNames, HaveColoursOfTheirOwnAsLongAsThereAreSome) {
    std::vector<std::string> names;
    for (char letter = 'a'; letter <= 'z'; ++letter) {
        names.push_back("file.py(1): " + std::string(1, letter));
        names.push_back("other.py(22): " + std::string(1, letter) + "7");
    }
    const std::vector<std::uint8_t> colors = rangeColorsOf(names);
    ASSERT_EQ(colors.size(), names.size());
    std::set<std::uint8_t> first;
    for (std::size_t i = 0; i < names.size(); i += 2) {
        EXPECT_EQ(colors[i], colors[i + 1]) << names[i] << ": files and digits do not matter";
        EXPECT_LT(colors[i], kRangeColors.size());
        if (i < 2 * kRangeColors.size()) {
            first.insert(colors[i]);
        }
    }
    EXPECT_EQ(first.size(), kRangeColors.size());
    names.resize(2 * (kRangeColors.size() - 1));
    for (const std::uint8_t color : rangeColorsOf(names)) {
        EXPECT_NE(kRangeColors[color], okabe_ito::kLightSky) << "two blues for few names look alike";
    }
}
}  // namespace
}  // namespace pipescope
