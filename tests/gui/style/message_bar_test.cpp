#include "gui/style/message_bar.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QToolButton>

namespace pipescope {
namespace {
class MessageBarTest : public testing::Test {
protected:
    int heightWith(const QString& text) {
        bar_.showMessage(MessageBar::Kind::note, text);
        QApplication::processEvents();
        return bar_.sizeHint().height();
    }

    MessageBar bar_;
};

TEST_F(MessageBarTest, ShowsTwoLinesOfALongMessageUntilTheRestIsAskedFor) {
    bar_.resize(600, 40);
    const QString line = QStringLiteral("a part of the file is missing");
    const int one = heightWith(line);
    EXPECT_FALSE(bar_.more().isVisible());
    const int two = heightWith(line + QLatin1Char('\n') + line);
    EXPECT_FALSE(bar_.more().isVisible());
    EXPECT_GE(two, one);
    const QString eight = QStringList(8, line).join(QLatin1Char('\n'));
    EXPECT_EQ(heightWith(eight), two);
    ASSERT_TRUE(bar_.more().isVisible());
    EXPECT_EQ(bar_.accessibleDescription(), eight) << "a screen reader reads all of it";
    bar_.more().click();
    QApplication::processEvents();
    EXPECT_GE(bar_.sizeHint().height(), two + 6 * bar_.fontMetrics().height());
    bar_.more().click();
    EXPECT_EQ(heightWith(eight), two);
    bar_.more().click();
    EXPECT_EQ(heightWith(eight + line), two) << "another message starts with two lines again";
}

TEST_F(MessageBarTest, CountsTheLinesThatANarrowWindowNeeds) {
    const QString text =
        QStringLiteral("the trace of this run is incomplete, so its bubbles are not known and not shown");
    bar_.resize(1600, 40);
    heightWith(text);
    EXPECT_FALSE(bar_.more().isVisible());
    bar_.resize(200, 40);
    QApplication::processEvents();
    EXPECT_TRUE(bar_.more().isVisible());
}
}  // namespace
}  // namespace pipescope
