#include "gui/document/document_loader.h"
#include "gui/style/image_export.h"
#include "gui/style/message_bar.h"
#include "gui/window/main_window.h"
#include "gui/window/window_settings.h"
#include "schedule/error.h"

#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QFutureWatcher>
#include <QMenu>
#include <QMimeData>
#include <QPointer>
#include <QSettings>
#include <QTabWidget>
#include <QtConcurrentRun>

#include <algorithm>

namespace pipescope {
namespace {
struct Loaded {
    std::shared_ptr<const TraceDocument> document;  // null: see error
    QString error;
};

Loaded tryLoad(const QString& path) {
    try {
        return {loadTrace(path), {}};
    } catch (const std::exception& error) {
        return {nullptr, QString::fromUtf8(error.what())};
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

void MainWindow::load(DocumentPage& page) {
    // The worker outlives neither the window nor a closed tab; what it read for a closed one is dropped.
    auto* watcher = new QFutureWatcher<Loaded>(this);
    connect(watcher, &QFutureWatcher<Loaded>::finished, this, [this, watcher, of = QPointer(&page)] {
        const Loaded result = watcher->result();
        watcher->deleteLater();
        if (!of) {
            return;
        }
        if (result.document) {
            messages_->hide();
            showDocks();
            of->setDocument(result.document, Keep::view);
            if (of == this->page()) {
                of->focusTimeline();
            }
            remember(of->path());
            Q_EMIT loaded();
            return;
        }
        if (!of->document()) {
            closePage(of);
        }
        showError(result.error);
        Q_EMIT failed(result.error);
    });
    watcher->setFuture(QtConcurrent::run(tryLoad, page.path()));
}

void MainWindow::reload() {
    if (page() != nullptr) {
        load(*page());
    }
}

void MainWindow::askForFile() {
    const QStringList paths =
        QFileDialog::getOpenFileNames(this, tr("Open a trace"), {}, tr("Traces (*.sqlite *.db);;All files (*)"));
    for (const QString& path : paths) {
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
        saveImage(*page(), path);
    } catch (const Error& error) {
        showError(QString::fromUtf8(error.what()));
    }
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
        }
    }
}
}  // namespace pipescope
