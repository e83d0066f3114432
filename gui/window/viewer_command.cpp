#include "gui/window/viewer_command.h"

#include "base/error.h"
#include "base/printable.h"
#include "cli/view/view_options.h"
#include "gui/document/baseline.h"
#include "gui/document/document_loader.h"
#include "gui/report/timeline_page.h"
#include "gui/style/file_name.h"
#include "gui/style/image_export.h"
#include "gui/style/number_format.h"
#include "gui/style/theme.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_view.h"
#include "gui/window/answer_bar.h"
#include "gui/window/document_page.h"
#include "gui/window/export_menu.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"

#include <CLI/CLI.hpp>

#include <QApplication>
#include <QDockWidget>
#include <QFileInfo>
#include <QHashSeed>
#include <QLocale>
#include <QSettings>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace pipescope {
namespace {
QString given(const std::string& text, const char* usual) {
    return text.empty() ? QString::fromLatin1(usual) : QString::fromStdString(text);
}

Theme themeOf(const ViewOptions& options) {
    return parseTheme(given(options.theme, "system"));
}

MarkChoice choiceOf(const ViewOptions& options) {
    MarkChoice choice;
    choice.mode = parseCompareMode(given(options.mode, "side-by-side"));
    choice.alignment = parseAlignment(given(options.align, "first-task"));
    choice.criticalPath = options.critical_path;
    return choice;
}

/// True if a picture is written, perhaps beside a page.
bool drawsPicture(const ViewOptions& options) {
    return !options.render.empty() && !isPageName(QString::fromStdString(options.render));
}

void checkOutputNames(const ViewOptions& options) {
    if (!options.report.empty()) {
        requirePageName(QString::fromStdString(options.report));
    }
    if (drawsPicture(options)) {
        imageFormatOf(QString::fromStdString(options.render));
    } else if (!options.size.empty()) {
        throw UsageError("--size is " + options.size + ", but only the page '" +
                         (options.report.empty() ? options.render : options.report) +
                         "' is written, which fills the browser's window; leave --size out, or render a .png");
    }
}

/// Checks everything that can be checked before a file is read.
void check(const ViewOptions& options) {
    if (!options.baseline.empty() && options.files.size() != 1) {
        throw UsageError("--baseline is compared with one trace, but " + std::to_string(options.files.size()) +
                         " were named; name exactly one FILE");
    }
    for (const std::string& file : options.files) {
        textOfPath(file);
    }
    for (const std::string& file : options.baseline) {
        textOfPath(file);
    }
    for (const std::string& file : {options.notes_of, options.render, options.report}) {
        textOfPath(file);
    }
    check_view_options(options);
    themeOf(options);
    choiceOf(options);
    if (!options.writes_file()) {
        return;
    }
    if (options.files.size() != 1) {
        throw UsageError("--render and --report are about one trace, but " + std::to_string(options.files.size()) +
                         " were named; name exactly one FILE");
    }
    checkOutputNames(options);
    for (const std::string& target : {options.render, options.report}) {
        if (!target.empty() && QFileInfo::exists(QString::fromStdString(target)) && !options.force) {
            throw Error("'" + target +
                        "' exists already and is not replaced; use --force to replace it, or another name");
        }
        if (std::error_code ignored; std::filesystem::equivalent(target, options.files.front(), ignored)) {
            throw Error("'" + target + "' is the trace; the output would replace it; choose another output");
        }
    }
}

/// A picture needs no display, and must look the same with and without one.
void choosePlatform(const ViewOptions& options) {
    if (options.writes_file() && !qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) {
        qputenv("QT_QPA_PLATFORM", "offscreen");
    }
}

/// Suppresses irrelevant messages of Qt's offscreen platform.
void dropPlatformNoise(QtMsgType type, const QMessageLogContext&, const QString& message) {
    if (type == QtDebugMsg || type == QtInfoMsg || message.startsWith(QLatin1String("This plugin does not support")) ||
        message.startsWith(QLatin1String("QStandardPaths: "))) {
        return;
    }
    std::fprintf(stderr, "pipescope-gui: %s\n", printable(message.toStdString()).c_str());
}

/// Shows the asked part. Throws UsageError if none of it is in the file; says so on stderr if a part of it is not.
void showRange(TimeAxisModel& axis, const TimeRange& range, const std::string& text) {
    const TimeRange all{axis.total().start - axis.origin(), axis.total().end - axis.origin()};
    const std::string extent = "the timelines are from " + formatDuration(all.start).toStdString() + " to " +
                               formatDuration(all.end).toStdString() + " since the start of the step";
    if (range.end <= all.start || range.start >= all.end) {
        throw UsageError("--range is '" + text + "', but " + extent + "; choose a part of that");
    }
    const TimeRange shown{std::max(range.start, all.start), std::min(range.end, all.end)};
    if (shown.length() < range.length()) {
        std::fprintf(stderr, "pipescope-gui: --range is '%s', but %s; the rest is not drawn\n", printable(text).c_str(),
                     extent.c_str());
    }
    axis.show({axis.origin() + shown.start, axis.origin() + shown.end});
}

/// True if a step was measured, or marked by a range such as ProfilerStep#5.
bool hasStep(const TraceDocument& document, std::int32_t step) {
    return hasOnlyTracks(document) ? std::any_of(document.markedSteps.begin(), document.markedSteps.end(),
                                                 [step](const StepRecord& each) { return each.step == step; })
                                   : document.measured && document.measured->step(step) != nullptr;
}

/// True if each visible timeline has room for a line of its lanes.
bool showsLanes(const DocumentPage& page) {
    const QList<TimelineView*> views = page.findChildren<TimelineView*>();
    return std::all_of(views.begin(), views.end(), [](const TimelineView* view) {
        const QRect first = view->laneRect(LaneId{0});
        return !view->isVisible() || first.isNull() ||
               first.top() + view->fontMetrics().height() <= view->viewport()->height();
    });
}

bool fits(const MainWindow& window, const DocumentPage& page, const QSize& size) {
    return window.size() == size && showsLanes(page);
}

/// The least size that fits, nearly. Narrow windows need more height, since their lines of text wrap.
QSize leastSize(MainWindow& window, const DocumentPage& page) {
    constexpr int kMore = 16;  // px
    constexpr int kMostTries = 64;
    QSize size = window.minimumSizeHint();
    for (int tries = 0; tries < kMostTries; ++tries) {
        window.resize(size);
        QApplication::processEvents();
        QApplication::processEvents();
        if (fits(window, page, size)) {
            break;
        }
        const QSize needed = size.expandedTo(window.minimumSizeHint());
        size = needed == size ? size + QSize(0, kMore) : needed;
    }
    return size;
}

/// The number of forwards in the simulated step.
std::int64_t forwardsOf(const TraceDocument& document) {
    return document.simulation ? document.simulation->micro_batches *
                                     static_cast<std::int64_t>(document.simulation->options.balance.num_partitions())
                               : 0;
}

int renderWindow(const ViewOptions& options) {
    // The noise of a larger pipeline takes seconds to a minute, and so does what to change. A picture does without
    // both, a page of --report has the expected step.
    constexpr std::int64_t kMostForwards = 10'000;
    QLocale::setDefault(QLocale::c());
    MainWindow window(nullptr);
    const auto document = loadTrace(QString::fromStdString(options.files.front()),
                                    options.report.empty() ? kMostForwards : std::numeric_limits<std::int64_t>::max());
    const std::optional<std::int32_t> step = shown_step(options);
    if (step && !hasStep(*document, *step)) {
        throw Error("--step is " + options.step + ", but '" + options.files.front() +
                    "' has no such measured step; leave --step out for " +
                    (hasOnlyTracks(*document) ? "the whole recording" : "the one of median duration"));
    }
    const PictureSize size = picture_size(options);
    window.resize(size.width, size.height);
    window.show();
    window.files().setDocument(document);
    if (auto* advice = window.findChild<QDockWidget*>(QStringLiteral("advice"));
        advice != nullptr && forwardsOf(*document) > kMostForwards) {
        advice->hide();  // it simulates tens of changes
        if (auto* bubbles = window.findChild<QDockWidget*>(QStringLiteral("bubbles"))) {
            bubbles->raise();
        }
    }
    if (!options.baseline.empty()) {
        window.page()->model().showBaseline(baselineOf(*loadTrace(QString::fromStdString(options.baseline.front()))));
    }
    DocumentPage& page = *window.page();
    page.leaveOutRemarks();
    if (step) {
        page.model().selectStep(*step);
    }
    const MarkChoice choice = choiceOf(options);
    if (choice.mode != CompareMode::side_by_side && !(page.document()->measured && page.document()->simulated)) {
        throw Error("--mode is " + options.mode + ", but '" + options.files.front() +
                    "' has only one timeline; such a picture needs a measured and a simulated one, leave --mode out");
    }
    page.model().setChoice(choice);
    if (options.all) {
        page.axis().showAll();
    } else if (const auto range = shown_range(options)) {
        showRange(page.axis(), *range, options.range);
    } else if (choice.mode == CompareMode::difference && drawsPicture(options) &&
               hasStep(*page.document(), page.model().step())) {
        // The other timeline, which may be longer, is not in the picture.
        page.axis().show(measuredRange(*page.document(), page.model().step()));
    }
    QApplication::processEvents();  // lays out widgets and their scroll bars, and reads the notes beside FILE
    if (!options.notes_of.empty()) {
        page.loadNotes(QString::fromStdString(options.notes_of));
    }
    QApplication::processEvents();
    window.finishWork();
    if (!options.size.empty() && !fits(window, page, QSize(size.width, size.height))) {
        const QSize least = leastSize(window, page);
        throw UsageError("--size is " + options.size + ", but the lanes of this trace need a window of at least " +
                         std::to_string(least.width()) + "x" + std::to_string(least.height()) +
                         "; give a larger size, such as 1600x900");
    }
    if (drawsPicture(options)) {
        saveImage(window, QString::fromStdString(options.render));
    }
    for (const std::string& file : {options.render, options.report}) {
        if (isPageName(QString::fromStdString(file))) {
            saveTimelinePage(pageSceneOf(page, themeOf(options)), QString::fromStdString(file));
        }
    }
    return 0;
}

int showWindows(const ViewOptions& options) {
    QSettings settings(QStringLiteral("PipeScope"), QStringLiteral("viewer"));
    const QString theme = SessionState(&settings).value(kThemeKey).toString();
    if (themeOf(options) == Theme::system && (theme == QLatin1String("light") || theme == QLatin1String("dark"))) {
        applyTheme(parseTheme(theme));
    }
    MainWindow window(&settings);
    window.show();
    if (options.files.empty()) {
        window.files().restoreSession();
    }
    QStringList files;
    for (const std::string& file : options.files) {
        files << QString::fromStdString(file);
    }
    if (!options.baseline.empty()) {
        QObject::connect(
            &window.files(), &FileTabs::loaded, &window,
            [&] { window.files().compareWith({QString::fromStdString(options.baseline.front())}); },
            Qt::SingleShotConnection);
    }
    if (!options.notes_of.empty()) {
        QObject::connect(
            &window.files(), &FileTabs::loaded, &window,
            [&] { window.page()->loadNotes(QString::fromStdString(options.notes_of)); },
            static_cast<Qt::ConnectionType>(Qt::QueuedConnection | Qt::SingleShotConnection));
    }
    window.files().open(files);
    return QApplication::exec();
}

int report(const Error& error, int code) {
    std::fprintf(stderr, "pipescope-gui: %s\n", printable(error.what()).c_str());
    return code;
}
}  // namespace

int runViewer(int argc, char** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes then fails, and is reported
    CLI::App app("Shows a trace: the measured timeline above the simulated one.", "pipescope-gui");
    ViewOptions options;
    add_view_options(app, options);
    add_look_options(app, options);
    app.get_option("--baseline")->expected(1);
    app.add_option("--notes-of", options.notes_of, "The trace whose notes are shown, if FILE is a temporary one")
        ->type_name("FILE");
    try {
        app.parse(argc, argv);
        check(options);
        choosePlatform(options);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) {  // --help
            return app.exit(error);
        }
        return report(UsageError(error.what() + std::string("; see 'pipescope view --help'")), 2);
    } catch (const UsageError& error) {
        return report(error, 2);
    } catch (const Error& error) {
        return report(error, 1);
    }
    if (options.writes_file()) {
        qInstallMessageHandler(dropPlatformNoise);
        QHashSeed::setDeterministicGlobalSeed();  // a PDF lists its fonts in hash table order
    }
    QApplication application(argc, argv);
    if (options.writes_file()) {
        QApplication::setStyle(QStringLiteral("Fusion"));  // gives the same picture on every desktop
    }
    QApplication::setApplicationName(QStringLiteral("PipeScope"));
    applyTheme(themeOf(options));
    try {
        return options.writes_file() ? renderWindow(options) : showWindows(options);
    } catch (const UsageError& error) {
        return report(error, 2);
    } catch (const Error& error) {
        return report(error, 1);
    }
}
}  // namespace pipescope
