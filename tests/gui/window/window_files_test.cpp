#include "gui/style/message_bar.h"
#include "gui/tables/task_details.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QDropEvent>
#include <QFile>
#include <QLabel>
#include <QMimeData>
#include <QSettings>
#include <QTabWidget>

#include <fstream>

namespace pipescope {
namespace {
using WindowFiles = MainWindowTest;

TEST_F(WindowFiles, TellsAnErrorInTheBarAndKeepsWhatWasOpen) {
    open("kept.sqlite");
    const auto bad = temporaryPath("bad.sqlite");
    std::ofstream(bad) << "certainly no trace";
    QSignalSpy failed(&window_, &MainWindow::failed);
    window_.open(QString::fromStdString(bad.string()));
    ASSERT_TRUE(failed.wait(kPatience));
    EXPECT_TRUE(window_.messages().isVisible());
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("bad.sqlite")));
    ASSERT_NE(window_.document(), nullptr);
    EXPECT_TRUE(window_.document()->path.endsWith(QStringLiteral("kept.sqlite")));
}

TEST_F(WindowFiles, SaysWhatToDoWhileNothingIsOpen) {
    const QList<QLabel*> labels = window_.findChildren<QLabel*>();
    EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
        return label->isVisible() && label->text().contains(QStringLiteral("pipescope run"));
    }));
    EXPECT_EQ(window_.page(), nullptr);
}

TEST_F(WindowFiles, OpensADroppedFile) {
    const auto path = temporaryPath("dropped.sqlite");
    writeSampleTrace(path);
    QMimeData mime;
    mime.setUrls({QUrl::fromLocalFile(QString::fromStdString(path.string()))});
    QSignalSpy loaded(&window_, &MainWindow::loaded);
    QDragEnterEvent enter({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &enter);
    EXPECT_TRUE(enter.isAccepted());
    QDropEvent drop({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &drop);
    ASSERT_TRUE(loaded.wait(kPatience));
}

TEST_F(WindowFiles, GivesEachFileATabThatKeepsItsZoomAndSelection) {
    open("one.sqlite");
    window_.select(Source::measured, slice(Source::measured, task_));
    window_.axis().zoom(0.5, 0.1);
    const TimeWindow zoomed = window_.axis().window();
    DocumentPage* const first = window_.page();
    open("two.sqlite");
    EXPECT_EQ(window_.pages().size(), 2);
    EXPECT_NE(window_.page(), first);
    EXPECT_FALSE(window_.axis().selection());
    EXPECT_TRUE(window_.windowTitle().contains(QStringLiteral("two.sqlite")));
    auto* tabs = window_.findChild<QTabWidget*>();
    tabs->setCurrentIndex(0);
    EXPECT_EQ(window_.axis().window(), zoomed);
    const QList<QLabel*> labels = window_.details().findChildren<QLabel*>();
    EXPECT_TRUE(std::any_of(labels.begin(), labels.end(), [](const QLabel* label) {
        return label->text() == QStringLiteral("backward of micro-batch 2 on partition 1");
    }));
    window_.closePage(window_.page());
    window_.closePage(window_.page());
    EXPECT_EQ(window_.page(), nullptr);
    EXPECT_EQ(window_.windowTitle(), QStringLiteral("PipeScope"));
}

TEST_F(WindowFiles, KeepsZoomStepAndSelectionWhenAFileIsReadAgain) {
    open("again.sqlite");
    window_.selectStep(1);
    window_.select(Source::measured, slice(Source::measured, task_));
    window_.axis().zoom(0.5, 0.2);
    const TimeWindow zoomed = window_.axis().window();
    open("again.sqlite");
    EXPECT_EQ(window_.pages().size(), 1);
    EXPECT_EQ(window_.step(), 1);
    EXPECT_EQ(window_.axis().window(), zoomed);
    ASSERT_TRUE(window_.axis().selection());
    EXPECT_EQ(window_.axis().selection()->slice, slice(Source::measured, task_));
}

TEST_F(WindowFiles, WritesAReportWithAPictureOfTheTimelines) {
    open("reported.sqlite");
    const QString path = QString::fromStdString(temporaryPath("window_report.html").string());
    window_.exportReport(path);
    EXPECT_FALSE(window_.messages().isVisible());
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_TRUE(file.readAll().contains("data:image/png;base64,"));
    window_.exportReport(QStringLiteral("/nowhere/report.html"));
    EXPECT_TRUE(window_.messages().isVisible());
}

TEST(MainWindowSettings, BringsBackTabsZoomStepAndMarks) {
    QSettings settings(QString::fromStdString(temporaryPath("session.ini").string()), QSettings::IniFormat);
    const auto first = temporaryPath("session1.sqlite");
    const auto second = temporaryPath("session2.sqlite");
    writeSampleTrace(first);
    writeSampleTrace(second);
    TimeWindow zoomed;
    {
        MainWindow window(&settings);
        for (const auto& path : {first, second}) {
            QSignalSpy loaded(&window, &MainWindow::loaded);
            window.open(QString::fromStdString(path.string()));
            ASSERT_TRUE(loaded.wait(kPatience));
        }
        window.selectStep(2);
        window.axis().zoom(0.3, 0.25);
        window.page()->addMark();
        zoomed = window.axis().window();
        window.close();
    }
    MainWindow window(&settings);
    QSignalSpy loaded(&window, &MainWindow::loaded);
    window.restoreSession();
    while (loaded.count() < 2) {
        ASSERT_TRUE(loaded.wait(kPatience));
    }
    ASSERT_EQ(window.pages().size(), 2);
    EXPECT_TRUE(window.page()->path().endsWith(QStringLiteral("session2.sqlite")));
    EXPECT_EQ(window.step(), 2);
    EXPECT_NEAR(double(window.axis().window().start), double(zoomed.start), 2);
    EXPECT_NEAR(window.axis().window().length, zoomed.length, 2);
    EXPECT_EQ(window.axis().marks().size(), 1u);
}

TEST(MainWindowSettings, RemembersFilesThatWereOpened) {
    QSettings settings(QString::fromStdString(temporaryPath("viewer.ini").string()), QSettings::IniFormat);
    const auto path = temporaryPath("recent.sqlite");
    writeSampleTrace(path);
    MainWindow window(&settings);
    QSignalSpy loaded(&window, &MainWindow::loaded);
    window.open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_EQ(settings.value(QStringLiteral("files/recent")).toStringList(),
              QStringList{QString::fromStdString(path.string())});
}
}  // namespace
}  // namespace pipescope
