#include "gui/window/export_menu.h"

#include "gui/console/sql_console.h"
#include "gui/plan/pareto_chart.h"
#include "gui/plan/plan_form.h"
#include "gui/plan/plan_view.h"
#include "gui/report/timeline_page.h"
#include "gui/style/image_export.h"
#include "gui/style/message_bar.h"
#include "gui/tables/length_chart.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/table_models.h"
#include "gui/tables/task_table.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/what_if/advice_panel.h"
#include "gui/what_if/balance_bar.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/peak_bars.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/answer_bar.h"
#include "gui/window/scenario_tools.h"
#include "tests/gui/window/dialog_answer.h"
#include "tests/gui/window/main_window_fixture.h"
#include "tests/gui/window/nsys_export.h"

#include <gtest/gtest.h>

#include <QClipboard>
#include <QContextMenuEvent>
#include <QDockWidget>
#include <QDoubleSpinBox>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLineEdit>
#include <QMenuBar>
#include <QSet>
#include <QSlider>
#include <QTableView>
#include <QTest>
#include <QXmlStreamReader>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

QByteArray bytesOf(const QString& path) {
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

QString target(const QString& name) {
    const QString path = QString::fromStdString(temporaryPath(name.toStdString()).string());
    QFile::remove(path);
    return path;
}

/// True if the last tenth of the width contains anything but background.
bool reachesRight(const QImage& image) {
    const QRgb ground = image.pixel(image.width() - 1, image.height() - 1);
    for (int x = image.width() * 9 / 10; x < image.width(); ++x) {
        for (int y = 0; y < image.height(); ++y) {
            if (image.pixel(x, y) != ground) {
                return true;
            }
        }
    }
    return false;
}

/// A window in which every chart has content and every table has rows, except that of tasks without a twin.
class WindowExports : public MainWindowTest {
protected:
    void fill() {
        SampleRun run;
        run.partitions = 4;
        open("exports.sqlite", run);
        ScenarioTools& tools = *window_.scenarios().tools();
        tools.model().setPatience(1h);
        tools.pin();
        tools.panel().batch().box().setValue(9);
        tools.pin();
        tools.plan().form().partitions().setText(QStringLiteral("2"));
        tools.plan().form().chunks().setText(QStringLiteral("2"));
        wait(&tools.plan(), &PlanView::finished, [&] { tools.plan().start(); });
        window_.tables().console().setSql(QStringLiteral("SELECT id, kind FROM PIPESCOPE_TASK ORDER BY id LIMIT 3"));
        wait(&window_.tables().console(), &SqlConsole::finished, [&] { window_.tables().console().run(); });
        window_.page()->navigation().addMark();
        dock("advice").show();
        dock("advice").raise();  // it is computed only while it is visible
        ASSERT_TRUE(QTest::qWaitFor([&] { return tools.advice().isComplete(); }, kPatience));
        for (const char* name : {"tasks", "statistics"}) {  // they are filled once somebody looks
            dock(name).show();
            dock(name).raise();
            settle();
        }
        // The largest differences need a comparison, which starts once the scenario is unchanged for a moment.
        ASSERT_TRUE(QTest::qWaitFor([&] { return window_.files().document()->comparison.has_value(); }, kPatience));
        ASSERT_TRUE(QTest::qWaitFor(
            [&] {
                return window_.tables().tasks().model().rowCount() > 0 &&
                       window_.tables().statistics().model().rowCount() > 0 &&
                       !window_.tables().statistics().chart().bins().empty();
            },
            kPatience));
    }

    template <class Object, class Signal>
    void wait(Object* of, Signal signal, const std::function<void()>& start) {
        QSignalSpy spy(of, signal);
        start();
        ASSERT_TRUE(!spy.isEmpty() || spy.wait(kPatience));
    }

    QDockWidget& dock(const char* name) { return *window_.findChild<QDockWidget*>(QString::fromLatin1(name)); }

    const WindowExport& exported(const char* file) {
        for (const WindowExport& each : window_.exports().all()) {
            if (each.file == QLatin1String(file)) {
                return each;
            }
        }
        ADD_FAILURE() << "there is no export called " << file;
        return window_.exports().all().front();
    }

    void exportPage(const QString& path) {
        QSignalSpy written(&window_.exports(), &ExportMenu::pageWritten);
        window_.exports().exportPage(path);
        ASSERT_TRUE(written.wait(kPatience));
    }

    QJsonArray json(const char* file) {
        const QString path = target(QString::fromLatin1(file) + QStringLiteral(".json"));
        window_.exports().exportTo(exported(file), path);
        return QJsonDocument::fromJson(bytesOf(path)).array();
    }
};

/// The data of an interactive page.
QJsonObject pageData(const QString& path) {
    const QByteArray html = bytesOf(path);
    const QByteArray before = "id=\"data\">";
    const qsizetype from = html.indexOf(before) + before.size();
    return QJsonDocument::fromJson(html.mid(from, html.indexOf("</script>", from) - from)).object();
}

TEST_F(WindowExports, WriteWhatIsOnScreenAsAnInteractivePage) {
    open("page.sqlite");
    DocumentPage& page = *window_.page();
    const TimeRange total = page.axis().total();
    page.axis().show({total.start + total.length() / 4, total.start + total.length() / 2});
    page.model().select(Source::measured, slice(Source::measured, task_));
    MarkChoice choice = page.model().choice();
    choice.mode = CompareMode::overlay;
    choice.causes = false;
    page.model().setChoice(choice);
    settle();
    const QString path = target(QStringLiteral("page.html"));
    exportPage(path);
    const QJsonObject data = pageData(path);
    const TimeWindow window = page.axis().window();
    const QJsonArray range = data[QStringLiteral("range")].toArray();
    EXPECT_EQ(range[0].toInteger(), window.start - page.axis().origin());
    EXPECT_NEAR(range[1].toDouble() - range[0].toDouble(), window.length, 2);
    EXPECT_EQ(data[QStringLiteral("mode")].toString(), QStringLiteral("overlay"));
    EXPECT_FALSE(data[QStringLiteral("causes")].toBool());
    EXPECT_EQ(data[QStringLiteral("theme")].toString(), QStringLiteral("system"));
    EXPECT_TRUE(data.contains(QStringLiteral("memory")));
    EXPECT_EQ(data[QStringLiteral("selected")].toArray()[0].toString(), QStringLiteral("measured"));
    const QJsonObject measuredLine = data[QStringLiteral("timelines")].toArray()[0].toObject();
    EXPECT_EQ(measuredLine[QStringLiteral("facts")].toString(), headlineOf(window_, Source::measured));

    page.views().memory().setShown(false);
    exportPage(path);
    EXPECT_FALSE(pageData(path).contains(QStringLiteral("memory")));

    QSignalSpy failed(&window_.exports(), &ExportMenu::failed);
    window_.exports().exportPage(QStringLiteral("/nowhere/page.html"));
    EXPECT_TRUE(failed.isEmpty()) << "a worker writes it";
    ASSERT_TRUE(failed.wait(kPatience));
    EXPECT_TRUE(failed[0][0].toString().contains(QStringLiteral("/nowhere/page.html")));
}

TEST_F(WindowExports, WriteTheScenarioThatIsOnScreenAsAPage) {
    open("scenario_page.sqlite");
    ScenarioTools& tools = *window_.scenarios().tools();
    tools.panel().batch().box().setValue(24);
    ASSERT_TRUE(QTest::qWaitFor([&] { return !tools.model().isAsRecorded(); }, kPatience));
    settle();
    const QString path = target(QStringLiteral("scenario.html"));
    exportPage(path);
    const QJsonObject line = pageData(path)[QStringLiteral("timelines")].toArray()[1].toObject();
    EXPECT_EQ(line[QStringLiteral("title")].toString(), window_.page()->views().pane(Source::simulated).title());
    EXPECT_NE(line[QStringLiteral("title")].toString(), QStringLiteral("SIMULATED"));
    const auto drawn = static_cast<qsizetype>(window_.files().document()->simulated->numSlices());
    EXPECT_EQ(line[QStringLiteral("start")].toArray().size(), drawn);
}

TEST_F(WindowExports, TakeTheChangesOfTheAnswerIntoThePage) {
    open("advised.sqlite");
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->answer().verdict() != nullptr; }, kPatience));
    const auto& advice = window_.page()->answer().verdict()->advice;
    ASSERT_NE(advice, nullptr);
    EXPECT_EQ(pageSceneOf(*window_.page(), Theme::light).advice, advice);
    const QString path = target(QStringLiteral("advised.html"));
    exportPage(path);
    EXPECT_TRUE(bytesOf(path).contains(window_.page()->answer().verdict()->change->title.c_str()));
}

TEST_F(WindowExports, CopyTheTabIntoTheClipboard) {
    open("copied.sqlite");
    QApplication::clipboard()->clear();
    window_.exports().copyImage();
    const QImage copied = QApplication::clipboard()->image();
    EXPECT_EQ(copied.size(), window_.page()->size() * window_.page()->devicePixelRatioF());
    const QString file = target(QStringLiteral("copied.png"));
    saveImage(*window_.page(), file);
    EXPECT_EQ(copied.convertToFormat(QImage::Format_RGB32), QImage(file).convertToFormat(QImage::Format_RGB32))
        << "without buttons, as a picture in a file";
    EXPECT_NE(copied.convertToFormat(QImage::Format_RGB32),
              window_.page()->grab().toImage().convertToFormat(QImage::Format_RGB32));
    EXPECT_TRUE(reachesRight(copied));
}

TEST_F(WindowExports, WriteThreadsAndStreamsWhereThereAreAny) {
    wait(&window_.files(), &FileTabs::loaded,
         [&] { window_.files().open(QString::fromStdString(writeNsysExport("threads.sqlite").string())); });
    settle();
    const WindowExport& threads = exported("threads");
    const QString png = target(QStringLiteral("threads.png"));
    const QString svg = target(QStringLiteral("threads.svg"));
    window_.exports().exportTo(threads, png);
    window_.exports().exportTo(threads, svg);
    EXPECT_GE(QImage(png).width(), 800);
    EXPECT_TRUE(bytesOf(svg).contains("<svg"));
    const QString pdf = target(QStringLiteral("threads.pdf"));
    window_.exports().exportTo(threads, pdf);
    EXPECT_TRUE(bytesOf(pdf).startsWith("%PDF"));
}

TEST_F(WindowExports, WriteEveryChartAsPngSvgAndPdf) {
    fill();
    int charts = 0;
    for (const WindowExport& each : window_.exports().all()) {
        if (each.isTable() || each.file == QLatin1String("threads") ||  // the sample has none
            each.file == QLatin1String("cluster-plan-chart")) {         // which fill() does not make
            continue;
        }
        SCOPED_TRACE(each.file.toStdString());
        ++charts;
        const QString png = target(each.file + QStringLiteral(".png"));
        const QString svg = target(each.file + QStringLiteral(".svg"));
        const QString pdf = target(each.file + QStringLiteral(".pdf"));
        for (const QString& path : {png, svg, pdf}) {
            window_.exports().exportTo(each, path);
        }
        const QImage image(png);
        EXPECT_GE(image.width(), each.file == QLatin1String("durations") ? 250 : 800) << "beside its table";
        const QSize hint = each.widget()->sizeHint();
        EXPECT_GE(image.height(), each.widget()->findChild<QWidget*>() == nullptr ? hint.height() : 20);
        EXPECT_TRUE(reachesRight(image)) << "drawn smaller than the picture";
        QSet<QRgb> colours;
        for (int y = 0; y < image.height(); ++y) {
            for (int x = 0; x < image.width(); ++x) {
                colours.insert(image.pixel(x, y));
            }
        }
        EXPECT_GE(colours.size(), 5) << "a chart without anything drawn";
        QXmlStreamReader xml(bytesOf(svg));
        int elements = 0;
        while (!xml.atEnd()) {
            elements += xml.readNext() == QXmlStreamReader::StartElement ? 1 : 0;
        }
        EXPECT_FALSE(xml.hasError()) << xml.errorString().toStdString();
        EXPECT_GT(elements, 10);
        const QByteArray document = bytesOf(pdf);
        EXPECT_TRUE(document.startsWith("%PDF-"));
        EXPECT_TRUE(document.trimmed().endsWith("%%EOF"));
    }
    EXPECT_EQ(charts, 10);
    EXPECT_FALSE(window_.messages().isVisible()) << window_.messages().text().toStdString();
}

TEST_F(WindowExports, WriteEveryTableAsCsvAndJson) {
    fill();
    int tables = 0;
    for (const WindowExport& each : window_.exports().all()) {
        if (!each.isTable() || each.file == QLatin1String("cluster-plan")) {  // which fill() does not make
            continue;
        }
        SCOPED_TRACE(each.file.toStdString());
        ++tables;
        const QString path = target(each.file + QStringLiteral(".csv"));
        window_.exports().exportTo(each, path);
        const QList<QByteArray> lines = bytesOf(path).split('\n');
        const QList<QByteArray> keys = lines[0].split(',');
        EXPECT_EQ(keys.size(), each.model()->columnCount());
        EXPECT_EQ(lines.size(), each.model()->rowCount() + 2);  // keys first, and an end of line last
        EXPECT_EQ(each.model()->rowCount() > 0, each.file != QLatin1String("unmatched"));
        const QJsonArray rows = json(each.file.toLatin1().constData());
        ASSERT_EQ(rows.size(), each.model()->rowCount());
        for (const QByteArray& key : keys) {
            EXPECT_FALSE(key.contains(' ')) << "a title for people, not a key: " << key.toStdString();
            EXPECT_TRUE(rows.isEmpty() || rows[0].toObject().contains(QString::fromUtf8(key))) << key.toStdString();
        }
    }
    EXPECT_EQ(tables, 13);
    EXPECT_FALSE(window_.messages().isVisible()) << window_.messages().text().toStdString();
}

TEST_F(WindowExports, WriteTheWhatIfFiguresAsTheSimulationGaveThem) {
    fill();
    const ScenarioModel& model = window_.scenarios().tools()->model();
    const Simulation& now = model.result()->simulation;
    const Simulation& recorded = model.recordedResult()->simulation;
    QMap<QString, QJsonObject> figures;
    for (const QJsonValue& each : json("what-if")) {
        figures[each[QStringLiteral("figure")].toString()] = each.toObject();
    }
    const auto value = [&](const char* figure, const char* column) {
        return figures[QString::fromLatin1(figure)][QString::fromLatin1(column)].toDouble(-1);
    };
    EXPECT_EQ(value("step_time_ns", "value"), static_cast<double>(now.step_time.count()));
    EXPECT_EQ(value("step_time_ns", "reference"), static_cast<double>(recorded.step_time.count()));
    EXPECT_EQ(value("bubble_fraction", "value"), now.bubble_fraction);
    EXPECT_EQ(value("utilization", "value"), now.utilization);
    EXPECT_EQ(value("speedup", "value"), now.speedup);
    EXPECT_EQ(value("samples_per_second", "value"), now.samples_per_second);
    EXPECT_EQ(value("peak_bytes", "value"), static_cast<double>(highest_peak(model.result()->simulation)));
    EXPECT_EQ(value("memory_limit_bytes", "value"), double{1 << 30});
    EXPECT_TRUE(figures.contains(QStringLiteral("step_p95_ns")));

    const QJsonArray pinned = json("scenarios");
    ASSERT_EQ(pinned.size(), 2);
    EXPECT_EQ(pinned[0][QStringLiteral("step_time_ns")].toDouble(), static_cast<double>(recorded.step_time.count()));
    EXPECT_EQ(pinned[1][QStringLiteral("bubble_fraction")].toDouble(), now.bubble_fraction);
    EXPECT_EQ(pinned[0][QStringLiteral("scenario")].toString(), QStringLiteral("As recorded"));
}

TEST_F(WindowExports, LeaveNoChartAndNoTableOutAndEachHasAContextMenu) {
    fill();
    QList<QWidget*> shown;
    for (auto* table : window_.findChildren<QTableView*>()) {
        shown << table;
    }
    EXPECT_EQ(shown.size(), 13);
    for (QWidget* each : window_.findChildren<QWidget*>()) {
        const bool chart = qobject_cast<AxisView*>(each) != nullptr || qobject_cast<Minimap*>(each) != nullptr ||
                           qobject_cast<BalanceBar*>(each) != nullptr || qobject_cast<PeakBars*>(each) != nullptr ||
                           qobject_cast<ScenarioTimelines*>(each) != nullptr ||
                           qobject_cast<ParetoChart*>(each) != nullptr || qobject_cast<LengthChart*>(each) != nullptr ||
                           qobject_cast<ScenarioFigures*>(each) != nullptr;
        if (chart) {
            shown << each;
        }
    }
    EXPECT_EQ(shown.size(), 13 + 12);
    for (QWidget* each : shown) {
        QWidget* at = each;
        while (at != nullptr && at->contextMenuPolicy() != Qt::ActionsContextMenu) {
            at = at->parentWidget();
        }
        ASSERT_NE(at, nullptr) << each->metaObject()->className();
        EXPECT_NE(at, window_.page()) << each->metaObject()->className() << " has no export of its own";
        EXPECT_TRUE(at->actions().front()->text().contains(QStringLiteral("xport this")));
    }
}

TEST_F(WindowExports, AreAskedForInTheMenu) {
    fill();
    int entries = 0;
    for (const QAction* file : window_.menuBar()->actions()[0]->menu()->actions()) {
        if (file->menu() == nullptr || !file->text().contains(QStringLiteral("xport"))) {
            continue;
        }
        for (const QAction* kind : file->menu()->actions()) {
            if (kind->menu() == nullptr) {
                continue;
            }
            for (QAction* action : kind->menu()->actions()) {
                const WindowExport& each =
                    *std::find_if(window_.exports().all().begin(), window_.exports().all().end(),
                                  [&](const WindowExport& e) { return e.text == action->text(); });
                SCOPED_TRACE(each.file.toStdString());
                if (each.file == QLatin1String("threads") || each.file.startsWith(QLatin1String("cluster-plan"))) {
                    continue;
                }
                const QString path = target(QStringLiteral("menu-") + each.fileName());
                const DialogAnswer answer(path);
                action->trigger();
                EXPECT_EQ(answer.proposed(), each.fileName());
                EXPECT_TRUE(QFile::exists(path));
                ++entries;
            }
        }
    }
    EXPECT_EQ(entries, 23);
}

TEST_F(WindowExports, AreAskedForInAContextMenu) {
    fill();
    QWidget* const table = dock("lanes").findChild<QTableView*>()->viewport();
    QWidget* const chart = dock("plan").findChild<ParetoChart*>();
    for (const auto& [of, name, panel] :
         {std::tuple{table, "context.json", "lanes"}, std::tuple{chart, "context.svg", "plan"}}) {
        dock(panel).show();
        dock(panel).raise();
        settle();
        const QString path = target(QString::fromLatin1(name));
        const DialogAnswer answer(path);
        QContextMenuEvent event(QContextMenuEvent::Keyboard, of->rect().center(), of->mapToGlobal(of->rect().center()));
        QApplication::sendEvent(of, &event);
        EXPECT_TRUE(answer.entry().contains(QStringLiteral("xport this"))) << answer.entry().toStdString();
        EXPECT_TRUE(QFile::exists(path));
    }
}

TEST_F(WindowExports, OfWhatHasTheFocusAreAskedForByAKey) {
    fill();
    dock("whatIf").show();
    settle();
    ScenarioTools& tools = *window_.scenarios().tools();
    const auto proposed = [&](QWidget& focused) {
        for (QWidget* at = &focused; at != nullptr; at = at->parentWidget()) {
            if (auto* panel = qobject_cast<QDockWidget*>(at)) {
                panel->show();
                panel->raise();
                settle();
            }
        }
        activate();
        focused.setFocus();
        const DialogAnswer answer;
        QTest::keyClick(&focused, Qt::Key_S, Qt::ControlModifier);
        return answer.proposed();
    };
    EXPECT_EQ(proposed(measured()), QStringLiteral("measured.png"));
    EXPECT_EQ(proposed(simulated()), QStringLiteral("simulated.png"));
    EXPECT_EQ(proposed(window_.page()->views().memory().view()), QStringLiteral("memory.png"));
    EXPECT_EQ(proposed(window_.page()->minimap()), QStringLiteral("overview.png"));
    EXPECT_EQ(proposed(*dock("lanes").findChild<QTableView*>()), QStringLiteral("lanes.csv"));
    EXPECT_EQ(proposed(*dock("lanes").findChild<QLineEdit*>()), QStringLiteral("lanes.csv"));
    EXPECT_EQ(proposed(tools.panel().batch().slider()), QStringLiteral("what-if.csv"));
    EXPECT_EQ(proposed(tools.balance().bar()), QStringLiteral("balance.png"));
    EXPECT_EQ(proposed(tools.plan().chart()), QStringLiteral("plan-chart.png"));
    EXPECT_EQ(proposed(tools.plan().table()), QStringLiteral("plan.csv"));
    EXPECT_EQ(proposed(tools.pins().table()), QStringLiteral("scenarios.csv"));
}

TEST_F(WindowExports, TellWhatToDoWhereThereIsNothingYet) {
    const QString path = target(QStringLiteral("nothing.csv"));
    window_.exports().exportTo(exported("lanes"), path);
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("open a trace")));
    open("unpinned.sqlite");
    for (const auto& [file, remedy] : {std::pair{"scenarios", "pin a scenario first"},
                                       {"scenario-timelines", "pin a scenario first"},
                                       {"plan", "make a plan first"},
                                       {"plan-chart", "make a plan first"},
                                       {"threads", "open a trace that has it"}}) {
        window_.exports().exportTo(exported(file), path);
        EXPECT_TRUE(window_.messages().text().contains(QString::fromLatin1(remedy))) << file;
    }
    EXPECT_FALSE(QFile::exists(path));
    window_.exports().exportTo(exported("lanes"), target(QStringLiteral("lanes.xls")));
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("must end in .csv or .json")));
    window_.exports().exportTo(exported("measured"), QStringLiteral("/nowhere/measured.png"));
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("/nowhere/measured.png")));
}
}  // namespace
}  // namespace pipescope
