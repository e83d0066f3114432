#include "gui/window/export_menu.h"

#include "base/error.h"
#include "gui/console/sql_console.h"
#include "gui/document/headlines.h"
#include "gui/plan/cluster_plan_view.h"
#include "gui/plan/pareto_chart.h"
#include "gui/plan/plan_view.h"
#include "gui/report/timeline_page.h"
#include "gui/style/icons.h"
#include "gui/style/image_export.h"
#include "gui/style/number_format.h"
#include "gui/style/work_pool.h"
#include "gui/tables/bubble_panel.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/length_chart.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/table_export.h"
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
#include "gui/what_if/what_if_panel.h"
#include "gui/window/answer_bar.h"
#include "gui/window/file_tabs.h"
#include "gui/window/marks_panel.h"
#include "gui/window/memory_pane.h"
#include "gui/window/page_actions.h"
#include "gui/window/scenario_docks.h"
#include "gui/window/scenario_tools.h"
#include "gui/window/table_docks.h"

#include <QApplication>
#include <QClipboard>
#include <QDockWidget>
#include <QFileDialog>
#include <QMainWindow>
#include <QMenu>
#include <QPixmap>
#include <QWidget>

#include <cmath>

namespace pipescope {
namespace {
constexpr int kLeastWidth = 800;  // needed to read labels and axes

/// Gives a chart its preferred size during its lifetime. Beside tables there may be little room, and hidden widgets
/// were never laid out.
class ReadableSize {
public:
    explicit ReadableSize(QWidget& widget) : widget_(widget), before_(widget.size()) {
        const bool isPainted = widget.findChild<QWidget*>() == nullptr;  // others are laid out when shown
        if (isPainted || !widget.isVisible()) {
            widget.grab();  // completes pending layouts, which would otherwise undo the size
            widget.resize(before_.expandedTo(widget.sizeHint()).expandedTo({kLeastWidth, 0}));
        }
    }
    ~ReadableSize() { widget_.resize(before_); }
    ReadableSize(const ReadableSize&) = delete;
    ReadableSize& operator=(const ReadableSize&) = delete;

private:
    QWidget& widget_;
    QSize before_;
};
}  // namespace

QString WindowExport::fileFilter() const {
    return isTable() ? translated("Tables (*.csv *.json)") : translated("Images (*.png *.svg *.pdf)");
}

void saveExport(const WindowExport& what, const QString& path) {
    if (!what.isThere()) {
        throw Error("there is nothing to write to '" + path.toStdString() + "'; " + what.remedy.toStdString());
    }
    if (what.isTable()) {
        saveTable(*what.model(), path);
        return;
    }
    QWidget& widget = *what.widget();
    const ReadableSize size(widget);
    saveImage(widget, path);
}

ExportMenu::ExportMenu(QMainWindow& window, FileTabs& files, TableDocks& tables, ScenarioDocks& scenarios)
    : QObject(&window), window_(window), files_(files) {
    addTimelines();
    addTables(tables);
    addScenarios(scenarios);
}

void ExportMenu::addTimelines() {
    using Page = DocumentPage;
    const auto chart = [this](const QString& text, const char* file, QWidget& (*of)(Page&),
                              bool (*holds)(const Page&)) {
        all_.push_back({text,
                        QString::fromLatin1(file),
                        tr("open a trace that has it"),
                        [this, of] { return files_.document() != nullptr ? &of(*files_.page()) : nullptr; },
                        {},
                        [this, holds] { return holds(*files_.page()); }});
    };
    chart(
        tr("&Image of the tab…"), "pipescope", [](Page& p) -> QWidget& { return p; }, [](const Page&) { return true; });
    chart(
        tr("&Measured timeline…"), "measured", [](Page& p) -> QWidget& { return p.views().pane(Source::measured); },
        [](const Page& p) { return p.document()->measured != nullptr; });
    chart(
        tr("&Simulated timeline…"), "simulated", [](Page& p) -> QWidget& { return p.views().pane(Source::simulated); },
        [](const Page& p) { return p.document()->simulated != nullptr; });
    chart(
        tr("Memor&y…"), "memory", [](Page& p) -> QWidget& { return p.views().memory(); },
        [](const Page& p) { return !p.views().memory().view().empty(); });
    chart(
        tr("&Threads and streams…"), "threads", [](Page& p) -> QWidget& { return p.views().trackPane(); },
        [](const Page& p) { return p.document()->tracks != nullptr; });
    chart(
        tr("&Overview…"), "overview", [](Page& p) -> QWidget& { return p.minimap(); },
        [](const Page&) { return true; });
}

void ExportMenu::addTables(TableDocks& tables) {
    const auto table = [this](const QString& text, const char* file, QTableView& view,
                              const QAbstractItemModel& model) {
        all_.push_back({text, QString::fromLatin1(file), tr("open a trace"), [&view] { return &view; },
                        [&model] { return &model; }, [this] { return files_.document() != nullptr; }});
    };
    const auto filtered = [&](const QString& text, const char* file, FilteredTable& panel) {
        table(text, file, panel.table(), *panel.rows().sourceModel());
    };
    table(tr("&Tasks…"), "tasks", tables.tasks().table(), tables.tasks().model());
    table(tr("&Statistics…"), "statistics", tables.statistics().table(), tables.statistics().model());
    StatisticsPanel& statistics = tables.statistics();
    all_.push_back({tr("Histogram of d&urations…"),
                    QStringLiteral("durations"),
                    tr("choose a row in Statistics first"),
                    [&statistics] { return &statistics.chart(); },
                    {},
                    [&statistics] { return !statistics.chart().bins().empty(); }});
    filtered(tr("&Lanes…"), "lanes", tables.lanes());
    filtered(tr("&Bubbles…"), "bubbles", tables.bubbles().list());
    table(tr("Bubbles by c&ause…"), "bubble-causes", tables.bubbles().sums(), tables.bubbles().sumModel());
    filtered(tr("Largest &differences…"), "differences", tables.differences());
    filtered(tr("Tasks &without a twin…"), "unmatched", tables.unmatched());
    table(tr("Mar&ks…"), "marks", tables.marks().table(), tables.marks().model());
    table(tr("Rows of the S&QL query…"), "query", tables.console().table(), tables.console().results());
}

void ExportMenu::addScenarios(ScenarioDocks& scenarios) {
    using Tools = ScenarioTools;
    const auto add = [&](const QString& text, const char* file, const QString& remedy, QWidget& (*of)(Tools&),
                         bool (*holds)(Tools&), const QAbstractItemModel* (*model)(Tools&) = nullptr) {
        WindowExport each{
            text, QString::fromLatin1(file), remedy, {}, {}, [&scenarios, holds] {
                              return holds(*scenarios.tools()); }};
        each.widget = [&scenarios, of] {
            Tools* tools = scenarios.tools();
            return tools != nullptr ? &of(*tools) : nullptr;
        };
        if (model != nullptr) {
            each.model = [&scenarios, model] { return model(*scenarios.tools()); };
        }
        all_.push_back(std::move(each));
    };
    ClusterPlanView& cluster = scenarios.clusterPlan();
    all_.push_back({tr("Candidates for a cluster…"), QStringLiteral("cluster-plan"), tr("plan for a cluster first"),
                    [&cluster] { return &cluster.table(); }, [&cluster] { return cluster.table().model(); },
                    [&cluster] { return cluster.plan() != nullptr; }});
    all_.push_back({tr("Chart of the plan for a cluster…"),
                    QStringLiteral("cluster-plan-chart"),
                    tr("plan for a cluster first"),
                    [&cluster] { return &cluster.chart(); },
                    {},
                    [&cluster] { return cluster.plan() != nullptr; }});
    const QString profile = tr("open a profile, or a trace that holds one");
    const QString pin = tr("pin a scenario first");
    const QString plan = tr("make a plan first");
    const auto playing = [](Tools& t) { return !t.model().isEmpty() && t.model().result() != nullptr; };
    const auto pinned = [](Tools& t) { return !t.pins().scenarios().empty(); };
    const auto advised = [](Tools& t) { return t.advice().table().model()->rowCount() > 0; };
    const auto planned = [](Tools& t) { return t.plan().hasPlan(); };
    add(
        tr("What-if &figures…"), "what-if", profile, [](Tools& t) -> QWidget& { return t.panel().figures(); }, playing,
        [](Tools& t) -> const QAbstractItemModel* { return &t.panel().figures().model(); });
    add(
        tr("Sin&gle changes…"), "advice", tr("open the panel What to change first"),
        [](Tools& t) -> QWidget& { return t.advice().table(); }, advised,
        [](Tools& t) -> const QAbstractItemModel* { return t.advice().table().model(); });
    add(
        tr("&Peak memory of the lanes…"), "peaks", profile, [](Tools& t) -> QWidget& { return t.panel().peaks(); },
        playing);
    add(
        tr("&Balance…"), "balance", profile, [](Tools& t) -> QWidget& { return t.balance().bar(); }, playing);
    add(
        tr("Pinned s&cenarios…"), "scenarios", pin, [](Tools& t) -> QWidget& { return t.pins().table(); }, pinned,
        [](Tools& t) -> const QAbstractItemModel* { return t.pins().table().model(); });
    add(
        tr("Timelines of pinned sc&enarios…"), "scenario-timelines", pin,
        [](Tools& t) -> QWidget& { return t.pins().timelines(); }, pinned);
    add(
        tr("Candidates of the &plan…"), "plan", plan, [](Tools& t) -> QWidget& { return t.plan().table(); }, planned,
        [](Tools& t) -> const QAbstractItemModel* { return t.plan().table().model(); });
    add(
        tr("Chart of the pla&n…"), "plan-chart", plan, [](Tools& t) -> QWidget& { return t.plan().chart(); }, planned);
}

void ExportMenu::fill(QMenu& menu, PageActions& actions) {
    QAction* page = menu.addAction(tr("&Interactive page…"), this, &ExportMenu::askForPage);
    page->setShortcut(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_H));
    asTool(*page, Tool::share);
    actions.track(*page);
    QAction* copy = menu.addAction(tr("Co&py the tab as an image"), this, &ExportMenu::copyImage);
    copy->setShortcut(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_C));
    actions.track(*copy);
    QAction* focused = menu.addAction(tr("The table or chart with the &focus…"), this, [this] {
        if (const WindowExport* const each = withFocus()) {
            askForExport(*each);
        }
    });
    focused->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_S));
    actions.track(*focused);
    QMenu* charts = menu.addMenu(tr("&Chart"));
    QMenu* tables = menu.addMenu(tr("&Table"));
    for (const WindowExport& each : all_) {
        QMenu* const of = each.isTable() ? tables : charts;
        QAction* action = of->addAction(each.text, this, [this, &each] { askForExport(each); });
        connect(of, &QMenu::aboutToShow, action, [action, &each] { action->setEnabled(each.isThere()); });
        if (&each == &all_.front()) {
            action->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_E));
        }
        actions.track(*action);
    }
}

const WindowExport* ExportMenu::withFocus() const {
    const WindowExport* beside = nullptr;
    for (QWidget* at = window_.focusWidget(); at != nullptr; at = at->parentWidget()) {
        for (const WindowExport& each : all_) {
            QWidget* const widget = each.widget();
            if (widget == at) {
                return &each;
            }
            // A panel's filter or slider counts as the chart or table below it.
            if (beside == nullptr && qobject_cast<QDockWidget*>(at) != nullptr && widget != nullptr &&
                at->isAncestorOf(widget)) {
                beside = &each;
            }
        }
        if (beside != nullptr) {
            return beside;
        }
    }
    return files_.page() != nullptr ? &all_.front() : nullptr;
}

void ExportMenu::exportTo(const WindowExport& what, const QString& path) {
    try {
        saveExport(what, path);
    } catch (const Error& error) {
        Q_EMIT failed(QString::fromUtf8(error.what()));
    }
}

void ExportMenu::askForExport(const WindowExport& what) {
    const QString path = QFileDialog::getSaveFileName(
        &window_, what.isTable() ? tr("Export a table") : tr("Export a chart"), what.fileName(), what.fileFilter());
    if (!path.isEmpty()) {
        exportTo(what, path);
    }
}

void ExportMenu::exportPage(const QString& path) {
    if (files_.document() == nullptr) {
        return;
    }
    Q_EMIT said(tr("Writing the page …"));
    runInPool(
        *this,
        [scene = pageSceneOf(*files_.page(), Theme::system), path] {
            saveTimelinePage(scene, path);
            return path;
        },
        [this](const QString& written) {
            Q_EMIT said({});
            Q_EMIT pageWritten(written);
        },
        [this](const QString& error) { Q_EMIT failed(error); });
}

void ExportMenu::askForPage() {
    const QString path = QFileDialog::getSaveFileName(&window_, tr("Export an interactive page"), tr("timeline.html"),
                                                      tr("Pages (*.html)"));
    if (!path.isEmpty()) {
        exportPage(path);
    }
}

void ExportMenu::copyImage() {
    if (files_.page() != nullptr) {
        QApplication::clipboard()->setImage(QImage::fromData(drawImage(*files_.page(), ImageFormat::png), "PNG"));
    }
}

namespace {
/// True if one measured step and nothing else is in view: nobody chose a part of it.
bool showsWholeStep(const PageScene& scene) {
    const TraceDocument& document = *scene.document;
    if (hasOnlyTracks(document) || document.baseline || !document.measured ||
        document.measured->step(scene.step) == nullptr) {
        return false;
    }
    const TimeRange step = stepRange(document, scene.step);
    const std::int64_t most = step.length() / 8;
    return scene.range.start <= step.start && scene.range.end >= step.end &&
           scene.range.length() <= step.length() + most;
}
}  // namespace

PageScene pageSceneOf(const DocumentPage& page, Theme theme) {
    const PageModel& model = page.model();
    const auto titleOf = [&](Source source) { return page.views().pane(source).title(); };
    const TimeWindow& window = page.axis().window();
    PageScene scene;
    scene.document = page.document();
    scene.analysis = model.sharedAnalysis();
    scene.step = model.step();
    scene.choice = model.choice();
    scene.range = {window.start, window.start + std::llround(std::ceil(window.fraction + window.length))};
    scene.origin = page.axis().origin();
    scene.simulatedShift = page.views().view(Source::simulated).shift();
    scene.measured = {titleOf(Source::measured), measuredHeadline(*page.document(), model.step())};
    scene.simulated = {titleOf(Source::simulated), simulatedHeadline(*page.document(), model.step())};
    scene.memory = page.views().memory().isVisibleTo(&page);
    scene.memoryStacked = page.views().memory().view().stacked();
    scene.selection = page.axis().selection();
    scene.marks = page.axis().marks();
    scene.noteTrouble = page.noteTrouble();
    if (const auto& verdict = page.answer().verdict()) {
        scene.answer = verdict->parts;
        scene.advice = scene.document->baseline ? nullptr : verdict->advice;
    }
    scene.allSteps = showsWholeStep(scene);
    scene.theme = theme;
    return scene;
}
}  // namespace pipescope
