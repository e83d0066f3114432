#include "gui/style/message_bar.h"
#include "gui/style/work_pool.h"
#include "gui/tables/selection_panel.h"
#include "gui/tables/task_details.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QDockWidget>
#include <QDropEvent>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScreen>
#include <QSettings>
#include <QTabWidget>
#include <QThreadPool>
#include <QUrl>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace pipescope {
namespace {
using WindowFiles = MainWindowTest;

TEST_F(WindowFiles, TellsAnErrorInTheBarAndKeepsWhatWasOpen) {
    open("kept.sqlite");
    const auto bad = temporaryPath("bad.sqlite");
    std::ofstream(bad) << "certainly no trace";
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    window_.files().open(QString::fromStdString(bad.string()));
    ASSERT_TRUE(failed.wait(kPatience));
    EXPECT_TRUE(window_.messages().isVisible());
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("bad.sqlite")));
    ASSERT_NE(window_.files().document(), nullptr);
    EXPECT_TRUE(window_.files().document()->path.endsWith(QStringLiteral("kept.sqlite")));
}

// As text, the name has a replacement character, and there may be a file of that name.
TEST_F(WindowFiles, NeverTakesAFileForOneWhoseNameIsNotUtf8) {
    const auto folder = temporaryPath("bytes");
    std::filesystem::create_directory(folder);
    writeSampleTrace(folder / "a.sqlite");
    std::filesystem::rename(folder / "a.sqlite", folder / "run\xff.sqlite");
    writeSampleTrace(folder / "run\xef\xbf\xbd.sqlite");
    const QString shown = QString::fromStdString((folder / "run\xff.sqlite").string());
    ASSERT_TRUE(QFile::exists(shown)) << "the other one";
    const auto refuses = [&](const auto& open) {
        QSignalSpy failed(&window_.files(), &FileTabs::failed);
        open();
        ASSERT_TRUE(failed.wait(kPatience));
        EXPECT_TRUE(failed[0][0].toString().contains(QStringLiteral("run\\xff.sqlite' is a name that is not UTF-8")))
            << failed[0][0].toString().toStdString();
    };
    refuses([&] { window_.files().open(shown); });
    refuses([&] { window_.files().open(QString::fromStdString(folder.string())); });
    refuses([&] { window_.files().open(QStringList{shown, shown}); });
    EXPECT_EQ(window_.page(), nullptr);
    std::filesystem::remove(folder / "run\xff.sqlite");
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(shown);
    ASSERT_TRUE(loaded.wait(kPatience)) << "now it is the name of one file";
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
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    QDragEnterEvent enter({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &enter);
    EXPECT_TRUE(enter.isAccepted());
    QDropEvent drop({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &drop);
    ASSERT_TRUE(loaded.wait(kPatience));
}

TEST_F(WindowFiles, OpensAFileDroppedOnAFieldForText) {
    open("fields.sqlite");
    auto* sql = window_.findChild<QDockWidget*>(QStringLiteral("sql"));
    sql->show();
    sql->raise();
    const QList<QWidget*> fields = [&] {
        QList<QWidget*> all;
        for (QLineEdit* field : window_.findChildren<QLineEdit*>()) {
            all << field;
        }
        for (QPlainTextEdit* editor : window_.findChildren<QPlainTextEdit*>()) {
            all << editor->viewport();
        }
        return all;
    }();
    EXPECT_GT(fields.size(), 8);
    QMimeData mime;
    mime.setUrls({QUrl::fromLocalFile(QStringLiteral("/no/such.sqlite"))});
    for (QWidget* field : fields) {
        EXPECT_FALSE(field->acceptDrops())
            << field->metaObject()->className() << " " << field->accessibleName().toStdString();
    }
    auto* editor = window_.findChild<QPlainTextEdit*>();
    const QString text = editor->toPlainText();
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    QDragEnterEvent enter({5, 5}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(editor->viewport(), &enter);
    QDropEvent drop({5, 5}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(editor->viewport(), &drop);
    ASSERT_TRUE(!failed.isEmpty() || failed.wait(kPatience));
    EXPECT_EQ(editor->toPlainText(), text);
}

TEST_F(WindowFiles, OpensEachOfSeveralDroppedFilesInATab) {
    QMimeData mime;
    QList<QUrl> urls{QUrl(QStringLiteral("https://example.org/no-file"))};
    for (const char* name : {"drop_a.sqlite", "drop_b.sqlite", "drop_c.sqlite"}) {
        const auto path = temporaryPath(name);
        writeSampleTrace(path);
        urls << QUrl::fromLocalFile(QString::fromStdString(path.string()));
    }
    mime.setUrls(urls);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    QDragEnterEvent into({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &into);
    EXPECT_TRUE(into.isAccepted());
    QDropEvent drop({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &drop);
    EXPECT_TRUE(drop.isAccepted());
    while (loaded.count() < 3) {
        ASSERT_TRUE(loaded.wait(kPatience));
    }
    ASSERT_EQ(window_.files().pages().size(), 3);
    for (int k = 0; k < 3; ++k) {
        EXPECT_EQ(window_.files().pages()[k]->path(), urls[k + 1].toLocalFile());
        EXPECT_TRUE(window_.files().pages()[k]->document()->measured);
    }
    EXPECT_EQ(window_.page(), window_.files().pages()[2]);  // the last one is looked at
    EXPECT_TRUE(window_.windowTitle().contains(QStringLiteral("drop_c.sqlite")));
    QMimeData web;
    web.setUrls({urls[0]});
    QDragEnterEvent foreign({50, 50}, Qt::CopyAction, &web, Qt::LeftButton, Qt::NoModifier);
    QApplication::sendEvent(&window_, &foreign);
    EXPECT_FALSE(foreign.isAccepted());
}

TEST_F(WindowFiles, TellsOfADamagedOneAmongSeveralAndOpensTheOthers) {
    const auto good = temporaryPath("several_good.sqlite");
    const auto bad = temporaryPath("several_bad.sqlite");
    writeSampleTrace(good);
    std::ofstream(bad) << "certainly no trace";
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    window_.files().open(QStringList{QString::fromStdString(bad.string()), QString::fromStdString(good.string())});
    ASSERT_TRUE(!failed.isEmpty() || failed.wait(kPatience));
    ASSERT_TRUE(!loaded.isEmpty() || loaded.wait(kPatience));
    ASSERT_EQ(window_.files().pages().size(), 1);
    EXPECT_TRUE(window_.page()->path().endsWith(QStringLiteral("several_good.sqlite")));
    EXPECT_TRUE(failed[0][0].toString().contains(QStringLiteral("several_bad.sqlite")));
}

/// A trace of another program that takes long to read, for a test.
std::filesystem::path writeLongTrace(const std::string& name, int events) {
    const auto path = temporaryPath(name);
    std::ofstream file(path);
    file << "{\"traceEvents\": [\n";
    for (int k = 0; k < events; ++k) {
        file << (k > 0 ? ",\n" : "") << R"({"ph": "X", "name": "work", "pid": 1, "tid": 1, "ts": )" << 10 * k
             << R"(, "dur": 5})";
    }
    file << "]}\n";
    return path;
}

std::int64_t cpuTimeOf(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

TEST_F(WindowFiles, AreReadOutsideOfTheEventLoop) {
    const QString path = QString::fromStdString(writeLongTrace("long.json", 100'000).string());
    const QString copy = path + QStringLiteral(".copy.json");
    QFile::remove(copy);
    ASSERT_TRUE(QFile::copy(path, copy));
    for (const QStringList& files : {QStringList{path}, QStringList{path, copy}}) {
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        const std::int64_t all = cpuTimeOf(CLOCK_PROCESS_CPUTIME_ID);
        const std::int64_t own = cpuTimeOf(CLOCK_THREAD_CPUTIME_ID);
        window_.files().open(files);
        const std::int64_t asked = cpuTimeOf(CLOCK_THREAD_CPUTIME_ID) - own;
        while (loaded.count() < files.size()) {
            ASSERT_TRUE(loaded.wait(kPatience));
        }
        EXPECT_LT(4 * asked, cpuTimeOf(CLOCK_PROCESS_CPUTIME_ID) - all) << "open() returned before it was read";
    }
}

TEST_F(WindowFiles, ShowHowMuchWasReadAndStopWhenTheyAreCancelled) {
    const QString path = QString::fromStdString(writeLongTrace("cancelled.json", 150'000).string());
    window_.files().open(path);
    ASSERT_NE(window_.page(), nullptr);
    const QList<QLabel*> labels = window_.page()->findChildren<QLabel*>();
    const auto shown = [&] {
        const auto opening = std::ranges::find_if(
            labels, [](const QLabel* label) { return label->text().startsWith(QStringLiteral("Opening ")); });
        return opening != labels.end() ? (*opening)->text() : QString();
    };
    EXPECT_EQ(shown(), QStringLiteral("Opening cancelled.json …"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown().endsWith(QStringLiteral(" %")); }, kPatience)) << "no percentage";
    const std::int64_t before = cpuTimeOf(CLOCK_PROCESS_CPUTIME_ID);
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    for (auto* button : window_.page()->findChildren<QPushButton*>()) {
        if (button->text() == QLatin1String("&Cancel") && button->isVisible()) {
            button->click();
            break;
        }
    }
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page() == nullptr; }, kPatience));
    ASSERT_TRUE(workPool().waitForDone(kPatience));
    const std::int64_t toStop = cpuTimeOf(CLOCK_PROCESS_CPUTIME_ID) - before;
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    const std::int64_t start = cpuTimeOf(CLOCK_PROCESS_CPUTIME_ID);
    window_.files().open(path);
    ASSERT_TRUE(loaded.wait(10 * kPatience));
    EXPECT_LT(5 * toStop, cpuTimeOf(CLOCK_PROCESS_CPUTIME_ID) - start) << "the reader ran on";
    EXPECT_TRUE(failed.isEmpty());
}

TEST_F(WindowFiles, GivesEachFileATabThatKeepsItsZoomAndSelection) {
    open("one.sqlite");
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    window_.page()->axis().zoom(0.5, 0.1);
    const TimeWindow zoomed = window_.page()->axis().window();
    DocumentPage* const first = window_.page();
    open("two.sqlite");
    EXPECT_EQ(window_.files().pages().size(), 2);
    EXPECT_NE(window_.page(), first);
    EXPECT_FALSE(window_.page()->axis().selection());
    EXPECT_TRUE(window_.windowTitle().contains(QStringLiteral("two.sqlite")));
    auto* tabs = window_.findChild<QTabWidget*>();
    tabs->setCurrentIndex(0);
    EXPECT_EQ(window_.page()->axis().window(), zoomed);
    EXPECT_EQ(window_.tables().selection().facts().title, QStringLiteral("backward of micro-batch 2 on partition 1"));
    window_.files().closePage(window_.page());
    window_.files().closePage(window_.page());
    EXPECT_EQ(window_.page(), nullptr);
    EXPECT_EQ(window_.windowTitle(), QStringLiteral("PipeScope"));
}

TEST_F(WindowFiles, KeepsZoomStepAndSelectionWhenAFileIsReadAgain) {
    open("again.sqlite");
    window_.page()->model().selectStep(1);
    window_.page()->model().select(Source::measured, slice(Source::measured, task_));
    window_.page()->axis().zoom(0.5, 0.2);
    const TimeWindow zoomed = window_.page()->axis().window();
    open("again.sqlite");
    EXPECT_EQ(window_.files().pages().size(), 1);
    EXPECT_EQ(window_.page()->model().step(), 1);
    EXPECT_EQ(window_.page()->axis().window(), zoomed);
    ASSERT_TRUE(window_.page()->axis().selection());
    EXPECT_EQ(window_.page()->axis().selection()->slice, slice(Source::measured, task_));
}

TEST_F(WindowFiles, ReadsAFileAgainAndAnotherOneWhileItIsBeingRead) {
    const auto path = temporaryPath("busy.sqlite");
    const auto other = temporaryPath("meanwhile.sqlite");
    writeSampleTrace(path);
    writeSampleTrace(other);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    window_.files().reload();
    window_.files().open(QString::fromStdString(other.string()));
    ASSERT_TRUE(QTest::qWaitFor([&] { return loaded.size() >= 2; }, kPatience));
    QTest::qWait(50);
    EXPECT_EQ(loaded.size(), 2) << "of two readings of one file, the later one counts";
    ASSERT_EQ(window_.files().pages().size(), 2);
    for (const DocumentPage* page : window_.files().pages()) {
        ASSERT_NE(page->document(), nullptr);
        EXPECT_TRUE(page->document()->complete);
    }
    EXPECT_EQ(window_.page()->path().toStdString(), other.string());
    EXPECT_FALSE(window_.messages().isVisible());
    // A file that is gone stays on the screen.
    std::filesystem::remove(other);
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    window_.files().reload();
    ASSERT_TRUE(failed.wait(kPatience));
    EXPECT_NE(window_.files().document(), nullptr);
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("meanwhile.sqlite")));
}

TEST(MainWindowSettings, BringsBackTabsZoomStepAndMarks) {
    QSettings settings(QString::fromStdString(temporaryPath("session.ini").string()), QSettings::IniFormat);
    settings.clear();
    const auto first = temporaryPath("session1.sqlite");
    const auto second = temporaryPath("session2.sqlite");
    writeSampleTrace(first);
    writeSampleTrace(second);
    TimeWindow zoomed;
    {
        MainWindow window(&settings);
        for (const auto& path : {first, second}) {
            QSignalSpy loaded(&window.files(), &FileTabs::loaded);
            window.files().open(QString::fromStdString(path.string()));
            ASSERT_TRUE(loaded.wait(kPatience));
        }
        window.page()->model().selectStep(2);
        window.page()->axis().zoom(0.3, 0.25);
        window.page()->navigation().addMark();
        zoomed = window.page()->axis().window();
        window.close();
    }
    MainWindow window(&settings);
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    window.files().restoreSession();
    while (loaded.count() < 2) {
        ASSERT_TRUE(loaded.wait(kPatience));
    }
    ASSERT_EQ(window.files().pages().size(), 2);
    EXPECT_TRUE(window.page()->path().endsWith(QStringLiteral("session2.sqlite")));
    EXPECT_EQ(window.page()->model().step(), 2);
    EXPECT_NEAR(double(window.page()->axis().window().start), double(zoomed.start), 2);
    EXPECT_NEAR(window.page()->axis().window().length, zoomed.length, 2);
    EXPECT_EQ(window.page()->axis().marks().size(), 1u);
}

TEST(MainWindowSettings, BringsBackTheViewOfAFileThatIsReadAgainWhileItOpens) {
    QSettings settings(QString::fromStdString(temporaryPath("again.ini").string()), QSettings::IniFormat);
    settings.clear();
    const auto path = temporaryPath("large_again.sqlite");
    writeSampleTrace(path, {.partitions = 4, .chunks = 64, .steps = 101, .memory = false});  // shown in parts
    {
        MainWindow window(&settings);
        QSignalSpy loaded(&window.files(), &FileTabs::loaded);
        window.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        ASSERT_NE(window.page()->model().step(), 77);
        window.page()->model().selectStep(77);
        window.close();
    }
    MainWindow window(&settings);
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    bool again = false;
    QObject::connect(&window.files(), &FileTabs::pageChanged, [&] {
        if (window.files().document() != nullptr && !window.files().document()->complete && !again) {
            again = true;
            window.files().reload();
        }
    });
    window.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_TRUE(again);
    EXPECT_EQ(window.page()->model().step(), 77);
}

TEST(MainWindowSettings, BringsBackPanelsSizeAndTheWayOfComparing) {
    QSettings settings(QString::fromStdString(temporaryPath("shape.ini").string()), QSettings::IniFormat);
    settings.clear();
    const auto path = temporaryPath("shape.sqlite");
    writeSampleTrace(path);
    const auto dock = [](MainWindow& window, const char* name) {
        return window.findChild<QDockWidget*>(QString::fromLatin1(name));
    };
    MarkChoice choice;
    choice.mode = CompareMode::difference;
    choice.alignment = Alignment::step;
    choice.causes = true;
    choice.criticalPath = true;
    QSize size;
    {
        MainWindow window(&settings);
        window.show();
        window.resize(785, 700);  // less than the screen of 800 x 800, into which Qt moves what it restores
        QSignalSpy loaded(&window.files(), &FileTabs::loaded);
        window.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        EXPECT_NE(window.page()->model().choice(), choice);
        window.page()->model().setChoice(choice);
        dock(window, "lanes")->hide();
        dock(window, "whatIf")->show();
        window.addDockWidget(Qt::LeftDockWidgetArea, dock(window, "marks"));
        dock(window, "statistics")->setFloating(true);
        QApplication::processEvents();
        size = window.size();  // as wide as the panels need at least
        EXPECT_LT(size.width(), 800);
        window.close();
    }
    MainWindow window(&settings);
    window.show();
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    window.files().restoreSession();
    ASSERT_TRUE(loaded.wait(kPatience));
    QApplication::processEvents();
    EXPECT_EQ(window.size(), size);
    EXPECT_TRUE(dock(window, "lanes")->isHidden());
    EXPECT_FALSE(dock(window, "whatIf")->isHidden());
    EXPECT_EQ(window.dockWidgetArea(dock(window, "marks")), Qt::LeftDockWidgetArea);
    EXPECT_TRUE(dock(window, "statistics")->isFloating());
    EXPECT_FALSE(dock(window, "tasks")->isHidden());
    EXPECT_EQ(window.page()->model().choice(), choice);
}

TEST(MainWindowSettings, BeginWithAWindowThatFitsTheScreen) {
    QSettings settings(QString::fromStdString(temporaryPath("first.ini").string()), QSettings::IniFormat);
    settings.clear();
    const MainWindow window(&settings);
    const QSize available = window.screen()->availableSize();
    EXPECT_LT(available.width(), 1600) << "the screen of these tests is small";
    EXPECT_LE(window.width(), available.width());
    EXPECT_LE(window.height(), available.height());
}

TEST(MainWindowSettings, RemembersFilesThatWereOpened) {
    QSettings settings(QString::fromStdString(temporaryPath("viewer.ini").string()), QSettings::IniFormat);
    settings.clear();
    const auto path = temporaryPath("recent.sqlite");
    writeSampleTrace(path);
    MainWindow window(&settings);
    QSignalSpy loaded(&window.files(), &FileTabs::loaded);
    window.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_EQ(settings.value(QStringLiteral("files/recent")).toStringList(),
              QStringList{QString::fromStdString(path.string())});
}

TEST_F(WindowFiles, ShowAnAmpersandOfTheirName) {
    open("this & that.sqlite");
    EXPECT_EQ(window_.files().tabText(0), QStringLiteral("this && that.sqlite")) << "a tab shows two as one";
    EXPECT_EQ(QFileInfo(window_.page()->path()).fileName(), QStringLiteral("this & that.sqlite"));
}

TEST_F(WindowFiles, LeaveAnErrorAboutOneTabWithIt) {
    open("first.sqlite");
    open("second.sqlite");
    Q_EMIT window_.files().failed(QStringLiteral("the second one is damaged"));
    ASSERT_TRUE(window_.messages().isVisible());
    window_.files().setCurrentIndex(0);
    EXPECT_FALSE(window_.messages().isVisible());
}
}  // namespace
}  // namespace pipescope
