#pragma once

#include "analysis/run_verdict.h"
#include "gui/document/step_analysis.h"
#include "gui/document/trace_document.h"
#include "gui/style/theme.h"
#include "gui/timeline/time_axis_model.h"
#include "simulator/plan/advice.h"

#include <QByteArray>
#include <QString>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// Content of a timeline page: the visible part of a tab. Times are ns of the recording. A value: pages can be built in
/// any thread.
struct PageScene {
    std::shared_ptr<const TraceDocument> document;      ///< never null
    std::shared_ptr<const StepAnalysis> analysis = {};  ///< of `step`; null: no bubbles, lateness or critical path
    std::int32_t step = 0;                              ///< the measured step that is compared
    MarkChoice choice;
    TimeRange range;                  ///< the visible part of the time axis; not empty
    std::int64_t origin = 0;          ///< time zero of the ruler
    std::int64_t simulatedShift = 0;  ///< added to simulated times
    /// A timeline's header line.
    struct Header {
        QString title;
        QString facts;  ///< without those of the critical path, which the page adds while it shows the path
    };
    Header measured;
    Header simulated;
    bool memory = false;         ///< memory curves are on screen
    bool memoryStacked = false;  ///< measured bytes are stacked by category
    std::optional<TaskSelection> selection;
    std::vector<TimeMark> marks = {};           ///< those with a length are notes, which the page shows
    std::vector<VerdictPart> answer = {};       ///< why the run idles and what would help; may be empty
    QString noteTrouble = {};                   ///< why the notes beside the trace are not among them; may be empty
    std::shared_ptr<const Advice> advice = {};  ///< single changes of the pipeline, which become a table; may be null
    /// The page also holds the other measured steps, as far as kMostStepBytes and kMostPageBytes allow.
    bool allSteps = false;
    Theme theme = Theme::system;
};

/// The most tasks of a page. A browser draws more of them too slowly.
inline constexpr std::size_t kMostPageTasks = 300'000;
/// The most samples of one memory curve. A longer one is thinned and has no composition over time, which the page says.
inline constexpr int kMostPageSamples = 20'000;

/// The most ranges of threads on a page, which keeps it below 2 MB. The longest are taken; the page says how many are
/// not.
inline constexpr std::size_t kMostPageRanges = 50'000;
/// Likewise on a page with tasks, and of kernels.
inline constexpr std::size_t kMostPageRangesBesideTasks = 20'000;
inline constexpr std::size_t kMostPageKernels = 15'000;

/// The most bytes of all other steps on a page. Slow steps come first, then steps from all parts of the run. Kernels of
/// these steps have a quarter.
inline constexpr std::size_t kMostStepBytes = 1'200'000;
/// Other steps are added up to this many bytes of data, so that the page with its script stays below 2 MB.
inline constexpr std::size_t kMostPageBytes = 1'800'000;

/// The content of a page as JSON, in ASCII. It holds every task that overlaps the range, and the twins of those, so
/// that differences are complete, the tasks that each one of the step waits for, and the memory's composition. Times
/// are relative to the origin. No character in it ends a <script>. It also holds the kernels, threads, streams and
/// counters, the longest of them, and tables about the run. Throws Error if there is neither, or if more than
/// kMostPageTasks tasks overlap the range.
QByteArray timelinePageData(const PageScene& scene);
/// One interactive HTML page that needs no other file and no network. Equal scenes give equal bytes. Throws like
/// timelinePageData().
QByteArray timelinePageHtml(const PageScene& scene);

/// True if the name ends in .html.
bool isPageName(const QString& path);
/// Throws UsageError unless the name ends in .html.
void requirePageName(const QString& path);
/// Writes beside the target and renames. Throws UsageError for a name that does not end in .html, and Error like
/// timelinePageHtml() or if the file cannot be written.
void saveTimelinePage(const PageScene& scene, const QString& path);
}  // namespace pipescope
