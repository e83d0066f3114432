#include "gui/window/viewer_command.h"

#include "gui/document/baseline.h"
#include "gui/document/document_loader.h"
#include "gui/report/report.h"
#include "gui/report/timeline_page.h"
#include "gui/style/image_export.h"
#include "gui/style/number_format.h"
#include "gui/style/theme.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_view.h"
#include "gui/window/document_page.h"
#include "gui/window/export_menu.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "schedule/error.h"
#include "schedule/number_text.h"
#include "schedule/quantities.h"

#include <CLI/CLI.hpp>

#include <QApplication>
#include <QDockWidget>
#include <QFileInfo>
#include <QHashSeed>
#include <QLocale>
#include <QSettings>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr int kLeastSide = 320;
constexpr int kMostSide = 16384;

struct ViewerArguments {
    std::vector<std::string> files;
    std::string render;
    std::string report;
    std::string baseline;
    std::string size = "1600x900";
    bool sizeGiven = false;
    std::string theme = "system";
    std::string step;
    bool all = false;
    std::string range;
    std::string mode = "side-by-side";
    std::string align = "first-task";
    bool criticalPath = false;
    bool force = false;
};

/// True if only a picture or report is written and nothing is shown.
bool headless(const ViewerArguments& arguments) {
    return !arguments.render.empty() || !arguments.report.empty();
}

void declare(CLI::App& app, ViewerArguments& arguments) {
    app.add_option("FILE", arguments.files,
                   "Traces to show, each in a tab, or as one timeline if they are of one run's processes; default: "
                   "those open last time");
    app.add_option(
           "--render", arguments.render,
           "Draw the window into OUT.png, OUT.svg or OUT.pdf, or write an interactive page OUT.html, instead of "
           "showing it; needs no display")
        ->type_name("OUT");
    app.add_option("--report", arguments.report,
                   "Write a report about the run to OUT.html or OUT.pdf instead of showing a window; needs no display")
        ->type_name("OUT");
    app.add_option("--baseline", arguments.baseline, "Trace of an earlier run, to show instead of the simulation");
    app.add_option("--size", arguments.size, "Size of the picture in pixels, WIDTHxHEIGHT")
        ->capture_default_str()
        ->each([&arguments](const std::string&) { arguments.sizeGiven = true; });
    app.add_option("--step", arguments.step, "Measured step to compare; default: the one of median duration");
    app.add_flag("--all", arguments.all, "Show the whole recording, not one step");
    app.add_option("--range", arguments.range,
                   "What to show, FROM:TO since the start of the step, as 12ms:30ms; plain numbers are ns")
        ->excludes("--all");
    app.add_option("--mode", arguments.mode, "side-by-side, overlay or difference")->capture_default_str();
    app.add_option("--align", arguments.align, "Where the simulated step stands: first-task or step")
        ->capture_default_str();
    app.add_flag("--critical-path", arguments.criticalPath, "Mark the critical path");
    app.add_option("--theme", arguments.theme, "system, light or dark")->capture_default_str();
    app.add_flag("--force", arguments.force, "Replace the file if there is one");
}

QSize parseSize(const std::string& text) {
    const QStringList parts = QString::fromStdString(text).split(QLatin1Char('x'));
    bool ok[2] = {false, false};
    const QSize size = parts.size() == 2 ? QSize(parts[0].toInt(&ok[0]), parts[1].toInt(&ok[1])) : QSize();
    const auto fits = [](int side) { return side >= kLeastSide && side <= kMostSide; };
    if (!ok[0] || !ok[1] || !fits(size.width()) || !fits(size.height())) {
        throw UsageError("--size is '" + text + "', but must be WIDTHxHEIGHT with each from " +
                         std::to_string(kLeastSide) + " to " + std::to_string(kMostSide) + "; try 1600x900");
    }
    return size;
}

/// Parses a time with a unit; plain numbers are in ns. A negative time lies before the step.
std::int64_t parseTime(const std::string& text) {
    const bool before = text.starts_with('-');
    const bool plain = !text.empty() && (text.back() == '.' || (text.back() >= '0' && text.back() <= '9'));
    const std::string size = text.substr(before ? 1 : 0);
    if (const auto first = size.find_first_not_of(' ');
        first == std::string::npos || std::string_view(".0123456789").find(size[first]) == std::string_view::npos) {
        throw UsageError("--range holds '" + text +
                         "', but must hold two times since the start of the step; try 0ms:10ms, or -2ms:10ms to begin "
                         "before it");
    }
    const double ns = parse_duration_ns(size + (plain ? "ns" : ""), "a time of --range");
    if (ns >= 9e18) {
        throw UsageError("--range holds '" + text + "', but times end at 9e18 ns; use an earlier one");
    }
    return std::llround(before ? -ns : ns);
}

TimeRange parseRange(const std::string& text) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) {
        throw UsageError("--range is '" + text + "', but must be FROM:TO, two times; try 0ms:10ms");
    }
    const TimeRange range{parseTime(text.substr(0, colon)), parseTime(text.substr(colon + 1))};
    if (range.length() <= 0) {
        throw UsageError("--range is '" + text + "', but must end after it starts; " +
                         (range.length() < 0 ? "swap the two times" : "give a later end"));
    }
    return range;
}

/// Empty: not given.
std::optional<std::int32_t> parseStep(const std::string& text) {
    const auto step = number_in<std::int32_t>(text);
    if (!text.empty() && (!step || *step < 0)) {
        throw UsageError(
            "--step is '" + text +
            "', but must be the number of a step, from 0; leave --step out for the one of median duration");
    }
    return step;
}

bool rendersPage(const ViewerArguments& arguments) {
    return isPageName(QString::fromStdString(arguments.render));
}

void checkRenderName(const ViewerArguments& arguments) {
    if (rendersPage(arguments)) {
        if (arguments.sizeGiven) {
            throw UsageError("--size is " + arguments.size + ", but --render writes the page '" + arguments.render +
                             "', which fills the browser's window; leave --size out, or render a .png");
        }
    } else if (!arguments.render.empty()) {
        imageFormatOf(QString::fromStdString(arguments.render));
    }
}

/// Checks everything that can be checked before a file is read.
void check(const ViewerArguments& arguments) {
    parseSize(arguments.size);
    parseTheme(QString::fromStdString(arguments.theme));
    parseCompareMode(QString::fromStdString(arguments.mode));
    parseAlignment(QString::fromStdString(arguments.align));
    if (!arguments.range.empty()) {
        parseRange(arguments.range);
    }
    parseStep(arguments.step);
    if (!arguments.baseline.empty() && arguments.files.size() != 1) {
        throw UsageError("--baseline is compared with one trace, but " + std::to_string(arguments.files.size()) +
                         " were named; name exactly one FILE");
    }
    if (!headless(arguments)) {
        return;
    }
    if (arguments.files.size() != 1) {
        throw UsageError("--render and --report are about one trace, but " + std::to_string(arguments.files.size()) +
                         " were named; name exactly one FILE");
    }
    checkRenderName(arguments);
    if (!arguments.report.empty()) {
        requireReportName(QString::fromStdString(arguments.report));
    }
    for (const std::string& target : {arguments.render, arguments.report}) {
        if (!target.empty() && QFileInfo::exists(QString::fromStdString(target)) && !arguments.force) {
            throw Error("'" + target +
                        "' exists already and is not replaced; use --force to replace it, or another name");
        }
    }
}

/// A picture needs no display, and must look the same with and without one. A window needs one.
void choosePlatform(bool render) {
    if (qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) {
        return;
    }
    if (render) {
        qputenv("QT_QPA_PLATFORM", "offscreen");
    } else if (qEnvironmentVariableIsEmpty("DISPLAY") && qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY")) {
        throw Error(
            "no display: neither DISPLAY nor WAYLAND_DISPLAY is set, but a window needs one; use --render out.png "
            "to draw the window into a file");
    }
}

/// Suppresses irrelevant messages of Qt's offscreen platform.
void dropPlatformNoise(QtMsgType type, const QMessageLogContext&, const QString& message) {
    if (type == QtDebugMsg || type == QtInfoMsg || message.startsWith(QLatin1String("This plugin does not support")) ||
        message.startsWith(QLatin1String("QStandardPaths: "))) {
        return;
    }
    std::fprintf(stderr, "pipescope-gui: %s\n", message.toUtf8().constData());
}

/// Shows the asked part. Throws UsageError if none of it is in the file; says so on stderr if a part of it is not.
void showRange(TimeAxisModel& axis, const std::string& text) {
    const TimeRange range = parseRange(text);
    const TimeRange all{axis.total().start - axis.origin(), axis.total().end - axis.origin()};
    const std::string extent = "the timelines are from " + formatDuration(all.start).toStdString() + " to " +
                               formatDuration(all.end).toStdString() + " since the start of the step";
    if (range.end <= all.start || range.start >= all.end) {
        throw UsageError("--range is '" + text + "', but " + extent + "; choose a part of that");
    }
    const TimeRange shown{std::max(range.start, all.start), std::min(range.end, all.end)};
    if (shown.length() < range.length()) {
        std::fprintf(stderr, "pipescope-gui: --range is '%s', but %s; the rest is not drawn\n", text.c_str(),
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

/// The number of forwards in the simulated step.
std::int64_t forwardsOf(const TraceDocument& document) {
    return document.simulation ? document.simulation->micro_batches *
                                     static_cast<std::int64_t>(document.simulation->options.balance.num_partitions())
                               : 0;
}

int renderWindow(const ViewerArguments& arguments) {
    // The noise of a larger pipeline takes seconds to a minute, and so does what to change. A picture does without
    // both, a report has the expected step.
    constexpr std::int64_t kMostForwards = 10'000;
    QLocale::setDefault(QLocale::c());
    MainWindow window(nullptr);
    const auto document =
        loadTrace(QString::fromStdString(arguments.files.front()),
                  arguments.report.empty() ? kMostForwards : std::numeric_limits<std::int64_t>::max());
    const std::optional<std::int32_t> step = parseStep(arguments.step);
    if (step && !hasStep(*document, *step)) {
        throw Error("--step is " + arguments.step + ", but '" + arguments.files.front() +
                    "' has no such measured step; leave --step out for " +
                    (hasOnlyTracks(*document) ? "the whole recording" : "the one of median duration"));
    }
    window.resize(parseSize(arguments.size));
    window.show();
    window.files().setDocument(document);
    if (auto* advice = window.findChild<QDockWidget*>(QStringLiteral("advice"));
        advice != nullptr && forwardsOf(*document) > kMostForwards) {
        advice->hide();  // it simulates tens of changes
        if (auto* bubbles = window.findChild<QDockWidget*>(QStringLiteral("bubbles"))) {
            bubbles->raise();
        }
    }
    if (!arguments.baseline.empty()) {
        window.page()->model().showBaseline(baselineOf(*loadTrace(QString::fromStdString(arguments.baseline))));
    }
    DocumentPage& page = *window.page();
    page.leaveOutRemarks();
    if (step) {
        page.model().selectStep(*step);
    }
    MarkChoice choice;
    choice.mode = parseCompareMode(QString::fromStdString(arguments.mode));
    choice.alignment = parseAlignment(QString::fromStdString(arguments.align));
    choice.criticalPath = arguments.criticalPath;
    if (choice.mode != CompareMode::side_by_side && !(page.document()->measured && page.document()->simulated)) {
        throw Error("--mode is " + arguments.mode + ", but '" + arguments.files.front() +
                    "' has only one timeline; such a picture needs a measured and a simulated one, leave --mode out");
    }
    page.model().setChoice(choice);
    if (arguments.all) {
        page.axis().showAll();
    } else if (!arguments.range.empty()) {
        showRange(page.axis(), arguments.range);
    }
    QApplication::processEvents();  // lays out widgets and their scroll bars
    QApplication::processEvents();
    window.finishWork();
    if (arguments.sizeGiven && (window.size() != parseSize(arguments.size) || !showsLanes(page))) {
        throw UsageError("--size is " + arguments.size + ", but the lanes of this trace need a window of at least " +
                         std::to_string(window.minimumSizeHint().width()) + "x" +
                         std::to_string(window.minimumSizeHint().height()) + "; give a larger size, such as 1600x900");
    }
    if (rendersPage(arguments)) {
        saveTimelinePage(pageSceneOf(page, parseTheme(QString::fromStdString(arguments.theme))),
                         QString::fromStdString(arguments.render));
    } else if (!arguments.render.empty()) {
        saveImage(window, QString::fromStdString(arguments.render));
    }
    if (!arguments.report.empty()) {
        saveReport(reportOf(page), QString::fromStdString(arguments.report));
    }
    return 0;
}

int showWindows(const ViewerArguments& arguments) {
    QSettings settings(QStringLiteral("PipeScope"), QStringLiteral("viewer"));
    const QString theme = SessionState(&settings).value(kThemeKey).toString();
    if (arguments.theme == "system" && (theme == QLatin1String("light") || theme == QLatin1String("dark"))) {
        applyTheme(parseTheme(theme));
    }
    MainWindow window(&settings);
    window.show();
    if (arguments.files.empty()) {
        window.files().restoreSession();
    }
    QStringList files;
    for (const std::string& file : arguments.files) {
        files << QString::fromStdString(file);
    }
    window.files().open(files);
    if (!arguments.baseline.empty()) {
        window.files().compareWith({QString::fromStdString(arguments.baseline)});
    }
    return QApplication::exec();
}

int report(const Error& error, int code) {
    std::fprintf(stderr, "pipescope-gui: %s\n", error.what());
    return code;
}
}  // namespace

int runViewer(int argc, char** argv) {
    CLI::App app("Shows a trace: the measured timeline above the simulated one.", "pipescope-gui");
    ViewerArguments arguments;
    declare(app, arguments);
    try {
        app.parse(argc, argv);
        check(arguments);
        choosePlatform(headless(arguments));
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
    if (headless(arguments)) {
        qInstallMessageHandler(dropPlatformNoise);
        QHashSeed::setDeterministicGlobalSeed();  // a PDF lists its fonts in hash table order
    }
    QApplication application(argc, argv);
    if (headless(arguments)) {
        QApplication::setStyle(QStringLiteral("Fusion"));  // gives the same picture on every desktop
    }
    QApplication::setApplicationName(QStringLiteral("PipeScope"));
    applyTheme(parseTheme(QString::fromStdString(arguments.theme)));
    try {
        return headless(arguments) ? renderWindow(arguments) : showWindows(arguments);
    } catch (const UsageError& error) {
        return report(error, 2);
    } catch (const Error& error) {
        return report(error, 1);
    }
}
}  // namespace pipescope
