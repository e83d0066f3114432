#include "gui/style/image_export.h"

#include "base/error.h"
#include "gui/document/document_loader.h"
#include "gui/style/theme.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "tests/gui/sample_trace.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QApplication>
#include <QHBoxLayout>
#include <QImage>
#include <QLabel>
#include <QToolButton>
#include <QXmlStreamReader>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<MainWindow> showSample(const std::string& name) {
    const auto path = temporaryPath(name);
    writeSampleTrace(path);
    auto window = std::make_unique<MainWindow>(nullptr);
    window->resize(1000, 700);
    window->show();
    window->files().setDocument(loadTrace(QString::fromStdString(path.string())));
    window->finishWork();  // such as the answer
    return window;
}

TEST(ImageExport, DrawsTheSameBytesTwice) {
    for (const ImageFormat format : {ImageFormat::png, ImageFormat::svg, ImageFormat::pdf}) {
        const QByteArray first = drawImage(*showSample("same.sqlite"), format);
        EXPECT_EQ(first, drawImage(*showSample("same.sqlite"), format)) << static_cast<int>(format);
        EXPECT_GT(first.size(), 1000);
    }
}

TEST(ImageExport, DrawsSlicesAsShapesInAVectorImage) {
    applyTheme(Theme::light);
    const QByteArray svg = drawImage(*showSample("vector.sqlite"), ImageFormat::svg);
    EXPECT_GT(svg.count("#0072b2"), 4);  // backward
    EXPECT_TRUE(svg.contains("MEASURED"));
    EXPECT_TRUE(svg.contains("<svg width=\"1000\" height=\"700\""));
    EXPECT_FALSE(svg.contains("mm\"")) << "browsers and word processors take pixels";
    EXPECT_TRUE(svg.contains(">File<")) << "whole words, without a mnemonic's underlined letter";
}

TEST(ImageExport, WritesXmlWhateverANameHolds) {
    QLabel label(QStringLiteral("model \x1b[31m & \a"));
    label.setWindowTitle(QStringLiteral("title \x01"));
    QXmlStreamReader reader(drawImage(label, ImageFormat::svg));
    while (!reader.atEnd()) {
        reader.readNext();
    }
    EXPECT_FALSE(reader.hasError()) << reader.errorString().toStdString();
}

TEST(ImageExport, RefusesAnUnknownEnding) {
    EXPECT_THAT(thrown<UsageError>([] { imageFormatOf(QStringLiteral("a.bmp")); }),
                AllOf(HasSubstr("a.bmp"), HasSubstr(".png, .svg or .pdf")));
    EXPECT_EQ(imageFormatOf(QStringLiteral("a.PNG")), ImageFormat::png);
}

TEST(ImageExport, SaysWhereItCannotWrite) {
    QWidget widget;
    EXPECT_THAT(thrown<Error>([&] { saveImage(widget, QStringLiteral("/nowhere/at/all.png")); }),
                AllOf(HasSubstr("/nowhere/at/all.png"), HasSubstr("writable")));
}
TEST(ImageExport, LeavesControlsOutOfThePictureOfAPart) {
    QWidget window;
    auto* part = new QWidget(&window);
    auto* button = new QToolButton(part);
    auto* text = new QLabel(QStringLiteral("kept"), part);
    button->setText(QStringLiteral("pressed"));
    auto* line = new QHBoxLayout(part);
    line->addWidget(button);
    line->addWidget(text);
    window.show();
    part->resize(200, 40);
    QApplication::processEvents();
    const QRect before = text->geometry();
    const QByteArray svg = drawImage(*part, ImageFormat::svg);
    EXPECT_TRUE(svg.contains("kept"));
    EXPECT_FALSE(svg.contains("pressed"));
    EXPECT_TRUE(button->isVisible()) << "it is back";
    EXPECT_EQ(text->geometry(), before);
    EXPECT_TRUE(drawImage(window, ImageFormat::svg).contains("pressed")) << "a window is a picture of the program";
}
}  // namespace
}  // namespace pipescope
