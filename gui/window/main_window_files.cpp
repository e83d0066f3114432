#include "gui/document/document_loader.h"
#include "gui/document/trace_follower.h"
#include "gui/report/report.h"
#include "gui/style/image_export.h"
#include "gui/style/message_bar.h"
#include "gui/style/work_pool.h"
#include "gui/window/main_window.h"
#include "gui/window/window_settings.h"
#include "schedule/error.h"

#include <QApplication>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QFutureWatcher>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QPointer>
#include <QPromise>
#include <QSettings>
#include <QTabWidget>
#include <QThreadPool>
#include <QTimer>
#include <QtConcurrentRun>

#include <algorithm>
#include <memory>
#include <stop_token>

namespace pipescope {
namespace {
constexpr int kEventSlice = 20;  // ms between two looks at what is under way

struct Loaded {
    std::shared_ptr<const TraceDocument> document;  // null: see error
    QString error;
};

/// Loads a file. A large one yields several documents, each more complete than the previous one.
void tryLoad(QPromise<Loaded>& promise, const QString& path, const std::shared_ptr<GrowingTrace>& growing,
             const std::stop_token& stop) {
    try {
        if (growing) {
            promise.addResult(Loaded{growing->next(stop), {}});
            return;
        }
        loadDocument(
            path,
            [&](std::shared_ptr<const TraceDocument> document) {
                promise.addResult(Loaded{std::move(document), {}});
            },
            stop);
    } catch (const std::exception& error) {
        promise.addResult(Loaded{nullptr, QString::fromUtf8(error.what())});
    }
}
}  // namespace

void MainWindow::open(const QString& path) {
    DocumentPage* of = pageOf(path);
    if (of == nullptr) {
        of = addPage(path);
    }
    tabs_->setCurrentWidget(of);
    load(*of);
}

void MainWindow::open(const QStringList& paths) {
    for (const QString& path : paths) {
        open(path);
    }
}

void MainWindow::load(DocumentPage& page, const std::shared_ptr<GrowingTrace>& growing) {
    // The worker ends with the window or the tab; its result for a closed tab is dropped.
    auto* watcher = new QFutureWatcher<Loaded>(this);
    const auto stop = std::make_shared<std::stop_source>();
    connect(&page, &QObject::destroyed, watcher, [stop] { stop->request_stop(); });
    connect(watcher, &QFutureWatcher<Loaded>::finished, watcher, &QObject::deleteLater);
    const bool opens = !page.document();
    connect(watcher, &QFutureWatcher<Loaded>::resultReadyAt, this,
            [this, watcher, opens, of = QPointer(&page)](int index) {
                if (!of) {
                    return;
                }
                const Loaded result = watcher->resultAt(index);
                result.document ? showLoaded(*of, result.document) : showFailed(*of, result.error);
                if (result.document && !result.document->complete) {
                    return;
                }
                resumeFollowing(*of);
                if (!result.document) {
                    return;
                }
                followIfLive(*of);
                if (opens) {
                    restorePage(*of);
                }
                remember(of->path());
                Q_EMIT loaded();
            });
    watcher->setFuture(QtConcurrent::run(&workPool(), tryLoad, page.path(), growing, stop->get_token()));
}

void MainWindow::showLoaded(DocumentPage& page, std::shared_ptr<const TraceDocument> document) {
    const bool first = !page.document();
    messages_->hide();
    showDocks();
    page.setDocument(std::move(document), Keep::view);
    if (first && &page == this->page()) {
        page.focusTimeline();
    }
}

void MainWindow::showFailed(DocumentPage& page, const QString& error) {
    if (!page.document()) {
        followIfLive(page);
        if (page.live() == DocumentPage::Live::following) {
            page.showWaiting();
            return;
        }
        closePage(&page);
    }
    showError(error);
    Q_EMIT failed(error);
}

void MainWindow::reload() {
    if (page() != nullptr) {
        load(*page());
    }
}

void MainWindow::askForFile() {
    open(QFileDialog::getOpenFileNames(
        this, tr("Open traces or profiles"), {},
        tr("Traces and profiles (*.sqlite *.db *.sqlite3 *.json *.json.gz *.gz);;All files (*)")));
}

void MainWindow::askForReport() {
    const QString path =
        QFileDialog::getSaveFileName(this, tr("Export a report"), tr("report.html"), tr("Reports (*.html *.pdf)"));
    if (!path.isEmpty()) {
        exportReport(path);
    }
}

void MainWindow::exportReport(const QString& path) {
    try {
        if (document() != nullptr) {
            saveReport(report(), path);
        }
    } catch (const Error& error) {
        showError(QString::fromUtf8(error.what()));
    }
}

void MainWindow::finishWork() {
    const auto isUnderWay = [this] {
        const QList<QTimer*> timers = findChildren<QTimer*>();
        return workPool().activeThreadCount() > 0 || std::any_of(timers.begin(), timers.end(), [](const QTimer* timer) {
                   const bool follows = qobject_cast<const TraceFollower*>(timer->parent()) != nullptr;  // never ends
                   return timer->isSingleShot() && timer->isActive() && !follows;
               });
    };
    do {
        QApplication::processEvents(QEventLoop::AllEvents, kEventSlice);
        workPool().waitForDone();
        QApplication::sendPostedEvents();  // results of workers, which may begin further work
        QApplication::processEvents();
    } while (isUnderWay());
}

Report MainWindow::report() const {
    Report report = makeReport(*document(), step());
    report.picture = drawImage(*page(), ImageFormat::png);
    return report;
}

void MainWindow::remember(const QString& path) {
    if (settings_ == nullptr) {
        return;
    }
    QStringList files = settings_->value(QString(kRecentFilesKey)).toStringList();
    const QString absolute = QFileInfo(path).absoluteFilePath();
    files.removeAll(absolute);
    files.prepend(absolute);
    settings_->setValue(QString(kRecentFilesKey), QVariant(files.mid(0, kMostRecentFiles)));
}

void MainWindow::fillRecentFiles() {
    recent_->clear();
    const QStringList files =
        settings_ != nullptr ? settings_->value(QString(kRecentFilesKey)).toStringList() : QStringList();
    for (const QString& file : files) {
        recent_->addAction(file, this, [this, file] { open(file); });
    }
    if (files.isEmpty()) {
        recent_->addAction(tr("No file was opened yet"))->setEnabled(false);
    }
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
    const QList<QUrl> urls = event->mimeData()->urls();
    if (std::any_of(urls.begin(), urls.end(), [](const QUrl& url) { return url.isLocalFile(); })) {
        event->acceptProposedAction();
    }
}

void MainWindow::dropEvent(QDropEvent* event) {
    QStringList paths;
    for (const QUrl& url : event->mimeData()->urls()) {
        if (url.isLocalFile()) {
            paths << url.toLocalFile();
        }
    }
    if (!paths.isEmpty()) {
        open(paths);
        event->acceptProposedAction();
    }
}
}  // namespace pipescope
