#pragma once

#include "gui/window/document_page.h"

#include <QHash>
#include <QTabWidget>

#include <memory>
#include <stop_token>

namespace pipescope {
class GrowingTrace;
class SessionState;

/// The open files, one tab each. Reads them, follows those that are being recorded, and shows each as it was last seen.
/// Repeats the signals of the current page, so that others need not know which one that is.
/// Threading: the GUI thread; workers read files and publish complete documents.
class FileTabs : public QTabWidget {
    Q_OBJECT

public:
    /// `session` must outlive the tabs.
    explicit FileTabs(SessionState& session, QWidget* parent = nullptr);

    /// The current page; null if nothing is open.
    DocumentPage* page() const { return qobject_cast<DocumentPage*>(currentWidget()); }
    QList<DocumentPage*> pages() const;
    /// The current page's document; null if nothing is open or read.
    const TraceDocument* document() const { return page() != nullptr ? page()->document().get() : nullptr; }

    /// Opens a file, folder, or entry of the session (ViewedFiles::entry()), whose files share a tab.
    void open(const QString& entry);
    /// Starts reading files; `loaded` or `failed` follows. A folder alone stands for its run; of several runs,
    /// `runsFound` follows instead. Beside other names it stands for the traces in it. Files of one run's
    /// processes are one timeline in one tab; others have tabs of their own, of which the last one becomes the current
    /// one. A single file has its tab at once; which of several are of one run is found out by a worker. A file that is
    /// already open is read again into its tab, which keeps its view; if it is still being read, only the new reading
    /// counts.
    void open(const QStringList& paths);
    /// Reads the current page's file again.
    void reload();
    /// Opens the files of one run, and shows those of a run before below it once they are read; `failed` may follow.
    void openAndCompare(const QStringList& after, const QStringList& before);
    /// Starts reading the trace of a run before, or those of all its processes, and shows it below the current page's
    /// run; `failed` may follow.
    void compareWith(const QStringList& paths);
    /// Shows the current page's simulation again.
    void backToSimulation();
    /// Shows a document in the tab of its file, creates the tab if necessary, and makes it the current one.
    void setDocument(std::shared_ptr<const TraceDocument> document);
    /// Null: does nothing.
    void closePage(DocumentPage* page);
    void saveSession() const;
    /// Opens the files that were open when the last window was closed.
    void restoreSession();

Q_SIGNALS:
    void loaded();
    void failed(const QString& text);
    /// A folder that was opened holds several runs.
    void runsFound(const QString& folder);
    /// What is under way; empty: nothing any more.
    void said(const QString& text);
    void pageAdded(pipescope::DocumentPage& page);
    /// A document that was asked for was read and is about to be shown; not news of a file that grows.
    void arrived();
    /// The current page or its document changed. Both may be null.
    void pageChanged();
    /// The simulated half of the current page's document changed, as it does for every move of a slider.
    void simulationChanged();
    /// The current page's step changed.
    void stepChanged();
    void selectionChanged();
    /// The current page shows another part, its lanes otherwise, or other marks.
    void viewChanged();
    /// A click in a timeline of the current page selected something.
    void picked();

private:
    void compareWith(DocumentPage& page, const QStringList& paths);
    DocumentPage* pageOf(const QString& path) const;
    /// The files' page, a new one if necessary, as the current page.
    DocumentPage& bringUp(const QStringList& files);
    void repeatSignals(DocumentPage& page);
    struct Reading {
        std::shared_ptr<std::stop_source> stop;
        bool opens = false;            ///< the page was not yet shown as it was last seen
        QStringList compareWith = {};  ///< the run before, to show once the file is read; empty: none
    };
    /// Reads the page's file from its beginning. If it is being written, follows it anew once it is read.
    void load(DocumentPage& page);
    /// Reads the page's file, or only what `growing` has not read. An earlier reading no longer counts.
    void read(DocumentPage& page, const std::shared_ptr<GrowingTrace>& growing = nullptr);
    void showLoaded(DocumentPage& page, std::shared_ptr<const TraceDocument> document);
    void showFailed(DocumentPage& page, const QString& error);
    void followIfLive(DocumentPage& page);

    SessionState& session_;
    QHash<DocumentPage*, Reading> readings_;  // of open pages: the latest one, done or not
};
}  // namespace pipescope
