#include "gui/style/image_export.h"
#include "gui/style/message_bar.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/main_window.h"
#include "schedule/error.h"

#include <QApplication>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenuBar>
#include <QMessageBox>
#include <QMimeData>
#include <QSettings>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kMostRecentFiles = 10;
const QString kRecentFiles = QStringLiteral("files/recent");
constexpr double kZoom = 0.7;
}  // namespace

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
    QAction* reload = file->addAction(tr("Re&load"), this, [this] {
        if (document_) {
            this->open(document_->path);
        }
    });
    reload->setShortcuts(QKeySequence::Refresh);
    file->addSeparator();
    QAction* image = file->addAction(tr("&Export image…"), this, &MainWindow::askForExport);
    image->setShortcut(QKeySequence(Qt::CTRL | Qt::Key_E));
    file->addSeparator();
    QAction* quit = file->addAction(tr("&Quit"), this, &QWidget::close);
    quit->setShortcuts(QKeySequence::Quit);
}

QAction* MainWindow::addViewAction(QMenu& menu, const QString& text, const QList<QKeySequence>& keys,
                                   std::function<void()> run) {
    QAction* action = menu.addAction(text, this, std::move(run));
    action->setShortcuts(keys);
    // Single letters act only while a timeline has the focus.
    action->setShortcutContext(Qt::WidgetWithChildrenShortcut);
    content_->addAction(action);
    return action;
}

void MainWindow::createViewMenu() {
    QMenu& menu = *menuBar()->addMenu(tr("&View"));
    addViewAction(menu, tr("&Fit the selected task, or the step"), {Qt::Key_F}, [this] { fitSelection(); });
    addViewAction(menu, tr("Show &all"), {Qt::Key_Home, Qt::Key_0}, [this] { axis_->showAll(); });
    addViewAction(menu, tr("Zoom &in"), {QKeySequence::ZoomIn}, [this] { axis_->zoom(0.5, kZoom); });
    addViewAction(menu, tr("Zoom &out"), {QKeySequence::ZoomOut}, [this] { axis_->zoom(0.5, 1 / kZoom); });
    addViewAction(menu, tr("&Back"), {QKeySequence(Qt::ALT | Qt::Key_Left)}, [this] { axis_->goBack(); });
    addViewAction(menu, tr("F&orward"), {QKeySequence(Qt::ALT | Qt::Key_Right)}, [this] { axis_->goForward(); });
    addViewAction(menu, tr("&Clear the selection"), {Qt::Key_Escape}, [this] { axis_->select(std::nullopt); });
    menu.addSeparator();
    showMemory_ = menu.addAction(tr("&Memory"));
    showMemory_->setCheckable(true);
    showMemory_->setChecked(true);
    connect(showMemory_, &QAction::toggled, this,
            [this](bool on) { memoryPane_->setVisible(on && !memory_->empty()); });
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

void MainWindow::fitSelection() {
    if (!document_) {
        return;
    }
    const std::optional<TaskSelection>& selection = axis_->selection();
    if (!selection) {
        axis_->show(stepRange(*document_, step_));
        return;
    }
    const std::int64_t shift = simulatedShift(*document_, step_);
    const auto rangeIn = [&](Source source) -> std::optional<TimeRange> {
        const std::optional<SliceRef> slice = selection->in(source);
        if (!slice) {
            return std::nullopt;
        }
        const Slice found = document_->store(source)->slice(*slice);
        const std::int64_t by = source == Source::simulated ? shift : 0;
        return TimeRange{found.start.count() + by, found.end.count() + by};
    };
    TimeRange range = *rangeIn(selection->source);
    if (const std::optional<TimeRange> twin =
            rangeIn(selection->source == Source::measured ? Source::simulated : Source::measured)) {
        range = {std::min(range.start, twin->start), std::max(range.end, twin->end)};
    }
    const std::int64_t margin = range.length();
    axis_->show({range.start - margin, range.end + margin});
}

void MainWindow::askForFile() {
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Open a trace"), {}, tr("Traces (*.sqlite *.db);;All files (*)"));
    if (!path.isEmpty()) {
        open(path);
    }
}

void MainWindow::askForExport() {
    const QString path = QFileDialog::getSaveFileName(this, tr("Export an image"), tr("pipescope.png"),
                                                      tr("Images (*.png *.svg *.pdf)"));
    if (path.isEmpty()) {
        return;
    }
    try {
        saveImage(*centralWidget(), path);
    } catch (const Error& error) {
        showError(QString::fromUtf8(error.what()));
    }
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

void MainWindow::remember(const QString& path) {
    if (settings_ == nullptr) {
        return;
    }
    QStringList files = settings_->value(kRecentFiles).toStringList();
    const QString absolute = QFileInfo(path).absoluteFilePath();
    files.removeAll(absolute);
    files.prepend(absolute);
    settings_->setValue(kRecentFiles, QVariant(files.mid(0, kMostRecentFiles)));
}

void MainWindow::fillRecentFiles() {
    recent_->clear();
    const QStringList files = settings_ != nullptr ? settings_->value(kRecentFiles).toStringList() : QStringList();
    for (const QString& file : files) {
        recent_->addAction(file, this, [this, file] { open(file); });
    }
    if (files.isEmpty()) {
        recent_->addAction(tr("No file was opened yet"))->setEnabled(false);
    }
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
    const QList<QUrl> urls = event->mimeData()->urls();
    if (std::any_of(urls.begin(), urls.end(), [](const QUrl& url) { return url.isLocalFile(); })) {
        event->acceptProposedAction();
    }
}

void MainWindow::dropEvent(QDropEvent* event) {
    for (const QUrl& url : event->mimeData()->urls()) {
        if (url.isLocalFile()) {
            open(url.toLocalFile());
            event->acceptProposedAction();
            return;
        }
    }
}
}  // namespace pipescope
