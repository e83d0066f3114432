#include "gui/window/main_window.h"

#include <QDockWidget>
#include <QMenuBar>
#include <QMessageBox>
#include <QTabWidget>

namespace pipescope {
void MainWindow::createActions() {
    createExports();
    createFileMenu();
    createViewMenu();
    createGoMenu();
    createWhatIfMenu();
    createHelpMenu();
}

void MainWindow::createFileMenu() {
    QMenu* file = menuBar()->addMenu(tr("&File"));
    QAction* open = file->addAction(tr("&Open…"), this, &MainWindow::askForFile);
    open->setShortcuts(QKeySequence::Open);
    recent_ = file->addMenu(tr("Open &recent"));
    connect(recent_, &QMenu::aboutToShow, this, &MainWindow::fillRecentFiles);
    fillRecentFiles();
    QAction* reload = file->addAction(tr("Re&load"), this, &MainWindow::reload);
    reload->setShortcuts(QKeySequence::Refresh);
    file->addSeparator();
    createExportMenu(*file->addMenu(tr("&Export")));
    file->addSeparator();
    QAction* close = file->addAction(tr("&Close tab"), this, [this] { closePage(page()); });
    close->setShortcuts({Qt::CTRL | Qt::Key_W, Qt::CTRL | Qt::Key_F4});
    QAction* quit = file->addAction(tr("&Quit"), this, &QWidget::close);
    quit->setShortcut(Qt::CTRL | Qt::Key_Q);  // some desktops have no standard key
    pageActions_ << reload << close;
}

QAction* MainWindow::addViewAction(QMenu& menu, const QString& text, const QList<QKeySequence>& keys,
                                   std::function<void(DocumentPage&)> run) {
    QAction* action = menu.addAction(text, this, [this, run = std::move(run)] {
        if (page() != nullptr) {
            run(*page());
        }
    });
    action->setShortcuts(keys);
    action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
    tabs_->addAction(action);
    pageActions_ << action;
    return action;
}

void MainWindow::createViewMenu() {
    QMenu& menu = *menuBar()->addMenu(tr("&View"));
    addZoomActions(menu);
    menu.addSeparator();
    addCompareActions(menu);
    menu.addSeparator();
    showMemory_ = menu.addAction(tr("&Memory"));
    showMemory_->setCheckable(true);
    showMemory_->setChecked(true);
    connect(showMemory_, &QAction::toggled, this, [this](bool on) {
        for (DocumentPage* each : pages()) {
            each->setMemoryShown(on);
        }
    });
    for (QDockWidget* dock : docks_) {
        menu.addAction(dock->toggleViewAction());
    }
    menu.addSeparator();
    createThemeMenu(menu);
}

void MainWindow::addCompareActions(QMenu& menu) {
    const auto choose = [](auto change) {
        return [change](DocumentPage& page) {
            MarkChoice choice = page.choice();
            change(choice);
            page.setChoice(choice);
        };
    };
    addViewAction(menu, tr("Side by &side"), {Qt::Key_1},
                  choose([](MarkChoice& c) { c.mode = CompareMode::side_by_side; }));
    addViewAction(menu, tr("O&verlay"), {Qt::Key_2}, choose([](MarkChoice& c) { c.mode = CompareMode::overlay; }));
    addViewAction(menu, tr("&Difference"), {Qt::Key_3},
                  choose([](MarkChoice& c) { c.mode = CompareMode::difference; }));
    addViewAction(menu, tr("Causes of b&ubbles"), {Qt::Key_B}, choose([](MarkChoice& c) { c.causes = !c.causes; }));
    addViewAction(menu, tr("&Critical path"), {Qt::Key_C},
                  choose([](MarkChoice& c) { c.criticalPath = !c.criticalPath; }));
}

void MainWindow::createHelpMenu() {
    QMenu* help = menuBar()->addMenu(tr("&Help"));
    QAction* shortcuts = help->addAction(tr("&Shortcuts"), this, &MainWindow::showShortcuts);
    shortcuts->setShortcuts({QKeySequence(Qt::Key_F1), QKeySequence(Qt::Key_Question)});
    help->addAction(tr("&About PipeScope"), this, [this] {
        QMessageBox::about(this, tr("About PipeScope"),
                           tr("PipeScope compares what a training pipeline did with what was predicted."));
    });
}
}  // namespace pipescope
