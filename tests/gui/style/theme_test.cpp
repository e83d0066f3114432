#include "gui/style/theme.h"
#include "gui/style/icons.h"
#include "gui/style/task_style.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <QAction>
#include <QApplication>
#include <QDir>
#include <QPalette>
#include <QPixmap>
#include <QWidget>

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
/// Relative luminance and contrast, as WCAG 2 defines them.
double luminanceOf(const QColor& color) {
    const auto linear = [](double channel) {
        return channel <= 0.04045 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
}

double contrastOf(const QColor& a, const QColor& b) {
    const double high = std::max(luminanceOf(a), luminanceOf(b));
    const double low = std::min(luminanceOf(a), luminanceOf(b));
    return (high + 0.05) / (low + 0.05);
}

class ThemeTest : public testing::TestWithParam<Theme> {
protected:
    void SetUp() override { applyTheme(GetParam()); }
    void TearDown() override { applyTheme(Theme::light); }
};

TEST_P(ThemeTest, HasTextThatCanBeReadOnEveryGround) {
    const QPalette palette = QApplication::palette();
    const TimelineColors colors = timelineColors(palette);
    for (const auto ground : {QPalette::Window, QPalette::Base, QPalette::AlternateBase, QPalette::Button}) {
        const QColor on = palette.color(ground);
        EXPECT_GE(contrastOf(palette.color(QPalette::Text), on), 7) << ground;
        EXPECT_GE(contrastOf(palette.color(QPalette::PlaceholderText), on), 4.5) << ground;
        EXPECT_GE(contrastOf(colors.faintText, on), 4.5) << ground;
        EXPECT_GE(contrastOf(palette.color(QPalette::Link), on), 4.5) << ground;
    }
    EXPECT_GE(contrastOf(palette.color(QPalette::HighlightedText), palette.color(QPalette::Highlight)), 4.5);
    EXPECT_GE(contrastOf(colors.text, colors.bubble), 4.5);
    EXPECT_GE(contrastOf(palette.color(QPalette::Disabled, QPalette::Text), palette.color(QPalette::Base)), 3)
        << "greyed text can still be read";
}

TEST_P(ThemeTest, IsLightOrDarkThroughout) {
    EXPECT_EQ(isDark(QApplication::palette()), GetParam() == Theme::dark);
    EXPECT_FALSE(qApp->styleSheet().contains(QLatin1Char('%'))) << "a colour is missing";
}

TEST_P(ThemeTest, DrawsEveryIconInTheTextsColour) {
    const QPalette palette = QApplication::palette();
    lineIcon(QStringLiteral("open"), palette);  // loads the resources
    const QStringList names = QDir(QStringLiteral(":/pipescope/icons")).entryList({QStringLiteral("*.svg")});
    EXPECT_GE(names.size(), 20);
    for (const QString& name : names) {
        if (name == QLatin1String("check.svg")) {
            continue;  // stands on the accent of a ticked box
        }
        const QImage image =
            lineIcon(name.chopped(4), palette).pixmap(QSize(24, 24)).toImage().convertToFormat(QImage::Format_ARGB32);
        int inked = 0;
        for (int y = 0; y < image.height(); ++y) {
            for (int x = 0; x < image.width(); ++x) {
                const QColor color = image.pixelColor(x, y);
                inked += color.alpha() > 200 ? 1 : 0;
                if (color.alpha() == 255) {
                    EXPECT_EQ(color.rgb(), palette.color(QPalette::WindowText).rgb()) << name.toStdString();
                }
            }
        }
        EXPECT_GT(inked, 10) << name.toStdString();
        EXPECT_LT(inked, 24 * 24 / 2) << name.toStdString() << " is a drawing of lines";
    }
    EXPECT_THROW(lineIcon(QStringLiteral("no such"), palette), Error);
}

TEST_P(ThemeTest, ReachesTheIconsOfActions) {
    QWidget window;
    QAction action(&window);
    asTool(action, Tool::fit);
    refreshIcons(window);
    EXPECT_FALSE(action.icon().isNull());
    EXPECT_TRUE(toolsOf(window).contains(&action));
}

INSTANTIATE_TEST_SUITE_P(Themes, ThemeTest, testing::Values(Theme::light, Theme::dark));
}  // namespace
}  // namespace pipescope
