// Exports of the window's charts and tables, from the menu, context menus and Ctrl+S.
#include "gui/console/sql_console.h"
#include "gui/plan/pareto_chart.h"
#include "gui/plan/plan_view.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/statistics_model.h"
#include "gui/tables/statistics_panel.h"
#include "gui/tables/table_filter.h"
#include "gui/tables/task_table.h"
#include "gui/tables/task_table_model.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/what_if/balance_bar.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/figure_table_model.h"
#include "gui/what_if/peak_bars.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/main_window.h"
#include "gui/window/marks_panel.h"
#include "gui/window/scenario_tools.h"
#include "gui/window/window_exports.h"
#include "schedule/error.h"

#include <QDockWidget>
#include <QFileDialog>
#include <QMenu>

namespace pipescope {
void MainWindow::createExports() {
    addTimelineExports();
    addTableExports();
    addScenarioExports();
    connect(this, &MainWindow::pageChanged, this, &MainWindow::offerExports);
}

void MainWindow::addTimelineExports() {
    const QString remedy = tr("open a trace that has it");
    const auto chart = [&](const QString& text, const QString& file, std::function<QWidget*(DocumentPage&)> of,
                           std::function<bool(const DocumentPage&)> holds) {
        exports_.push_back({text,
                            file,
                            remedy,
                            [this, of] { return document() != nullptr ? of(*page()) : nullptr; },
                            {},
                            [this, holds] { return holds(*page()); }});
    };
    using Page = DocumentPage;
    chart(
        tr("&Image of the tab…"), QStringLiteral("pipescope"), [](Page& p) { return &p; },
        [](const Page&) { return true; });
    chart(
        tr("&Measured timeline…"), QStringLiteral("measured"), [](Page& p) { return &p.pane(Source::measured); },
        [](const Page& p) { return p.document()->measured != nullptr; });
    chart(
        tr("&Simulated timeline…"), QStringLiteral("simulated"), [](Page& p) { return &p.pane(Source::simulated); },
        [](const Page& p) { return p.document()->simulated != nullptr; });
    chart(
        tr("Memor&y…"), QStringLiteral("memory"), [](Page& p) { return &p.memoryPane(); },
        [](const Page& p) { return !p.memory().empty(); });
    chart(
        tr("&Threads and streams…"), QStringLiteral("threads"), [](Page& p) { return &p.trackPane(); },
        [](const Page& p) { return p.document()->tracks != nullptr; });
    chart(
        tr("&Overview…"), QStringLiteral("overview"), [](Page& p) { return &p.minimap(); },
        [](const Page&) { return true; });
}

void MainWindow::addTableExports() {
    const auto table = [this](const QString& text, const QString& file, QTableView& view,
                              const QAbstractItemModel* model) {
        exports_.push_back({text, file, tr("open a trace"), [&view] { return &view; }, [model] { return model; },
                            [this] { return document() != nullptr; }});
    };
    const auto filtered = [&](const QString& text, const char* dock, const QString& file) {
        const auto* panel = findChild<QDockWidget*>(QString::fromLatin1(dock))->findChild<FilteredTable*>();
        table(text, file, panel->table(), panel->rows().sourceModel());
    };
    table(tr("&Tasks…"), QStringLiteral("tasks"), tasks_->table(), &tasks_->model());
    table(tr("&Statistics…"), QStringLiteral("statistics"), statistics_->table(), &statistics_->model());
    filtered(tr("&Lanes…"), "lanes", QStringLiteral("lanes"));
    filtered(tr("Largest &differences…"), "differences", QStringLiteral("differences"));
    filtered(tr("Tasks &without a twin…"), "unmatched", QStringLiteral("unmatched"));
    table(tr("Mar&ks…"), QStringLiteral("marks"), marks_->table(), &marks_->model());
    table(tr("Rows of the S&QL query…"), QStringLiteral("query"), console_->table(), &console_->results());
}

void MainWindow::addScenarioExports() {
    using Tools = ScenarioTools;
    const auto add = [this](const QString& text, const QString& file, const QString& remedy,
                            std::function<QWidget*(Tools&)> of, std::function<bool(Tools&)> holds,
                            std::function<const QAbstractItemModel*(Tools&)> model = {}) {
        WindowExport each{text, file, remedy, {}, {}, [this, holds] { return holds(*scenarioTools()); }};
        each.widget = [this, of]() -> QWidget* {
            Tools* tools = scenarioTools();
            return tools != nullptr ? of(*tools) : nullptr;
        };
        if (model) {
            each.model = [this, model] { return model(*scenarioTools()); };
        }
        exports_.push_back(std::move(each));
    };
    const QString profile = tr("open a profile, or a trace that holds one");
    const QString pin = tr("pin a scenario first");
    const QString plan = tr("make a plan first");
    const auto playing = [](Tools& t) { return !t.model().isEmpty() && t.model().result() != nullptr; };
    const auto pinned = [](Tools& t) { return !t.pins().scenarios().empty(); };
    const auto planned = [](Tools& t) { return t.plan().hasPlan(); };
    add(
        tr("What-if &figures…"), QStringLiteral("what-if"), profile, [](Tools& t) { return &t.panel().figures(); },
        playing, [](Tools& t) { return &t.panel().figures().model(); });
    add(
        tr("&Peak memory of the lanes…"), QStringLiteral("peaks"), profile, [](Tools& t) { return &t.panel().peaks(); },
        playing);
    add(
        tr("&Balance…"), QStringLiteral("balance"), profile, [](Tools& t) { return &t.balance().bar(); }, playing);
    add(
        tr("Pinned s&cenarios…"), QStringLiteral("scenarios"), pin, [](Tools& t) { return &t.pins().table(); }, pinned,
        [](Tools& t) { return t.pins().table().model(); });
    add(
        tr("Timelines of pinned sc&enarios…"), QStringLiteral("scenario-timelines"), pin,
        [](Tools& t) { return &t.pins().timelines(); }, pinned);
    add(
        tr("Candidates of the &plan…"), QStringLiteral("plan"), plan, [](Tools& t) { return &t.plan().table(); },
        planned, [](Tools& t) { return t.plan().table().model(); });
    add(
        tr("Chart of the pla&n…"), QStringLiteral("plan-chart"), plan, [](Tools& t) { return &t.plan().chart(); },
        planned);
}

void MainWindow::createExportMenu(QMenu& menu) {
    QAction* report = menu.addAction(tr("&Report…"), this, &MainWindow::askForReport);
    report->setShortcut(QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_E));
    QAction* focused = menu.addAction(tr("The table or chart with the &focus…"), this, [this] {
        if (const WindowExport* const each = exportWithFocus()) {
            askForExport(*each);
        }
    });
    focused->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_S));
    pageActions_ << report << focused;
    QMenu* charts = menu.addMenu(tr("&Chart"));
    QMenu* tables = menu.addMenu(tr("&Table"));
    for (const WindowExport& each : exports_) {
        QMenu* const of = each.isTable() ? tables : charts;
        QAction* action = of->addAction(each.text, this, [this, &each] { askForExport(each); });
        connect(of, &QMenu::aboutToShow, action, [action, &each] { action->setEnabled(each.isThere()); });
        if (&each == &exports_.front()) {
            action->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_E));
        }
        pageActions_ << action;
    }
}

void MainWindow::offerExports() {
    for (const WindowExport& each : exports_) {
        QWidget* const widget = each.widget();
        if (widget == nullptr || widget->contextMenuPolicy() == Qt::ActionsContextMenu) {
            continue;  // does not exist yet, or already has its menu
        }
        auto* action = new QAction(each.isTable() ? tr("E&xport this table…") : tr("E&xport this chart…"), widget);
        connect(action, &QAction::triggered, this, [this, &each] { askForExport(each); });
        widget->addAction(action);
        widget->setContextMenuPolicy(Qt::ActionsContextMenu);
    }
}

const WindowExport* MainWindow::exportWithFocus() {
    const WindowExport* beside = nullptr;
    for (QWidget* at = focusWidget(); at != nullptr; at = at->parentWidget()) {
        for (const WindowExport& each : exports_) {
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
    return page() != nullptr ? &exports_.front() : nullptr;
}

void MainWindow::exportTo(const WindowExport& what, const QString& path) {
    try {
        saveExport(what, path);
    } catch (const Error& error) {
        showError(QString::fromUtf8(error.what()));
    }
}

void MainWindow::askForExport(const WindowExport& what) {
    const QString path = QFileDialog::getSaveFileName(
        this, what.isTable() ? tr("Export a table") : tr("Export a chart"), what.fileName(), what.fileFilter());
    if (!path.isEmpty()) {
        exportTo(what, path);
    }
}
}  // namespace pipescope
