#include "gui/style/quantity_box.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTest>

namespace pipescope {
namespace {
QString plain_spaces(QString text) {
    return text.replace(QChar(QChar::Nbsp), QLatin1Char(' '));
}

class QuantityBoxTest : public testing::Test {
protected:
    void type(QuantityBox& box, const char* text) {
        box.show();
        box.setFocus();
        box.selectAll();
        QTest::keyClicks(&box, QString::fromUtf8(text));
        QTest::keyClick(&box, Qt::Key_Return);
    }
    QString refusal(QSignalSpy& refused) {
        const QString why = refused.isEmpty() ? QString() : refused.takeLast().front().toString();
        refused.clear();
        return plain_spaces(why);
    }
};

TEST_F(QuantityBoxTest, TakesBytesInTheUnitThatIsTyped) {
    QuantityBox box(QStringLiteral("Memory limit"), Quantity::bytes);
    box.setRange(0, 1e6);
    QSignalSpy refused(&box, &QuantityBox::refused);
    constexpr double kMiB = 1.0 / 1024;
    type(box, "30 MiB");
    EXPECT_EQ(box.value(), 30 * kMiB);
    EXPECT_EQ(plain_spaces(box.text()), QStringLiteral("30 MiB"));
    type(box, "1.5GB");
    EXPECT_NEAR(box.value(), 1.5e9 / (1 << 30), 1e-9);
    type(box, "16");  // the unit of the value
    EXPECT_EQ(box.value(), 16);
    EXPECT_EQ(plain_spaces(box.text()), QStringLiteral("16 GiB"));
    type(box, "7 B");
    EXPECT_NEAR(box.value() * (1 << 30), 7, 1e-3);
    EXPECT_TRUE(refused.isEmpty()) << refusal(refused).toStdString();
}

TEST_F(QuantityBoxTest, TakesRatesAndDurations) {
    QuantityBox rate(QStringLiteral("Link bandwidth"), Quantity::rate);
    rate.setRange(0, 1e6);
    type(rate, "1 kB/s");
    EXPECT_NEAR(rate.value(), 1e-6, 1e-12);
    EXPECT_EQ(plain_spaces(rate.text()), QStringLiteral("1 kB/s"));
    type(rate, "12.345");
    EXPECT_EQ(rate.value(), 12.345);
    type(rate, "0");
    EXPECT_EQ(rate.value(), 0);
    QuantityBox time(QStringLiteral("Link latency"), Quantity::duration);
    time.setRange(0, 1e9);
    type(time, "2ms");
    EXPECT_EQ(time.value(), 2000);
    type(time, "3 µs");
    EXPECT_EQ(time.value(), 3);
    type(time, "250 ns");
    EXPECT_EQ(time.value(), 0.25);
}

TEST_F(QuantityBoxTest, RefusesWhatItCannotTakeAndSaysWhy) {
    QuantityBox box(QStringLiteral("Memory limit"), Quantity::bytes);
    box.setRange(0, 1024);
    box.setValue(2);
    QSignalSpy refused(&box, &QuantityBox::refused);
    QSignalSpy changed(&box, &QDoubleSpinBox::valueChanged);
    for (const char* text : {"30 MB/s", "30 XiB", "much", "-3 GiB", "2 TiB"}) {
        type(box, text);
        EXPECT_EQ(box.value(), 2) << text;
        EXPECT_EQ(plain_spaces(box.text()), QStringLiteral("2 GiB"));
        const QString why = refusal(refused);
        EXPECT_TRUE(why.startsWith(QStringLiteral("Memory limit is"))) << text << ": " << why.toStdString();
    }
    box.selectAll();
    QTest::keyClick(&box, Qt::Key_Delete);
    QTest::keyClick(&box, Qt::Key_Return);
    EXPECT_TRUE(refusal(refused).startsWith(QStringLiteral("Memory limit is ''")));
    EXPECT_TRUE(changed.isEmpty());
}

TEST_F(QuantityBoxTest, SaysTheRangeOfANumber) {
    QuantityBox box(QStringLiteral("Partitions"), Quantity::number);
    box.setRange(1, 6);
    box.setValue(4);
    QSignalSpy refused(&box, &QuantityBox::refused);
    for (const char* text : {"999", "0", "2.5", "two", "-1"}) {
        type(box, text);
        EXPECT_EQ(box.value(), 4) << text;
        const QString why = refusal(refused);
        EXPECT_TRUE(why.contains(QString::fromUtf8(text)) && why.contains(QStringLiteral("from 1 to 6")))
            << text << ": " << why.toStdString();
    }
    type(box, "6");
    EXPECT_EQ(box.value(), 6);
    EXPECT_TRUE(refused.isEmpty());
}

TEST_F(QuantityBoxTest, KeepsTheValueThatItShowsWithFewerDigits) {
    QuantityBox box(QStringLiteral("Memory limit"), Quantity::bytes);
    box.setRange(0, 1024);
    box.setValue(12'345'678'901.0 / (1 << 30));
    const double exact = box.value();
    box.show();
    box.setFocus();
    QTest::keyClick(&box, Qt::Key_Return);
    EXPECT_EQ(box.value(), exact);
}

TEST_F(QuantityBoxTest, StepsInTheShownUnit) {
    QuantityBox box(QStringLiteral("Memory limit"), Quantity::bytes);
    box.setRange(0, 1024);
    box.setSpecialValueText(QStringLiteral("no limit"));
    box.show();
    QTest::keyClick(&box, Qt::Key_Up);
    EXPECT_EQ(plain_spaces(box.text()), QStringLiteral("1 MiB"));
    box.setValue(30.0 / 1024);
    QTest::keyClick(&box, Qt::Key_Up);
    EXPECT_EQ(plain_spaces(box.text()), QStringLiteral("31 MiB"));
    type(box, "no limit");
    EXPECT_EQ(box.value(), 0);
}
}  // namespace
}  // namespace pipescope
