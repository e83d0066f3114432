#include "gui/window/main_window.h"

#include "base/error.h"
#include "gui/plan/cluster_plan_view.h"
#include "gui/style/arrange.h"
#include "gui/style/icons.h"
#include "gui/style/message_bar.h"
#include "gui/style/theme.h"
#include "gui/style/work_pool.h"
#include "gui/tables/selection_panel.h"
#include "gui/window/answer_bar.h"
#include "gui/window/command_palette.h"
#include "gui/window/context_menus.h"
#include "gui/window/export_menu.h"
#include "gui/window/file_tabs.h"
#include "gui/window/memory_pane.h"
#include "gui/window/menu_entries.h"
#include "gui/window/page_actions.h"
#include "gui/window/run_list_window.h"
#include "gui/window/scenario_docks.h"
#include "gui/window/search_bar.h"
#include "gui/window/shortcut_overlay.h"
#include "gui/window/start_page.h"
#include "gui/window/step_strip.h"
#include "gui/window/table_docks.h"

#include <QActionGroup>
#include <QApplication>
#include <QCloseEvent>
#include <QDialog>
#include <QDockWidget>
#include <QFileDialog>
#include <QFileInfo>
#include <QLabel>
#include <QLineEdit>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QScreen>
#include <QStackedWidget>
#include <QTabBar>
#include <QThreadPool>
#include <QToolBar>
#include <QToolButton>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kEventSlice = 20;  // ms between two looks at what is under way
constexpr QSize kFirstSize(1600, 900);

QStringList localFiles(const QMimeData& data) {
    QStringList paths;
    for (const QUrl& url : data.urls()) {
        if (url.isLocalFile()) {
            paths << url.toLocalFile();
        }
    }
    return paths;
}
}  // namespace

MainWindow::MainWindow(QSettings* settings, QWidget* parent)
    : QMainWindow(parent), session_(settings), docks_(*this, session_) {
    setAcceptDrops(true);
    setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
    setTabPosition(Qt::BottomDockWidgetArea, QTabWidget::North);
    setTabPosition(Qt::RightDockWidgetArea, QTabWidget::North);
    auto* central = new QWidget(this);
    messages_ = new MessageBar(central);
    stack_ = new QStackedWidget(central);
    files_ = new FileTabs(session_, stack_);
    search_ = new SearchBar(central);
    createStartPage();
    stack_->addWidget(start_);
    stack_->addWidget(files_);
    arrange(new QVBoxLayout(central), {0, 0, 0, 0}, 0,
            {messages_, {stack_, 1}, search_, &docks_.createGroupBar(*central)});
    setCentralWidget(central);
    actions_ = new PageActions(*files_);
    connectFiles();
    tables_ = new TableDocks(docks_, *files_, session_, *messages_, this);
    scenarios_ = new ScenarioDocks(*this, docks_, *files_);
    connect(files_, &FileTabs::pageAdded, this, [this](const DocumentPage& page) {
        connect(&page.answer(), &AnswerBar::asked, this, [this, answer = &page.answer()](const VerdictPart& part) {
            if (part.evidence != Evidence::change) {
                tables_->show(part);
            } else if (answer->verdict() && answer->verdict()->change) {
                scenarios_->tryMove(*answer->verdict()->change);
            } else {
                scenarios_->showAdvice();
            }
        });
    });
    connect(&tables_->selection(), &SelectionPanel::adviceAsked, scenarios_, &ScenarioDocks::showAdvice);
    connect(search_, &SearchBar::listAsked, tables_, &TableDocks::listTasks);
    connect(tables_, &TableDocks::searchAsked, search_, &SearchBar::showHits);
    connect(scenarios_, &ScenarioDocks::bubblesAsked, tables_, &TableDocks::showBubbles);
    exports_ = new ExportMenu(*this, *files_, *tables_, *scenarios_);
    connect(exports_, &ExportMenu::failed, this, &MainWindow::showError);
    connect(exports_, &ExportMenu::said, files_, &FileTabs::said);
    connect(files_, &FileTabs::pageChanged, this, &MainWindow::takeDropsFromFields);  // also from new widgets
    createFileMenu();
    createViewMenu();
    createGoMenu();
    scenarios_->fillMenu(*menuBar()->addMenu(tr("&What if")), *actions_);
    createHelpMenu();
    createToolBar();
    new ContextMenus(*this, *files_, *exports_, *actions_);
    setMinimumSize(480, 320);  // lower than its parts would like: the lowest ones give way
    // A window without settings is for pictures, and has no screen to fit.
    resize(settings == nullptr ? kFirstSize : kFirstSize.boundedTo(screen()->availableSize()));
    restoreGeometry(session_.value(kWindowGeometryKey).toByteArray());
    Q_EMIT files_->pageChanged();  // to no page
}

void MainWindow::resizeEvent(QResizeEvent* event) {
    QMainWindow::resizeEvent(event);
    QMetaObject::invokeMethod(this, &MainWindow::fitDocks, Qt::QueuedConnection);
}

void MainWindow::fitDocks() {
    docks_.fit(page() != nullptr && page()->document() ? page()->wholeHeight() : 0);
}

MainWindow::~MainWindow() {
    files_->blockSignals(true);  // closing pages would reach parts that are gone
}

void MainWindow::connectFiles() {
    connect(files_, &FileTabs::pageChanged, this, [this] {
        stack_->setCurrentIndex(page() != nullptr ? 1 : 0);
        refreshTitle();
        search_->setPage(page());
    });
    connect(files_, &FileTabs::arrived, this, [this] {
        messages_->hide();
        docks_.show();
        QMetaObject::invokeMethod(this, &MainWindow::fitDocks, Qt::QueuedConnection);  // to the document that follows
    });
    connect(files_, &QTabWidget::currentChanged, messages_, &QWidget::hide);  // it was about another tab
    connect(files_, &FileTabs::loaded, this, &MainWindow::fitDocks);
    connect(files_, &FileTabs::failed, this, &MainWindow::showError);
    connect(files_, &FileTabs::runsFound, this, &MainWindow::showRuns);
    connect(files_, &FileTabs::said, messages_, [this](const QString& text) {
        text.isEmpty() ? messages_->hide() : messages_->showMessage(MessageBar::Kind::note, text);
    });
    connect(search_, &SearchBar::closed, this, [this] {
        if (page() != nullptr) {
            page()->focusTimeline();
        }
    });
}

void MainWindow::createStartPage() {
    start_ = new StartPage(session_, stack_);
    connect(start_, &StartPage::openRequested, this, &MainWindow::askForFile);
    connect(start_, &StartPage::fileRequested, files_, qOverload<const QString&>(&FileTabs::open));
    connect(start_, &StartPage::sampleRequested, this, &MainWindow::openSample);
}

void MainWindow::openSample() {
    try {
        if (!samples_) {
            samples_ = std::make_unique<ScratchFolder>();
        }
        files_->open(StartPage::writeSample(QString::fromStdString(samples_->path().string())));
    } catch (const Error& error) {
        showError(QString::fromUtf8(error.what()));
    }
}

void MainWindow::createToolBar() {
    auto* bar = new QToolBar(tr("Tools"), this);
    bar->setObjectName(QStringLiteral("tools"));
    bar->setMovable(false);
    bar->setMinimumHeight(1);  // lets the window be as low as without it
    bar->setContextMenuPolicy(Qt::PreventContextMenu);
    const int size = fontMetrics().height() + 4;
    bar->setIconSize({size, size});
    for (QAction* tool : toolsOf(*this)) {
        if (tool == nullptr) {
            bar->addSeparator();
            continue;
        }
        bar->addAction(tool);
        const QString key = tool->shortcut().toString(QKeySequence::NativeText);
        const QString text = tool->text().remove(QLatin1Char('&')).remove(QStringLiteral("…"));
        tool->setToolTip(key.isEmpty() ? text : QStringLiteral("%1 (%2)").arg(text, key));
        auto* button = qobject_cast<QToolButton*>(bar->widgetForAction(tool));
        if (const QString word = wordOf(*tool); button != nullptr && !word.isEmpty()) {
            tool->setIconText(word);
            button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
        }
        bar->widgetForAction(tool)->setAccessibleName(text);
        bar->widgetForAction(tool)->setFocusPolicy(Qt::TabFocus);
    }
    addToolBar(bar);
    refreshIcons(*this);
}

DocumentPage* MainWindow::page() const {
    return files_->page();
}

void MainWindow::refreshTitle() {
    if (page() == nullptr) {
        setWindowTitle(tr("PipeScope"));
        return;
    }
    const QString name = QFileInfo(page()->path()).fileName();
    setWindowTitle(page()->document() ? tr("%1 – PipeScope").arg(name) : tr("Opening %1 – PipeScope").arg(name));
}

void MainWindow::showError(const QString& text) {
    messages_->showMessage(MessageBar::Kind::error, text);
}

void MainWindow::createFileMenu() {
    QMenu& menu = *menuBar()->addMenu(tr("&File"));
    QAction* open = menu.addAction(tr("&Open…"), this, &MainWindow::askForFile);
    asTool(*open, Tool::open);
    open->setShortcuts(QKeySequence::Open);
    QAction* folder = menu.addAction(tr("Open a &folder…"), this, &MainWindow::askForFolder);
    folder->setShortcut(Qt::CTRL | Qt::SHIFT | Qt::Key_O);
    QMenu* recent = menu.addMenu(tr("Open &recent"));
    connect(recent, &QMenu::aboutToShow, this, [this, recent] { fillRecentFiles(*recent); });
    fillRecentFiles(*recent);
    QAction* reload = menu.addAction(tr("Re&load"), files_, &FileTabs::reload);
    reload->setShortcuts(QKeySequence::Refresh);
    asTool(*reload, Tool::reload);
    actions_->track(*reload);
    menu.addSeparator();
    QAction* compare = menu.addAction(tr("Co&mpare with…"), this, &MainWindow::askForBaseline);
    actions_->track(*compare);
    actions_->inContext(PageActions::Menu::place, asTool(*compare, Tool::compare));
    QAction* back = menu.addAction(tr("&Back to the simulation"), files_, &FileTabs::backToSimulation);
    for (const auto changed : {&FileTabs::pageChanged, &FileTabs::simulationChanged}) {
        connect(files_, changed, back,
                [this, back] { back->setEnabled(page() != nullptr && page()->model().baseline()); });
    }
    menu.addSeparator();
    exports_->fill(*menu.addMenu(tr("&Export")), *actions_);
    menu.addSeparator();
    QAction* close = menu.addAction(tr("&Close tab"), this, [this] { files_->closePage(page()); });
    close->setShortcuts({Qt::CTRL | Qt::Key_W, Qt::CTRL | Qt::Key_F4});
    actions_->track(*close);
    QAction* quit = menu.addAction(tr("&Quit"), this, &QWidget::close);
    quit->setShortcut(Qt::CTRL | Qt::Key_Q);  // some desktops have no standard key
}

void MainWindow::askForFile() {
    files_->open(QFileDialog::getOpenFileNames(
        this, tr("Open traces or profiles"), {},
        tr("Traces and profiles (*.sqlite *.db *.sqlite3 *.json *.json.gz *.gz);;All files (*)")));
}

void MainWindow::askForFolder() {
    const QString folder = QFileDialog::getExistingDirectory(this, tr("Open the traces in a folder"));
    if (!folder.isEmpty()) {
        files_->open(folder);
    }
}

void MainWindow::showRuns(const QString& folder) {
    auto* list = new RunListWindow(folder, this);
    connect(list, &RunListWindow::openAsked, files_,
            [this](const QStringList& files) { files_->open(files.join(QLatin1Char('\n'))); });
    connect(list, &RunListWindow::compareAsked, files_,
            [this](const QStringList& before, const QStringList& after) { files_->openAndCompare(after, before); });
    list->show();
}

void MainWindow::askForBaseline() {
    const QStringList paths = QFileDialog::getOpenFileNames(
        this, tr("Compare with the trace of an earlier run, or those of all its processes"), {},
        tr("Traces (*.sqlite *.db *.sqlite3 *.json *.json.gz *.gz);;All files (*)"));
    if (!paths.isEmpty()) {
        files_->compareWith(paths);
    }
}

void MainWindow::fillRecentFiles(QMenu& menu) {
    menu.clear();
    const QStringList files = session_.value(kRecentFilesKey).toStringList();
    for (const QString& file : files) {
        const QStringList paths = ViewedFiles::filesOf(file);
        const QString text = withoutMnemonics(paths.size() == 1 ? file : ViewedFiles(paths).path());
        menu.addAction(text, this, [this, file] { files_->open(file); });
    }
    if (files.isEmpty()) {
        menu.addAction(tr("No file was opened yet"))->setEnabled(false);
    }
}

void MainWindow::createViewMenu() {
    QMenu& menu = *menuBar()->addMenu(tr("&View"));
    actions_->addZoom(menu);
    actions_->addLanes(*menu.addMenu(tr("La&nes")));
    menu.addSeparator();
    actions_->addComparison(menu);
    menu.addSeparator();
    QAction* memory = menu.addAction(tr("&Memory"));
    memory->setCheckable(true);
    memory->setChecked(true);
    connect(memory, &QAction::toggled, this, [this](bool on) {
        for (const DocumentPage* each : files_->pages()) {
            each->views().memory().setShown(on);
        }
    });
    connect(files_, &FileTabs::pageAdded, this,
            [memory](const DocumentPage& page) { page.views().memory().setShown(memory->isChecked()); });
    QAction* steps = menu.addAction(tr("St&eps of the run"));
    steps->setCheckable(true);
    steps->setChecked(true);
    const auto showSteps = [steps](const DocumentPage& page) { page.stepStrip().setShown(steps->isChecked()); };
    connect(steps, &QAction::toggled, this, [this, showSteps] {
        for (const DocumentPage* each : files_->pages()) {
            showSteps(*each);
        }
    });
    connect(files_, &FileTabs::pageAdded, this, showSteps);
    QMenu& panels = *menu.addMenu(tr("&Panels"));
    for (const QDockWidget* dock : docks_.all()) {
        panels.addAction(dock->toggleViewAction());
    }
    menu.addSeparator();
    createTimesMenu(*menu.addMenu(tr("Times")));
    createThemeMenu(*menu.addMenu(tr("&Theme")));
}

void MainWindow::createTimesMenu(QMenu& menu) {
    auto* group = new QActionGroup(this);
    const auto chosen = [this] { return session_.value(kTimesKey).toString(); };
    const auto styleOf = [](const QString& name) {
        return name == QLatin1String("file")    ? TimeStyle::file
               : name == QLatin1String("clock") ? TimeStyle::clock
                                                : TimeStyle::step;
    };
    const auto add = [&](const QString& text, const QString& tip, const QString& name) {
        QAction* action = menu.addAction(text, this, [this, name, styleOf] {
            session_.setValue(kTimesKey, name);
            times_ = styleOf(name);
            for (DocumentPage* each : files_->pages()) {
                each->axis().setTimeStyle(times_);
            }
            if (page() != nullptr) {
                Q_EMIT files_->selectionChanged();  // whose description has times
            }
        });
        action->setToolTip(tip);
        action->setCheckable(true);
        action->setChecked(name == (chosen().isEmpty() ? QStringLiteral("step") : chosen()));
        group->addAction(action);
    };
    add(tr("Since the start of the &step"), tr("Times count from the start of the chosen step"),
        QStringLiteral("step"));
    add(tr("Since the start of the &file"), tr("Times count from the start of the recording"), QStringLiteral("file"));
    add(tr("&Clock time"), tr("The time of day here, if the recording says when it started"), QStringLiteral("clock"));
    times_ = styleOf(chosen());
    connect(files_, &FileTabs::pageAdded, this, [this](DocumentPage& page) { page.axis().setTimeStyle(times_); });
}

void MainWindow::createThemeMenu(QMenu& menu) {
    auto* group = new QActionGroup(this);
    const QString chosen = session_.value(kThemeKey).toString();
    const auto add = [&](const QString& text, const QString& name) {
        QAction* action = menu.addAction(text, this, [this, name] {
            applyTheme(parseTheme(name));
            session_.setValue(kThemeKey, name);
            for (DocumentPage* each : files_->pages()) {
                each->refreshNotes();
            }
        });
        action->setCheckable(true);
        action->setChecked(name == (chosen.isEmpty() ? QStringLiteral("system") : chosen));
        group->addAction(action);
    };
    add(tr("&System"), QStringLiteral("system"));
    add(tr("&Light"), QStringLiteral("light"));
    add(tr("&Dark"), QStringLiteral("dark"));
}

void MainWindow::createGoMenu() {
    QMenu& menu = *menuBar()->addMenu(tr("&Go"));
    actions_->addSearch(menu, *search_);
    actions_->addSelection(menu, *search_, [this] { tables_->selection().copy(); });
    menu.addSeparator();
    actions_->addPlaces(menu);
}

void MainWindow::createHelpMenu() {
    QMenu* help = menuBar()->addMenu(tr("&Help"));
    QAction* commands = help->addAction(tr("&Find a command…"), this, [this] {
        auto* palette = new CommandPalette(*menuBar(), this);
        palette->open();
        palette->words().setFocus();
    });
    commands->setShortcut(Qt::CTRL | Qt::Key_K);
    asTool(*commands, Tool::command);
    QAction* shortcuts =
        help->addAction(tr("&Shortcuts"), this, [this] { createShortcutOverlay(*menuBar(), this)->open(); });
    shortcuts->setShortcuts({QKeySequence(Qt::Key_F1), QKeySequence(Qt::Key_Question)});
    help->addAction(tr("&About PipeScope"), this, [this] {
        QMessageBox::about(this, tr("About PipeScope"),
                           tr("PipeScope compares what a training pipeline did with what was predicted."));
    });
}

void MainWindow::finishWork() {
    do {
        QApplication::processEvents(QEventLoop::AllEvents, kEventSlice);
        workPool().waitForDone();
        QApplication::sendPostedEvents();  // results of workers, which may begin further work
        QApplication::processEvents();
    } while (isWorkUnderWay(*this));
}

bool MainWindow::takesTab(const QWidget& widget) const {
    if (!(widget.focusPolicy() & Qt::TabFocus) || widget.focusProxy() != nullptr || !widget.isVisible() ||
        !widget.isEnabled() || widget.window() != this) {
        return false;
    }
    const QPoint middle = widget.mapTo(this, widget.rect().center());
    if (qobject_cast<const QTabBar*>(&widget) != nullptr && !rect().contains(middle)) {
        return false;  // of a place without tabs
    }
    // Qt moves panels behind another tab outside the window, but still reports them as visible.
    const QList<QDockWidget*> docks = findChildren<QDockWidget*>(QString(), Qt::FindDirectChildrenOnly);
    return std::none_of(docks.begin(), docks.end(), [&](const QDockWidget* dock) {
        return dock->isAncestorOf(&widget) && !rect().intersects(dock->geometry());
    });
}

// Replaces Qt's order, which would lead to hidden tabs and in circles: a panel that passes on its focus goes to one of
// its own children, skipping everything in between.
bool MainWindow::focusNextPrevChild(bool next) {
    QWidget* const from = focusWidget() != nullptr ? focusWidget() : this;
    QWidget* to = from;
    do {
        to = next ? to->nextInFocusChain() : to->previousInFocusChain();
    } while (to != from && !takesTab(*to));
    if (to == from) {
        return false;
    }
    to->setFocus(next ? Qt::TabFocusReason : Qt::BacktabFocusReason);
    return true;
}

void MainWindow::changeEvent(QEvent* event) {
    QMainWindow::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        refreshIcons(*this);
    }
}

void MainWindow::closeEvent(QCloseEvent* event) {
    files_->saveSession();
    session_.setValue(kWindowGeometryKey, saveGeometry());
    docks_.save();
    QMainWindow::closeEvent(event);
}

void MainWindow::takeDropsFromFields() {
    for (QLineEdit* field : findChildren<QLineEdit*>()) {
        field->setAcceptDrops(false);
    }
    for (QPlainTextEdit* editor : findChildren<QPlainTextEdit*>()) {
        editor->setAcceptDrops(false);
        editor->viewport()->setAcceptDrops(false);
    }
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    if (!localFiles(*event->mimeData()).isEmpty()) {
        event->acceptProposedAction();
    }
}

void MainWindow::dropEvent(QDropEvent* event) {
    const QStringList paths = localFiles(*event->mimeData());
    if (!paths.isEmpty()) {
        files_->open(paths);
        event->acceptProposedAction();
    }
}
}  // namespace pipescope
