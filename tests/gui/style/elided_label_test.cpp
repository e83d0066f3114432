#include "gui/style/elided_label.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
TEST(ElidedLabel, LeavesOutLastPartsBeforeItCutsOne) {
    const QString line = QStringLiteral("gpipe  ·  step time 672.2 ms  ·  bubble 12.1 %");
    EXPECT_EQ(withoutLastParts(line),
              QStringList({QStringLiteral("gpipe  ·  step time 672.2 ms"), QStringLiteral("gpipe")}));
    EXPECT_EQ(withoutLastParts(QStringLiteral("one part")), QStringList());
    ElidedLabel label;
    label.setText(line, withoutLastParts(line));
    label.resize(label.fontMetrics().horizontalAdvance(line), 20);
    EXPECT_EQ(label.shownText(), line);
    label.resize(label.width() - 1, 20);
    EXPECT_EQ(label.shownText(), QStringLiteral("gpipe  ·  step time 672.2 ms"));
    label.resize(label.fontMetrics().horizontalAdvance(QStringLiteral("gpipe")) - 1, 20);
    EXPECT_TRUE(label.shownText().endsWith(QChar(0x2026))) << label.shownText().toStdString();
    EXPECT_EQ(label.toolTip(), line);
}

TEST(ElidedLabel, KeepsThePartThatMatters) {
    const QString line = QStringLiteral("gpipe  ·  8 micro-batches  ·  step time 672.2 ms  ·  bubble 12.1 %");
    EXPECT_EQ(
        withPart(line, QStringLiteral("step time")),
        QStringList({QStringLiteral("gpipe  ·  8 micro-batches  ·  step time 672.2 ms"),
                     QStringLiteral("8 micro-batches  ·  step time 672.2 ms"), QStringLiteral("step time 672.2 ms")}));
    const QString more = line + QStringLiteral("  ·  23 samples/s");
    EXPECT_EQ(
        withPart(more, QStringLiteral("step time"), 1),
        QStringList({line, QStringLiteral("8 micro-batches  ·  step time 672.2 ms  ·  bubble 12.1 %"),
                     QStringLiteral("step time 672.2 ms  ·  bubble 12.1 %"), QStringLiteral("step time 672.2 ms")}))
        << "and the bubble, which is worth more than the pipeline";
    EXPECT_EQ(withPart(line, QStringLiteral("loss")), withoutLastParts(line)) << "no part has the word";
}
}  // namespace
}  // namespace pipescope
