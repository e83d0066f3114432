#include "gui/window/run_list_window.h"

#include "gui/tables/filtered_table.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QItemSelectionModel>
#include <QLabel>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>

#include <filesystem>
#include <fstream>

namespace pipescope {
namespace {
class RunListTest : public testing::Test {
protected:
    void SetUp() override {
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_);
        writeSampleTrace(folder_ / "a.sqlite");
        writeSampleTrace(folder_ / "b.sqlite", {.forward_ns = 5'000'000});
        std::ofstream(folder_ / "broken.sqlite") << "no trace";
    }
    QString folder() const { return QString::fromStdString(folder_.string()); }
    QString path(const char* name) const { return QString::fromStdString((folder_ / name).string()); }

    std::filesystem::path folder_ = temporaryPath("runs");
};

TEST_F(RunListTest, OpensOneAndComparesTwo) {
    RunListWindow list(folder());
    list.setAttribute(Qt::WA_DeleteOnClose, false);
    list.show();
    QSignalSpy progressed(&list, &RunListWindow::progressed);
    ASSERT_TRUE(QTest::qWaitFor([&] { return list.isComplete(); }, kPatience));
    ASSERT_EQ(progressed.size(), 3) << "one for each file";
    EXPECT_EQ(progressed[0][0].toInt(), 33);
    QTableView& table = list.table().table();
    ASSERT_EQ(table.model()->rowCount(), 2);
    EXPECT_EQ(table.model()->index(1, 0).data().toString(), QStringLiteral("b.sqlite"));
    EXPECT_TRUE(table.model()->index(1, 7).data().toString().startsWith(QLatin1Char('-')));
    EXPECT_TRUE(list.leftOut().contains(QStringLiteral("broken.sqlite"))) << list.leftOut().toStdString();
    QSignalSpy opened(&list, &RunListWindow::openAsked);
    QSignalSpy compared(&list, &RunListWindow::compareAsked);
    table.selectRow(0);
    EXPECT_FALSE(list.compareButton().isEnabled());
    list.openButton().click();
    ASSERT_EQ(opened.size(), 1);
    EXPECT_EQ(opened[0][0].toStringList(), QStringList{path("a.sqlite")});
    table.selectAll();
    ASSERT_TRUE(list.compareButton().isEnabled());
    list.compareButton().click();
    ASSERT_EQ(compared.size(), 1);
    EXPECT_EQ(compared[0][0].toStringList(), QStringList{path("a.sqlite")}) << "the earlier one is before";
    EXPECT_EQ(compared[0][1].toStringList(), QStringList{path("b.sqlite")});
}

TEST_F(RunListTest, IsShownForAFolderOfSeveralRuns) {
    MainWindow window(nullptr);
    window.show();
    window.files().open(folder());
    const auto list = [&] { return window.findChild<RunListWindow*>(); };
    ASSERT_TRUE(QTest::qWaitFor([&] { return list() != nullptr && list()->isComplete(); }, kPatience));
    EXPECT_EQ(window.page(), nullptr) << "nothing is opened before somebody chooses";
    list()->table().table().selectAll();
    list()->compareButton().click();
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return window.page() != nullptr && window.page()->model().baseline(); }, kPatience));
    EXPECT_EQ(window.page()->path(), path("b.sqlite"));
}

TEST_F(RunListTest, ComparesNoOtherRunWhenTheLaterOneCannotBeRead) {
    MainWindow window(nullptr);
    window.show();
    window.files().open(folder());
    const auto list = [&] { return window.findChild<RunListWindow*>(); };
    ASSERT_TRUE(QTest::qWaitFor([&] { return list() != nullptr && list()->isComplete(); }, kPatience));
    QSignalSpy failed(&window.files(), &FileTabs::failed);
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    Q_EMIT list()->compareAsked({path("a.sqlite")}, {path("broken.sqlite")});
    ASSERT_TRUE(failed.wait(kPatience));
    window.files().open(path("b.sqlite"));
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_FALSE(QTest::qWaitFor([&] { return window.page()->model().baseline() != nullptr; }, 1'000));
}

TEST_F(RunListTest, ComparesTheLaterRunThoughAnotherTabIsReadMeanwhile) {
    MainWindow window(nullptr);
    window.show();
    window.files().open(folder());
    const auto list = [&] { return window.findChild<RunListWindow*>(); };
    ASSERT_TRUE(QTest::qWaitFor([&] { return list() != nullptr && list()->isComplete(); }, kPatience));
    Q_EMIT list()->compareAsked({path("a.sqlite")}, {path("b.sqlite")});
    DocumentPage& asked = *window.page();
    window.files().open(path("a.sqlite"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return asked.model().baseline() != nullptr; }, kPatience));
    EXPECT_EQ(asked.path(), path("b.sqlite"));
    EXPECT_FALSE(window.page()->model().baseline());
}

TEST_F(RunListTest, NamesTheFirstFewOfManyFilesThatAreLeftOut) {
    for (int number = 0; number < 100; ++number) {
        std::ofstream(folder_ / ("<b>note " + std::to_string(number) + ".sqlite")) << "no trace";
    }
    RunListWindow list(folder());
    list.setAttribute(Qt::WA_DeleteOnClose, false);
    list.show();
    ASSERT_TRUE(QTest::qWaitFor([&] { return list.isComplete(); }, kPatience));
    QString tip;
    for (const QLabel* label : list.findChildren<QLabel*>()) {
        tip += label->toolTip();
    }
    EXPECT_TRUE(tip.contains(QStringLiteral("&lt;b&gt;note 0.sqlite"))) << tip.toStdString();
    EXPECT_FALSE(tip.contains(QStringLiteral("note 99.sqlite")));
    EXPECT_TRUE(tip.contains(QStringLiteral("more files are left out")));
}

TEST_F(RunListTest, AFolderOfOneRunOpensAtOnce) {
    std::filesystem::remove(folder_ / "b.sqlite");
    std::filesystem::remove(folder_ / "broken.sqlite");
    MainWindow window(nullptr);
    window.show();
    window.files().open(folder());
    ASSERT_TRUE(QTest::qWaitFor([&] { return window.page() != nullptr && window.page()->document(); }, kPatience));
    EXPECT_EQ(window.findChild<RunListWindow*>(), nullptr);
}
}  // namespace
}  // namespace pipescope
