#include "gui/window/file_tabs.h"

#include "base/error.h"
#include "base/stop_check.h"
#include "gui/document/baseline.h"
#include "gui/document/document_loader.h"
#include "gui/document/trace_follower.h"
#include "gui/style/file_name.h"
#include "gui/style/work_pool.h"
#include "gui/window/menu_entries.h"
#include "gui/window/session_state.h"
#include "trace/merge/run_files.h"

#include <QFileInfo>
#include <QFutureWatcher>
#include <QPointer>
#include <QPromise>
#include <QtConcurrentRun>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr int kPercent = 100;

struct Loaded {
    std::shared_ptr<const TraceDocument> document;  // null: see error
    QString error;
};

/// Loads a file. A large one yields several documents, each more complete than the previous one. The promise's progress
/// is the share of the file that was read, in percent, if that is known.
void tryLoad(QPromise<Loaded>& promise, const std::shared_ptr<ViewedFiles>& files,
             const std::shared_ptr<GrowingTrace>& growing, const std::stop_token& stop) {
    const StopCheck check([&stop] { return !stop.stop_requested(); });
    promise.setProgressRange(0, kPercent);
    const auto tell = [&promise](double share) { promise.setProgressValue(static_cast<int>(share * kPercent)); };
    try {
        if (growing) {
            promise.addResult(Loaded{growing->next(stop), {}});
            return;
        }
        if (files->areSeveral()) {  // which takes longer than reading
            promise.addResult(Loaded{loadTrace(files->fileToRead(tell)), {}});
            return;
        }
        loadDocument(
            files->fileToRead(),
            [&](std::shared_ptr<const TraceDocument> document) {
                promise.addResult(Loaded{std::move(document), {}});
            },
            stop, std::numeric_limits<std::int64_t>::max(), tell);
    } catch (const ComputationStopped&) {
        return;  // nobody waits for it
    } catch (...) {
        promise.addResult(Loaded{nullptr, handledExceptionText()});
    }
}

/// "recorded run, transformer:layers=6, 4 lanes, 10 steps"
QString aboutOf(const TraceDocument& document) {
    const TimelineStore* store = document.measured ? document.measured.get() : document.simulated.get();
    QStringList facts;
    facts << (document.measured    ? FileTabs::tr("recorded run")
              : document.simulated ? FileTabs::tr("simulation or profile")
                                   : FileTabs::tr("threads and streams"));
    facts << QString::fromStdString(document.run.model);
    if (store != nullptr) {
        facts << FileTabs::tr("%n lane(s)", nullptr, static_cast<int>(store->lanes().size()));
        facts << (document.measured ? FileTabs::tr("%n step(s)", nullptr, static_cast<int>(store->steps().size()))
                                    : QString());
    }
    facts.removeAll(QString());
    return facts.join(QStringLiteral(", "));
}

constexpr qsizetype kMostFilesOfAFolder = 8;

QStringList namesOf(const std::vector<std::filesystem::path>& paths) {
    QStringList names;
    for (const std::filesystem::path& path : paths) {
        names << textOfPath(path.string());
    }
    return names;
}

QStringList withFilesOfFolders(const QStringList& arguments) {
    std::ranges::for_each(arguments, pathOf);  // refuses names that look like another one
    return namesOf(with_files_of_folders(pathsOf(arguments)));
}

/// The files to show in each tab. Cost: reading the heads of all files, and some of them to their end.
std::vector<QStringList> tabsOf(const QStringList& paths) {
    const QStringList files = withFilesOfFolders(paths);
    const std::vector<std::vector<std::filesystem::path>> runs = grouped_by_run(pathsOf(files));
    if (files.size() > paths.size() && std::ssize(runs) > kMostFilesOfAFolder) {
        throw Error(paths.front().toStdString() + " holds " + std::to_string(files.size()) +
                    " files that are not of one run; choose some of them");
    }
    std::vector<QStringList> tabs;
    std::ranges::transform(runs, std::back_inserter(tabs), namesOf);
    return tabs;
}

/// The files of each run in the folder and its subfolders. Throws TraceError if there is none.
std::vector<QStringList> runsOfFolder(const QString& folder) {
    const std::vector<std::vector<std::filesystem::path>> runs = runs_in(pathOf(folder)).runs;
    if (runs.empty()) {
        withFilesOfFolders({folder});
    }
    std::vector<QStringList> tabs;
    std::ranges::transform(runs, std::back_inserter(tabs), namesOf);
    for (const QStringList& files : tabs) {
        std::ranges::for_each(files, pathOf);  // refuses names that look like another one
    }
    return tabs;
}
}  // namespace

FileTabs::FileTabs(SessionState& session, QWidget* parent) : QTabWidget(parent), session_(session) {
    setDocumentMode(true);
    setTabsClosable(true);
    setMovable(true);
    setTabBarAutoHide(true);
    setAccessibleName(tr("Open files"));
    connect(this, &QTabWidget::currentChanged, this, &FileTabs::pageChanged);
    connect(this, &QTabWidget::tabCloseRequested, this,
            [this](int index) { closePage(qobject_cast<DocumentPage*>(widget(index))); });
}

QList<DocumentPage*> FileTabs::pages() const {
    QList<DocumentPage*> all;
    for (int i = 0; i < count(); ++i) {
        all << qobject_cast<DocumentPage*>(widget(i));
    }
    return all;
}

DocumentPage* FileTabs::pageOf(const QString& entry) const {
    const QList<DocumentPage*> all = pages();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const DocumentPage* each) { return each->files()->entry() == entry; });
    return found != all.end() ? *found : nullptr;
}

DocumentPage& FileTabs::bringUp(const QStringList& files) {
    DocumentPage* shown = pageOf(ViewedFiles(files).entry());
    if (shown == nullptr) {
        shown = new DocumentPage(files, this);
        repeatSignals(*shown);
        Q_EMIT pageAdded(*shown);
        const int index = addTab(shown, withoutMnemonics(ViewedFiles::nameOf(files)));
        setTabToolTip(index, shown->files()->entry());
    }
    setCurrentWidget(shown);
    return *shown;
}

void FileTabs::repeatSignals(DocumentPage& page) {
    const auto repeat = [this, &page](const auto* of, auto signal, auto own) {
        connect(of, signal, this, [this, &page, own] {
            if (&page == this->page()) {
                Q_EMIT(this->*own)();
            }
        });
    };
    repeat(&page.model(), &PageModel::documentChanged, &FileTabs::pageChanged);
    repeat(&page.model(), &PageModel::simulationChanged, &FileTabs::simulationChanged);
    repeat(&page.model(), &PageModel::stepChanged, &FileTabs::stepChanged);
    repeat(&page.axis(), &TimeAxisModel::selectionChanged, &FileTabs::selectionChanged);
    repeat(&page, &DocumentPage::picked, &FileTabs::picked);
    for (const auto changed :
         {&TimeAxisModel::windowChanged, &TimeAxisModel::marksChanged, &TimeAxisModel::rangeChanged}) {
        repeat(&page.axis(), changed, &FileTabs::viewChanged);
    }
    for (const auto changed : {&PageModel::arrangementChanged, &PageModel::choiceChanged}) {
        repeat(&page.model(), changed, &FileTabs::viewChanged);
    }
    connect(&page, &DocumentPage::openingCancelled, this, [this, &page] { closePage(&page); });
}

void FileTabs::open(const QString& entry) {
    const QStringList files = ViewedFiles::filesOf(entry);
    if (files.size() > 1) {
        load(bringUp(files));  // they were found to be of one run
    } else {
        open(files);
    }
}

void FileTabs::open(const QStringList& paths) {
    if (paths.isEmpty()) {
        return;
    }
    if (paths.size() == 1 && !QFileInfo(paths.front()).isDir()) {
        load(bringUp(paths));
        return;
    }
    Q_EMIT said(tr("Grouping the files by run …"));
    const bool isFolder = paths.size() == 1;
    runInPool(
        *this, [paths, isFolder] { return isFolder ? runsOfFolder(paths.front()) : tabsOf(paths); },
        [this, paths, isFolder](const std::vector<QStringList>& tabs) {
            Q_EMIT said({});
            if (isFolder && tabs.size() > 1) {
                Q_EMIT runsFound(paths.front());
                return;
            }
            for (const QStringList& files : tabs) {
                load(bringUp(files));
            }
        },
        [this](const QString& error) { Q_EMIT failed(error); });
}

void FileTabs::reload() {
    if (page() != nullptr) {
        load(*page());
    }
}

void FileTabs::openAndCompare(const QStringList& after, const QStringList& before) {
    DocumentPage& page = bringUp(after);
    readings_[&page].compareWith = before;
    load(page);
}

void FileTabs::compareWith(const QStringList& paths) {
    if (page() != nullptr) {
        compareWith(*page(), paths);
    }
}

void FileTabs::compareWith(DocumentPage& page, const QStringList& paths) {
    runInPool(
        page,
        [paths] {
            const QStringList files = withFilesOfFolders(paths);
            if (files.size() > 1 && !are_of_one_run(pathsOf(files))) {
                throw Error("these " + std::to_string(files.size()) +
                            " files are not of one run; choose one trace, or those of all its processes");
            }
            return baselineOf(*loadTrace(ViewedFiles(files).fileToRead()));
        },
        [this, of = QPointer(&page)](const std::shared_ptr<const Baseline>& baseline) {
            try {
                if (of) {
                    of->model().showBaseline(baseline);
                }
            } catch (const Error& error) {
                Q_EMIT failed(QString::fromUtf8(error.what()));
            }
        },
        [this](const QString& error) { Q_EMIT failed(error); });
}

void FileTabs::backToSimulation() {
    if (page() != nullptr && page()->model().baseline()) {
        page()->model().showRecorded();
    }
}

void FileTabs::setDocument(std::shared_ptr<const TraceDocument> document) {
    DocumentPage& shown = bringUp({document->path});
    showLoaded(shown, std::move(document));
    shown.focusTimeline();
}

void FileTabs::closePage(DocumentPage* page) {
    if (page == nullptr) {
        return;
    }
    session_.savePage(*page);
    removeTab(indexOf(page));
    if (const Reading reading = readings_.take(page); reading.stop) {
        reading.stop->request_stop();
    }
    page->deleteLater();
    Q_EMIT pageChanged();
}

void FileTabs::load(DocumentPage& page) {
    delete page.findChild<TraceFollower*>();  // it may follow a file that another one replaced
    read(page);
}

void FileTabs::read(DocumentPage& page, const std::shared_ptr<GrowingTrace>& growing) {
    // The worker ends with the window or the tab; its result for a closed tab is dropped.
    auto* watcher = new QFutureWatcher<Loaded>(this);
    const auto stop = std::make_shared<std::stop_source>();
    Reading& latest = readings_[&page];
    if (latest.stop) {  // what an earlier reading still finds would take the place of this one's
        latest.stop->request_stop();
    }
    latest.stop = stop;
    latest.opens = latest.opens || !page.document();
    connect(&page, &QObject::destroyed, watcher, [stop] { stop->request_stop(); });
    connect(watcher, &QFutureWatcher<Loaded>::finished, watcher, &QObject::deleteLater);
    connect(watcher, &QFutureWatcher<Loaded>::progressValueChanged, &page, &DocumentPage::showOpening);
    connect(watcher, &QFutureWatcher<Loaded>::resultReadyAt, this,
            [this, watcher, stop, of = QPointer(&page)](int index) {
                if (!of || stop->stop_requested()) {
                    return;
                }
                const Loaded result = watcher->resultAt(index);
                if (!result.document) {
                    readings_[of].compareWith.clear();
                }
                result.document ? showLoaded(*of, result.document) : showFailed(*of, result.error);
                if (result.document && !result.document->complete) {
                    return;
                }
                if (auto* follower = of->findChild<TraceFollower*>()) {
                    follower->resume();
                }
                if (!result.document) {
                    return;
                }
                followIfLive(*of);
                if (std::exchange(readings_[of].opens, false)) {
                    session_.restorePage(*of);
                }
                session_.addRecentFile(of->files()->entry(), aboutOf(*of->document()));
                const QStringList before = std::exchange(readings_[of].compareWith, {});
                Q_EMIT loaded();
                if (of && !before.isEmpty()) {
                    compareWith(*of, before);
                }
            });
    watcher->setFuture(QtConcurrent::run(&workPool(), tryLoad, page.files(), growing, stop->get_token()));
}

void FileTabs::showLoaded(DocumentPage& page, std::shared_ptr<const TraceDocument> document) {
    const bool first = !page.document();
    if (first || page.findChild<TraceFollower*>() == nullptr) {
        Q_EMIT arrived();
    }
    page.setDocument(std::move(document));
    if (first && &page == this->page()) {
        page.focusTimeline();
    }
}

void FileTabs::showFailed(DocumentPage& page, const QString& error) {
    followIfLive(page);
    if (!page.document()) {
        if (page.live().state() == LiveBadge::State::following) {
            page.showWaiting();
            return;
        }
        closePage(&page);
    }
    Q_EMIT failed(error);
}

void FileTabs::followIfLive(DocumentPage& page) {
    if (page.findChild<TraceFollower*>() != nullptr) {
        return;
    }
    if (!isBeingWritten(page.files()->files())) {
        if (page.live().state() == LiveBadge::State::following) {  // until it was read again
            page.setLive(LiveBadge::State::ended);
        }
        return;
    }
    page.setLive(LiveBadge::State::following);
    auto* follower = new TraceFollower(page.files()->files(), &page);
    // Several files are joined anew each time.
    const auto growing = page.files()->areSeveral() ? nullptr : std::make_shared<GrowingTrace>(page.path());
    connect(follower, &TraceFollower::grown, this, [this, follower, growing, of = QPointer(&page)] {
        if (of) {
            read(*of, follower->ended() ? nullptr : growing);  // resumes the follower once it is shown
        }
    });
    connect(follower, &TraceFollower::finished, &page, [follower, &page] {
        page.setLive(LiveBadge::State::ended);
        follower->deleteLater();
    });
}

void FileTabs::saveSession() const {
    QStringList open;
    for (const DocumentPage* each : pages()) {
        session_.savePage(*each);
        open << each->files()->entry();
    }
    session_.setValue(kOpenFilesKey, open);
    session_.setValue(kCurrentFileKey, currentIndex());
}

void FileTabs::restoreSession() {
    const int current = session_.value(kCurrentFileKey).toInt();
    for (const QString& file : session_.value(kOpenFilesKey).toStringList()) {
        if (ViewedFiles::exist(file)) {  // skips files deleted since, without an error
            open(file);
        }
    }
    setCurrentIndex(std::min(current, count() - 1));
}
}  // namespace pipescope
