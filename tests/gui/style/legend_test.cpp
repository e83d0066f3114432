#include "gui/style/legend.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QHelpEvent>
#include <QImage>
#include <QToolTip>

#include <set>

namespace pipescope {
namespace {
std::vector<TaskKind> allKinds() {
    std::vector<TaskKind> kinds;
    for (int k = 0; k < kNumTaskKinds; ++k) {
        kinds.push_back(static_cast<TaskKind>(k));
    }
    return kinds;
}

/// The pattern of a legend's only swatch: its pixels that differ from the most frequent colour inside the frame.
QByteArray inkOf(TaskKind kind) {
    Legend legend;
    legend.setKinds({kind});
    legend.resize(400, 40);
    const QImage image = legend.grab().toImage();
    const int height = is_copy(kind) ? 6 : 12;
    const int top = 2 + (legend.fontMetrics().height() + 4 - height) / 2;
    const QColor ground = styleOf(kind).color;
    QByteArray ink;
    for (int y = top + 1; y < top + height; ++y) {
        for (int x = 7; x < 27; ++x) {
            ink.append(image.pixelColor(x, y) == ground ? '.' : '#');
        }
    }
    return ink;
}

TEST(Legend, ShowsKindsOfOneShapeInDifferentPatterns) {
    for (const bool copies : {false, true}) {
        std::set<QByteArray> swatches;
        std::size_t kinds = 0;
        for (const TaskKind kind : allKinds()) {
            if (is_copy(kind) == copies) {
                swatches.insert(inkOf(kind));
                ++kinds;
                EXPECT_EQ(inkOf(kind).contains('#'), styleOf(kind).pattern != Pattern::plain);
            }
        }
        EXPECT_EQ(swatches.size(), kinds) << (copies ? "copies" : "tasks");
    }
}

TEST(Legend, ShowsCopiesInTheColourOfTheirLinks) {
    Legend legend;
    legend.setKinds({TaskKind::copy_forward});
    legend.resize(400, 40);
    const auto colorOf = [&] {
        const QRect place = legend.places().front().second;
        return legend.grab().toImage().pixelColor(place.left() + 5, place.center().y());
    };
    EXPECT_EQ(colorOf(), styleOf(TaskKind::copy_forward).color);
    legend.setCopyColor(Qt::magenta);
    EXPECT_EQ(colorOf(), QColor(Qt::magenta));
    legend.setCopyColor({});
    EXPECT_EQ(colorOf(), styleOf(TaskKind::copy_forward).color);
}

TEST(Legend, TellsMoreAboutAnEntryInAToolTip) {
    Legend legend;
    legend.setKinds({TaskKind::forward});
    legend.setEntries({{Qt::green, Qt::NoBrush, QStringLiteral("copies"), -1, false, QStringLiteral("10 GB/s")}},
                      false);
    legend.resize(400, 40);
    legend.show();
    const auto tipAt = [&](const QString& name) {
        for (const auto& [each, place] : legend.places()) {
            if (each == name) {
                QHelpEvent event(QEvent::ToolTip, place.center(), legend.mapToGlobal(place.center()));
                QApplication::sendEvent(&legend, &event);
                return QToolTip::isVisible() ? QToolTip::text() : QString();
            }
        }
        return QStringLiteral("no such entry");
    };
    EXPECT_EQ(tipAt(QStringLiteral("copies")), QStringLiteral("10 GB/s"));
    QToolTip::hideText();
}

// Such as why tasks are not compared, in a narrow window.
TEST(Legend, ShortensANameThatIsWiderThanItselfAndGivesItInAToolTip) {
    Legend legend;
    const QString name = QStringLiteral("faint: tasks are not compared: ") + QString(120, QLatin1Char('x'));
    legend.setEntries({LegendEntry{Qt::gray, QBrush(), name}}, true);
    legend.resize(400, 60);
    const QRect place = legend.places().front().second;
    EXPECT_LE(place.right(), legend.width());
    QHelpEvent help(QEvent::ToolTip, place.center(), legend.mapToGlobal(place.center()));
    QApplication::sendEvent(&legend, &help);
    EXPECT_EQ(QToolTip::text(), name);
}

TEST(Legend, WrapsSoThatNoNameIsCutOffWhateverTheFont) {
    for (const int percent : {100, 150, 200}) {
        Legend legend;
        legend.setKinds(allKinds());
        legend.resize(420, 10);
        legend.show();
        QFont font = legend.font();
        font.setPointSizeF(font.pointSizeF() * percent / 100);
        legend.setFont(font);
        QApplication::processEvents();
        EXPECT_EQ(legend.height(), legend.heightForWidth(420)) << percent;
        EXPECT_GT(legend.height(), 2 * legend.fontMetrics().height()) << percent;
        // The last column of pixels is empty: nothing extends beyond the widget.
        const QImage image = legend.grab().toImage();
        const QRgb ground = image.pixel(0, 0);
        for (int y = 0; y < image.height(); ++y) {
            EXPECT_EQ(image.pixel(image.width() - 1, y), ground) << percent << " % at line " << y;
        }
        for (int x = 0; x < image.width(); ++x) {
            EXPECT_EQ(image.pixel(x, image.height() - 1), ground) << percent << " % at column " << x;
        }
    }
}
}  // namespace
}  // namespace pipescope
