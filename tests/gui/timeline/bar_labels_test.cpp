#include "gui/timeline/bar_labels.h"
#include "gui/style/task_style.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QFontInfo>
#include <QFontMetricsF>
#include <QImage>
#include <QPainter>
#include <QPicture>

namespace pipescope {
namespace {
constexpr double kHeight = 40;

TaskKey key(TaskKind kind, int micro_batch = 3) {
    return {0, kind, 0, micro_batch, -1};
}

QFont scaled(int percent) {
    QFont font = QApplication::font();
    font.setPointSizeF(font.pointSizeF() * percent / 100);
    return font;
}

LabelForm formOf(TaskKind kind, double width, const QFont& font, int micro_batch = 3) {
    const std::vector<VisibleBar> bars{{QRectF(0, 0, width, kHeight), key(kind, micro_batch)}};
    return chooseLabelForms(bars, font)[static_cast<std::size_t>(kind)];
}

/// The smallest width that fits "F3".
double fullWidth(TaskKind kind, const QFont& font) {
    return QFontMetricsF(font).horizontalAdvance(barLabel(key(kind))) + 2;
}

TEST(BarLabels, AreAsRichAsTheWidthAllows) {
    for (const int percent : {100, 150, 200}) {
        const QFont font = scaled(percent);
        for (const TaskKind kind : {TaskKind::forward, TaskKind::recompute, TaskKind::backward}) {
            const double full = fullWidth(kind, font);
            EXPECT_EQ(formOf(kind, full, font), LabelForm::full);
            EXPECT_EQ(formOf(kind, 10 * full, font), LabelForm::full);
            EXPECT_EQ(formOf(kind, full - 0.5, font), LabelForm::number);
            EXPECT_EQ(formOf(kind, 4, font), LabelForm::none);
            EXPECT_EQ(formOf(kind, 0, font), LabelForm::none);
            // Less width never gives a more detailed form.
            for (double width = 1; width < full; width += 0.25) {
                EXPECT_GE(formOf(kind, width, font), formOf(kind, width + 0.25, font)) << width;
            }
        }
    }
}

TEST(BarLabels, ShrinkTheNumberAFifthBeforeItTurns) {
    const QFont font = scaled(100);
    QFont small = font;
    small.setPixelSize(static_cast<int>(0.8 * QFontInfo(font).pixelSize()));
    const double least = QFontMetricsF(small).horizontalAdvance(QStringLiteral("188"));
    EXPECT_EQ(formOf(TaskKind::forward, least + 1, font, 188), LabelForm::number);
    EXPECT_EQ(formOf(TaskKind::forward, least - 1, font, 188), LabelForm::upright);
    EXPECT_EQ(formOf(TaskKind::backward, least - 1, font, 188), LabelForm::upright);
    EXPECT_EQ(formOf(TaskKind::recompute, least - 1, font, 188), LabelForm::none);  // small type on a hatch
    EXPECT_EQ(formOf(TaskKind::forward, 8, font, 188), LabelForm::upright);
    EXPECT_EQ(formOf(TaskKind::forward, 7, font, 188), LabelForm::none);
}

TEST(BarLabels, NameThePartitionIfTheirLaneHasSeveral) {
    const QFont font = scaled(100);
    const TaskKey task{0, TaskKind::forward, 12, 3, -1};
    EXPECT_EQ(barLabelWithPartition(task), QStringLiteral("12F3"));
    EXPECT_EQ(barLabelWithPartition({0, TaskKind::all_reduce, 5, -1, -1}), QStringLiteral("5A"));
    EXPECT_EQ(barLabelWithPartition({0, TaskKind::copy_forward, 5, 3, -1}), QString()) << "it has no letter";
    const double needed = QFontMetricsF(font).horizontalAdvance(QStringLiteral("12F3")) + 2;
    std::vector<VisibleBar> bars{{QRectF(0, 0, needed, kHeight), task, false, true}};
    const auto form = [&] { return chooseLabelForms(bars, font)[static_cast<std::size_t>(TaskKind::forward)]; };
    EXPECT_EQ(form(), LabelForm::full);
    bars.front().rect.setWidth(needed - 1);
    EXPECT_EQ(form(), LabelForm::number);
    bars.front().names_partition = false;
    EXPECT_EQ(form(), LabelForm::full);
}

TEST(BarLabels, LeaveRoomForTheNumberOfAPartitionAboveThem) {
    for (const int percent : {100, 150, 200}) {
        const QFont font = scaled(percent);
        const double ascent = QFontMetricsF(font).ascent();
        bool named = false;
        for (int height = 8; height < 100; ++height) {
            const PartitionTop top = partitionTopOf(height, font, false);
            EXPECT_GE(top.height, 2);
            EXPECT_GE(top.inset, 1) << "else a dark top would vanish on a dark background";
            if (top.named) {
                EXPECT_GE(height - top.bottom(), ascent + 4);
            }
            EXPECT_TRUE(top.named || !named) << "higher rows keep it";
            named = top.named;
            EXPECT_FALSE(partitionTopOf(height, font, true).named);
        }
        EXPECT_TRUE(named);
    }
}

TEST(BarLabels, DoNotShrinkForBarsThatTheEdgeOfTheViewCuts) {
    const QFont font = scaled(100);
    const QRectF wide(0, 0, 2 * fullWidth(TaskKind::forward, font), kHeight);
    std::vector<VisibleBar> bars{{wide, key(TaskKind::forward)}, {wide, key(TaskKind::forward)}};
    const auto form = [&] { return chooseLabelForms(bars, font)[static_cast<std::size_t>(TaskKind::forward)]; };
    bars.push_back({QRectF(0, 0, 2, kHeight), key(TaskKind::forward), true});
    bars.push_back(bars.back());
    EXPECT_EQ(form(), LabelForm::full);
    bars.erase(bars.begin(), bars.begin() + 2);
    EXPECT_EQ(form(), LabelForm::none) << "all that is in view is cut";
}

TEST(BarLabels, AreFullInAWideBarWhateverItsKindHas) {
    const QFont font = scaled(100);
    const double full = std::max(32.0, fullWidth(TaskKind::forward, font));
    std::vector<VisibleBar> bars;
    for (const double width : {2.0, 1.5 * fullWidth(TaskKind::forward, font), 2 * full}) {
        bars.push_back({QRectF(0, 0, width, kHeight), key(TaskKind::forward)});
    }
    const LabelForms forms = chooseLabelForms(bars, font);
    const QFontMetricsF metrics(font);
    EXPECT_EQ(labelFormOf(bars[0], forms, metrics), LabelForm::none);
    EXPECT_EQ(labelFormOf(bars[1], forms, metrics), LabelForm::none) << "as its neighbours";
    EXPECT_EQ(labelFormOf(bars[2], forms, metrics), LabelForm::full);
}

TEST(BarLabels, AreTheSameForNeighboursOfAKind) {
    const QFont font = scaled(100);
    const double full = fullWidth(TaskKind::forward, font);
    std::vector<VisibleBar> bars;
    for (int i = 0; i < 20; ++i) {  // one in twenty is too narrow
        bars.push_back({QRectF(0, 0, i == 7 ? 2 : full + 1, kHeight), key(TaskKind::forward, i % 10)});
    }
    EXPECT_EQ(chooseLabelForms(bars, font)[static_cast<std::size_t>(TaskKind::forward)], LabelForm::full);
    for (int i = 0; i < 5; ++i) {
        bars[static_cast<std::size_t>(i)].rect.setWidth(full - 1);
    }
    EXPECT_EQ(chooseLabelForms(bars, font)[static_cast<std::size_t>(TaskKind::forward)], LabelForm::number);
}

struct Ink {
    int inside = 0;
    int outside = 0;
};

/// The pixels that a label leaves for a bar in the middle of a picture.
Ink paint(const QRectF& bar, const TaskKey& task, LabelForm form, const QFont& font, double scale) {
    QImage image((QSizeF(200, 80) * scale).toSize(), QImage::Format_RGB32);
    image.setDevicePixelRatio(scale);
    image.fill(styleOf(task.kind).color);
    QPainter painter(&image);
    LabelPainter labels;
    labels.begin(font);
    labels.paint(painter, {bar, task}, form);
    painter.end();
    Ink ink;
    for (int y = 0; y < image.height(); ++y) {
        for (int x = 0; x < image.width(); ++x) {
            const bool in = bar.adjusted(-1, -1, 1, 1).contains(QPointF(x, y) / scale);
            const int inked = image.pixel(x, y) != styleOf(task.kind).color.rgb() ? 1 : 0;
            (in ? ink.inside : ink.outside) += inked;
        }
    }
    return ink;
}

TEST(BarLabels, KeepTheirPlatesInTheBarsOfAVectorPicture) {
    const QFont font = scaled(100);
    const TaskKey task = key(TaskKind::backward, 7);
    const QRectF bar(20, 10, QFontMetricsF(font).horizontalAdvance(QLatin1Char('7')) + 2, kHeight);
    QPicture picture;
    QPainter painter(&picture);
    ASSERT_TRUE(isVector(painter));
    LabelPainter labels;
    labels.begin(font);
    labels.paint(painter, {bar, task}, LabelForm::number);
    painter.end();
    QImage image(80, 60, QImage::Format_RGB32);
    image.fill(Qt::magenta);
    QPainter on(&image);
    on.drawPicture(0, 0, picture);
    on.end();
    int inside = 0;
    for (int y = 0; y < image.height(); ++y) {
        for (int x = 0; x < image.width(); ++x) {
            const bool isIn = bar.adjusted(-1, -1, 1, 1).contains(QPointF(x, y));
            EXPECT_TRUE(isIn || image.pixelColor(x, y) == QColor(Qt::magenta)) << x << ", " << y;
            inside += isIn && image.pixelColor(x, y) != QColor(Qt::magenta) ? 1 : 0;
        }
    }
    EXPECT_GT(inside, 20);
}

TEST(BarLabels, StayInTheirBarsAtEveryWidthAndScale) {
    for (const int percent : {100, 150, 200}) {
        const QFont font = scaled(percent);
        for (const double scale : {1.0, 1.5, 2.0}) {
            for (const TaskKind kind : {TaskKind::forward, TaskKind::recompute, TaskKind::backward}) {
                for (double width = 1; width < 90; width += 3.5) {
                    const QRectF bar(60, 20, width, kHeight);
                    const LabelForm form = formOf(kind, width, font, 27);
                    const Ink ink = paint(bar, key(kind, 27), form, font, scale);
                    EXPECT_EQ(ink.outside, 0) << percent << " % x " << scale << ", " << width << " pixels";
                    EXPECT_EQ(ink.inside > 0, form != LabelForm::none)
                        << percent << " % x " << scale << ", " << width << " pixels";
                }
            }
        }
    }
}
}  // namespace
}  // namespace pipescope
