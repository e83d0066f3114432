#include "gui/window/start_page.h"

#include "gui/style/message_bar.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QFile>
#include <QListWidget>
#include <QPushButton>
#include <QSettings>
#include <QToolButton>

namespace pipescope {
namespace {
class StartPageTest : public testing::Test {
protected:
    StartPageTest() : settings_(QString::fromStdString(temporaryPath("start.ini").string()), QSettings::IniFormat) {
        settings_.clear();
    }

    static QString written(const char* name) {
        const auto path = temporaryPath(name);
        writeSampleTrace(path);
        return QString::fromStdString(path.string());
    }
    static void openAndClose(MainWindow& window, const QString& path) {
        QSignalSpy loaded(&window.files(), &FileTabs::loaded);
        window.files().open(path);
        ASSERT_TRUE(loaded.wait(kPatience));
        window.files().closePage(window.page());
        QApplication::processEvents();
    }

    QSettings settings_;
};

TEST_F(StartPageTest, ListsRecentFilesWithWhatTheyAreAndOpensThemByKey) {
    MainWindow window(&settings_);
    window.show();
    EXPECT_FALSE(window.start().recent().isVisible());
    openAndClose(window, written("start_a.sqlite"));
    openAndClose(window, written("start_b.sqlite"));
    QListWidget& recent = window.start().recent();
    ASSERT_TRUE(recent.isVisible());
    ASSERT_EQ(recent.count(), 2);
    EXPECT_TRUE(recent.item(0)->text().startsWith(QStringLiteral("start_b.sqlite")));
    EXPECT_TRUE(recent.item(0)->text().contains(QStringLiteral("recorded run")));
    EXPECT_TRUE(recent.item(0)->text().contains(QStringLiteral("2 lane")));
    EXPECT_TRUE(recent.item(0)->data(Qt::AccessibleTextRole).toString().contains(QStringLiteral("recorded run")));
    recent.setFocus();
    recent.setCurrentRow(1);
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    QTest::keyClick(&recent, Qt::Key_Return);
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_TRUE(window.page()->path().endsWith(QStringLiteral("start_a.sqlite")));
}

TEST_F(StartPageTest, GreysAFileThatIsGoneAndRemovesItWithAKey) {
    MainWindow window(&settings_);
    window.show();
    const QString gone = written("start_gone.sqlite");
    openAndClose(window, written("start_c.sqlite"));
    openAndClose(window, gone);
    QFile::remove(gone);
    window.start().refresh();
    QListWidget& recent = window.start().recent();
    ASSERT_EQ(recent.count(), 2);
    EXPECT_TRUE(recent.item(0)->text().contains(QStringLiteral("missing")));
    EXPECT_EQ(recent.item(0)->foreground().color(), window.start().palette().color(QPalette::Disabled, QPalette::Text));
    recent.setCurrentRow(0);
    QTest::keyClick(&recent, Qt::Key_Return);
    QApplication::processEvents();
    EXPECT_EQ(window.page(), nullptr);
    QTest::keyClick(&recent, Qt::Key_Delete);
    ASSERT_EQ(recent.count(), 1);
    EXPECT_TRUE(recent.item(0)->text().startsWith(QStringLiteral("start_c.sqlite")));
    EXPECT_TRUE(QFile::exists(written("start_c.sqlite")));
}

TEST_F(StartPageTest, OpensAFileOnceForAClickThatAlsoActivatesIt) {
    MainWindow window(&settings_);
    window.show();
    openAndClose(window, written("start_once.sqlite"));
    QListWidget& recent = window.start().recent();
    QSignalSpy requested(&window.start(), &StartPage::fileRequested);
    QListWidgetItem* item = recent.item(0);
    Q_EMIT recent.itemClicked(item);
    Q_EMIT recent.itemActivated(item);  // on desktops where one click activates
    QApplication::processEvents();
    EXPECT_EQ(requested.count(), 1);
}

TEST_F(StartPageTest, OpensASampleThatIsNotListed) {
    MainWindow window(&settings_);
    window.show();
    QToolButton* sample = nullptr;
    for (auto* button : window.start().findChildren<QToolButton*>()) {
        sample = button->text().contains(QStringLiteral("simulated pipeline")) ? button : sample;
    }
    ASSERT_NE(sample, nullptr);
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    sample->setFocus();
    QTest::keyClick(sample, Qt::Key_Return);
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_NE(window.files().document()->simulated, nullptr);
    window.files().closePage(window.page());
    QApplication::processEvents();
    EXPECT_EQ(window.start().recent().count(), 0);
}
}  // namespace
}  // namespace pipescope
