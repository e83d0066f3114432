#include "gui/timeline/time_axis_model.h"
#include "gui/window/main_window.h"

#include <QDockWidget>
#include <QMenuBar>
#include <QMessageBox>
#include <QTabWidget>

namespace pipescope {
namespace {
constexpr double kZoom = 0.7;
}

void MainWindow::createActions() {
    createFileMenu();
    createViewMenu();
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
    QAction* image = file->addAction(tr("&Export image…"), this, &MainWindow::askForExport);
    image->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_E));
    file->addSeparator();
    QAction* close = file->addAction(tr("&Close tab"), this, [this] { closePage(page()); });
    close->setShortcuts(QKeySequence::Close);
    QAction* quit = file->addAction(tr("&Quit"), this, &QWidget::close);
    quit->setShortcuts(QKeySequence::Quit);
    pageActions_ << reload << image << close;
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
    using Page = DocumentPage;
    addViewAction(menu, tr("&Fit the selected task, or the step"), {Qt::Key_F}, [](Page& p) { p.fitSelection(); });
    addViewAction(menu, tr("Show &all"), {Qt::Key_Home, Qt::Key_0}, [](Page& p) { p.axis().showAll(); });
    addViewAction(menu, tr("Zoom &in"), {QKeySequence::ZoomIn}, [](Page& p) { p.axis().zoom(0.5, kZoom); });
    addViewAction(menu, tr("Zoom &out"), {QKeySequence::ZoomOut}, [](Page& p) { p.axis().zoom(0.5, 1 / kZoom); });
    addViewAction(menu, tr("&Back"), {QKeySequence(Qt::ALT | Qt::Key_Left)}, [](Page& p) { p.axis().goBack(); });
    addViewAction(menu, tr("F&orward"), {QKeySequence(Qt::ALT | Qt::Key_Right)}, [](Page& p) { p.axis().goForward(); });
    addViewAction(menu, tr("&Clear the selection"), {Qt::Key_Escape}, [](Page& p) { p.axis().select(std::nullopt); });
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
}

void MainWindow::createHelpMenu() {
    QMenu* help = menuBar()->addMenu(tr("&Help"));
    QAction* shortcuts = help->addAction(tr("&Shortcuts"), this, &MainWindow::showShortcuts);
    shortcuts->setShortcuts({QKeySequence(Qt::Key_F1), QKeySequence(Qt::Key_Question)});
    help->addAction(tr("&About PipeScope"), this, [this] {
        QMessageBox::about(this, tr("About PipeScope"),
                           tr("PipeScope shows what a training pipeline did beside what was predicted for it."));
    });
}

void MainWindow::showShortcuts() {
    const auto row = [](const QString& keys, const QString& what) {
        return QStringLiteral("<tr><td><b>%1</b>&nbsp;&nbsp;&nbsp;</td><td>%2</td></tr>").arg(keys, what);
    };
    QString text = QStringLiteral("<table>");
    text += row(tr("W, S, +, −"), tr("zoom in, out"));
    text += row(tr("A, D, ←, →"), tr("move left, right; with Shift faster"));
    text += row(tr("Ctrl + wheel"), tr("zoom about the pointer"));
    text += row(tr("wheel, ↑, ↓"), tr("scroll the lanes"));
    text += row(tr("Shift + wheel, drag"), tr("move along the time axis"));
    text += row(tr("click"), tr("select a task; its twin is marked in the other timeline"));
    text += row(tr("double click"), tr("zoom to a task"));
    text += row(tr(". and ,"), tr("next, previous task of the lane"));
    text += row(tr("F"), tr("fit the selected task, or the step"));
    text += row(tr("0, Home"), tr("show all"));
    text += row(tr("Alt + ←, Alt + →"), tr("back, forward through the zoom history"));
    text += row(tr("Esc"), tr("clear the selection"));
    text += row(tr("Ctrl + O, F5"), tr("open, reload"));
    text += row(tr("Ctrl + E"), tr("export an image"));
    text += row(tr("F1, ?"), tr("this list"));
    auto* box = new QMessageBox(QMessageBox::NoIcon, tr("Shortcuts"), text + QStringLiteral("</table>"),
                                QMessageBox::Close, this);
    box->setAttribute(Qt::WA_DeleteOnClose);
    box->setObjectName(QStringLiteral("shortcuts"));
    box->open();
}
}  // namespace pipescope
