// The viewer's performance targets. redraw: redraws of a timeline with ten million slices while zooming and panning. It
// paints the whole widget with ruler, names, borders and labels, at 1920x1080 and 3840x2160. The main counters are
// p50_ms and p95_ms; a frame is 16 ms. They are wall time, which threads reduce and other programs increase; cpu_p95_ms
// counts all threads. Random durations and kinds are the worst case for drawing runs of one kind.
//
// redraw_page: the same for a whole page on the trace below: the measured timeline above the simulated one, causes of
// bubbles, critical path, marks, a selected task with arrows, memory and overview, at the zooms of redraw, with the
// marked step visible.
//
// redraw_512_lanes: redraw_page on a trace of 512 lanes, all of them on the screen.
//
// opening: a window opens a trace of ten million task rows. The trace is created first (1.1 GB beside the temporary
// files), or only once if PIPESCOPE_LARGE_TRACE names a file for it. first_paint_ms: until the first steps are painted.
// all_tasks_ms: until all tasks are. complete_ms: until memory, comparison and tracks are too. longest_block_ms:
// longest time without response. bytes_per_slice: size of the store. resident_bytes_per_slice: growth of the process
// for the whole window with its tables. These two must stay below 40. listed_bytes_per_slice: the same after the task
// table lists all steps instead of the current one. It has no target: a row takes 4 bytes in the order, and 8 in Qt's
// header.
//
// matching: keyed tasks of the trace's steps with a twin in the simulated step. The label lists the others by reason.
#include "gui/document/step_analysis.h"
#include "gui/style/work_pool.h"
#include "gui/tables/task_table.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_view.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "gui/window/table_docks.h"
#include "profiler/profile/profile_file.h"
#include "simulator/simulation.h"
#include "trace/store/trace_writer.h"

#include <benchmark/benchmark.h>

#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QElapsedTimer>
#include <QImage>
#include <QPainter>
#include <QTemporaryDir>
#include <QThreadPool>
#include <QTimer>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr int kLanes = 64;
constexpr int kSlices = 10'000'000;
constexpr int kManyLanes = 512;
constexpr int kManyLanesSlices = 800'000;

std::shared_ptr<const TimelineStore> randomStore() {
    std::mt19937_64 random(1);
    std::lognormal_distribution<double> duration(8, 1);
    constexpr std::array kKinds{TaskKind::forward, TaskKind::recompute, TaskKind::backward};
    Timeline timeline;
    std::vector<std::int64_t> free(kLanes, 0);
    timeline.slices.reserve(kSlices);
    for (int lane = 0; lane < kLanes; ++lane) {
        timeline.lanes.push_back({"lane " + std::to_string(lane), "cpu"});
    }
    for (int i = 0; i < kSlices; ++i) {
        const int lane = i % kLanes;
        std::int64_t& time = free[static_cast<std::size_t>(lane)];
        const std::int64_t start = time + static_cast<std::int64_t>(random() % 800);
        time = start + static_cast<std::int64_t>(duration(random));
        const TaskKey key{i / 100'000, kKinds[random() % kKinds.size()], lane, i % 32, -1};
        timeline.slices.push_back({key, LaneId{lane}, Nanoseconds{start}, Nanoseconds{time}, 0});
    }
    return std::make_shared<const TimelineStore>(timeline);
}

const std::shared_ptr<const TimelineStore>& sharedStore() {
    static const std::shared_ptr<const TimelineStore> store = randomStore();
    return store;
}

/// Fifteen positions at each of five zooms, like a search for a slow step.
std::vector<TimeWindow> journey(const TimeRange& total) {
    std::vector<TimeWindow> windows;
    for (const double part : {1.0, 0.1, 0.01, 0.001, 0.0001}) {
        for (int i = 0; i < 15; ++i) {
            const double length = part * static_cast<double>(total.length());
            const double start = (static_cast<double>(total.length()) - length) * i / 15;
            windows.push_back({total.start + static_cast<std::int64_t>(start), 0.25, length});
        }
    }
    return windows;
}

double milliseconds(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double quantile(std::vector<double>& sorted, int percent) {
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() * static_cast<std::size_t>(percent) / 100];
}

/// Shows the windows one after the other and paints the widget each time.
void measureRedraws(benchmark::State& state, TimeAxisModel& axis, QWidget& widget,
                    const std::vector<TimeWindow>& windows) {
    QImage image(widget.size(), QImage::Format_RGB32);
    std::vector<double> wall;
    std::vector<double> cpu;
    for (auto _ : state) {
        for (const TimeWindow& window : windows) {
            axis.scrollTo(shifted(window, 1));
            const double wall_start = milliseconds(CLOCK_MONOTONIC);
            const double cpu_start = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
            QPainter painter(&image);
            widget.render(&painter);
            painter.end();
            wall.push_back(milliseconds(CLOCK_MONOTONIC) - wall_start);
            cpu.push_back(milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start);
        }
    }
    state.counters["p50_ms"] = quantile(wall, 50);
    state.counters["p95_ms"] = quantile(wall, 95);
    state.counters["worst_ms"] = wall.back();
    state.counters["cpu_p50_ms"] = quantile(cpu, 50);
    state.counters["cpu_p95_ms"] = quantile(cpu, 95);
}

void redraw(benchmark::State& state) {
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    view.resize(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    view.setStore(sharedStore());
    axis.setTotal(sharedStore()->range());
    view.show();
    QApplication::processEvents();
    measureRedraws(state, axis, view, journey(axis.total()));
    state.counters["slices"] = static_cast<double>(sharedStore()->numSlices());
    state.counters["bytes_per_slice"] =
        static_cast<double>(sharedStore()->sizeBytes()) / static_cast<double>(sharedStore()->numSlices());
}

Profile evenProfile(int layers) {
    Profile profile;
    profile.model = "even";
    profile.samples = {1};
    profile.input_bytes = {4 << 20};
    profile.loss_ns = {250'000};
    for (int layer = 0; layer < layers; ++layer) {
        LayerProfile each;
        each.name = "layer" + std::to_string(layer);
        each.forward_ns = {1e6};
        each.recompute_ns = {1e6};
        each.backward_ns = {2e6};
        each.output_bytes = {4 << 20};
        each.saved_bytes = {24 << 20};
        each.transient_bytes = {0};
        each.flops = {0};
        profile.layers.push_back(std::move(each));
    }
    return profile;
}

/// Writes steps of 32 micro-batches. Each task is some percent off.
void writeLargeTrace(const std::filesystem::path& path, int partitions, int slices) {
    const CheckedProfile profile = evenProfile(partitions);
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(partitions), 1));
    options.chunks = 32;
    options.batch = 32;
    options.hardware.link = {10e9, 50'000};
    const Simulation simulation = simulate(profile, options);
    TraceWriter writer(path, IfExists::replace);
    writer.set_run("model", "\"even\"");
    writer.set_run("configuration", to_json(options));
    writer.set_lanes(simulation.timeline.lanes);
    writer.set_profile(to_json(profile));
    std::mt19937_64 random(1);
    std::int64_t begin = 1'000'000;
    for (int step = 0, tasks = 0; tasks < slices; ++step) {
        std::int64_t end = begin;
        std::vector<std::int64_t> free(simulation.timeline.lanes.size(), begin);
        StepStatistics times;
        times.start = Nanoseconds{begin};
        for (Slice slice : simulation.timeline.slices) {
            const auto duration = static_cast<std::int64_t>(static_cast<double>(slice.duration().count()) *
                                                            (0.97 + static_cast<double>(random() % 91) / 1000));
            std::int64_t start = begin + slice.start.count() + slice.start.count() / 16;
            if (!is_copy(slice.key.kind)) {
                start = std::max(start, free[slice.lane.index()]);
                free[slice.lane.index()] = start + duration;
                times.end = std::max(times.end, Nanoseconds{start + duration});
            }
            slice.key.step = step;
            slice.start = Nanoseconds{start};
            slice.end = Nanoseconds{start + duration};
            end = std::max(end, start + duration);
            writer.add_task(slice, Source::measured);
            ++tasks;
        }
        writer.add_step({step, times.start, times.end, times.start, times.end, 1, step == 0});
        begin = end + 7'000'000;
    }
    writer.close();
}

/// PIPESCOPE_LARGE_SLICES, for another size than 10 million.
int largeSlices() {
    const char* chosen = std::getenv("PIPESCOPE_LARGE_SLICES");
    const int slices = chosen != nullptr ? std::atoi(chosen) : 0;
    return slices > 0 ? slices : kSlices;
}

/// Path of the trace: kept if the environment names it, otherwise temporary.
std::filesystem::path largeTrace() {
    static const QTemporaryDir folder;
    const char* kept = std::getenv("PIPESCOPE_LARGE_TRACE");
    std::filesystem::path path =
        kept != nullptr ? kept : std::filesystem::path(folder.path().toStdString()) / "large.sqlite";
    if (!std::filesystem::exists(path)) {
        writeLargeTrace(path, 8, largeSlices());
    }
    return path;
}

std::filesystem::path manyLanesTrace() {
    static const QTemporaryDir folder;
    std::filesystem::path path = std::filesystem::path(folder.path().toStdString()) / "lanes.sqlite";
    if (!std::filesystem::exists(path)) {
        writeLargeTrace(path, kManyLanes, kManyLanesSlices);
    }
    return path;
}

double residentBytes() {
    std::ifstream file("/proc/self/statm");
    double total = 0;
    double resident = 0;
    file >> total >> resident;
    return resident * 4096;
}

/// Waits until the workers that fill tables and pictures have finished.
void settle() {
    do {
        workPool().waitForDone();
        QApplication::processEvents();
    } while (workPool().activeThreadCount() > 0);
    QElapsedTimer rest;  // statistics are computed once the view has come to rest
    for (rest.start(); rest.elapsed() < 1000;) {
        QApplication::processEvents(QEventLoop::AllEvents, 20);
        workPool().waitForDone();
    }
}

void opening(benchmark::State& state) {
    const QString path = QString::fromStdString(largeTrace().string());
    for (auto _ : state) {
        MainWindow window(nullptr);
        window.resize(1920, 1080);
        window.show();
        QApplication::processEvents();
        const double before = residentBytes();
        QElapsedTimer clock;
        double first = 0;
        double tasks = 0;
        bool done = false;
        double longest = 0;
        double last = 0;
        const auto now = [&] { return static_cast<double>(clock.nsecsElapsed()) / 1e6; };
        QTimer ticks;
        ticks.setTimerType(Qt::PreciseTimer);
        QObject::connect(&ticks, &QTimer::timeout, [&] {
            longest = std::max(longest, now() - last);
            last = now();
        });
        QObject::connect(&window.files(), &FileTabs::pageChanged, [&] {
            if (window.files().document() == nullptr || !window.files().document()->measured) {
                return;
            }
            window.repaint();  // measures what is on screen, not what is in memory
            first = first == 0 ? now() : first;
            tasks = tasks == 0 && window.files().document()->loaded == 1 ? now() : tasks;
        });
        QObject::connect(&window.files(), &FileTabs::loaded, [&] {
            longest = std::max(longest, now() - last);
            done = true;
        });
        clock.start();
        const double cpu = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
        window.files().open(path);
        ticks.start(2);
        while (!done) {
            QApplication::processEvents(QEventLoop::WaitForMoreEvents);
        }
        const auto slices = static_cast<double>(window.files().document()->measured->numSlices());
        state.counters["first_paint_ms"] = first;
        state.counters["all_tasks_ms"] = tasks;
        state.counters["complete_ms"] = now();
        state.counters["cpu_ms"] = milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        state.counters["longest_block_ms"] = longest;
        settle();
        state.counters["bytes_per_slice"] =
            static_cast<double>(window.files().document()->measured->sizeBytes()) / slices;
        state.counters["resident_bytes_per_slice"] = (residentBytes() - before) / slices;
        QObject::connect(&window.tables().tasks(), &TaskTable::listed, [&] { done = true; });
        window.findChild<QDockWidget*>(QStringLiteral("tasks"))->raise();
        done = false;
        window.tables().tasks().steps().setCurrentIndex(0);
        while (!done) {
            QApplication::processEvents(QEventLoop::WaitForMoreEvents);
        }
        settle();
        state.counters["listed_bytes_per_slice"] = (residentBytes() - before) / slices;
        state.counters["slices"] = slices;
    }
}

/// A window that has loaded the whole trace.
void openTrace(MainWindow& window, const std::filesystem::path& path) {
    bool done = false;
    QObject::connect(&window.files(), &FileTabs::loaded, [&] { done = true; });
    window.show();
    window.files().open(QString::fromStdString(path.string()));
    while (!done) {
        QApplication::processEvents(QEventLoop::WaitForMoreEvents);
    }
    settle();
    QObject::disconnect(&window.files(), &FileTabs::loaded, nullptr, nullptr);
}

void redrawPageOf(benchmark::State& state, const std::filesystem::path& path) {
    MainWindow window(nullptr);
    openTrace(window, path);
    DocumentPage& page = *window.page();
    TimeAxisModel& axis = page.axis();
    const TimelineStore& measured = *page.document()->measured;
    const std::optional<SliceRef> task = measured.find({page.model().step(), TaskKind::backward, 4, 16, -1});
    if (!task) {
        state.SkipWithError("the trace has no backward of micro-batch 16 on partition 4");
        return;
    }
    page.model().select(Source::measured, task);
    MarkChoice choice;
    choice.criticalPath = true;
    page.model().setChoice(choice);
    const TimeRange step = measured.step(page.model().step())->range();
    axis.setMarks({{step.start, QString()}, {step.start + step.length() / 2, QString()}});
    for (QDockWidget* dock : window.findChildren<QDockWidget*>()) {
        dock->hide();  // leaves the whole window to the page
    }
    window.resize(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    QApplication::processEvents();
    if (page.width() < static_cast<int>(state.range(0)) - 20) {
        state.SkipWithError("the page does not fill the window");
        return;
    }
    std::vector<TimeWindow> windows;
    for (const double part : {1.0, 0.1, 0.01, 0.001, 0.0001}) {
        for (int i = 0; i < 15; ++i) {
            const double length = part * static_cast<double>(axis.total().length());
            const double before = length * (i + 1) / 17;
            windows.push_back({step.start + step.length() / 2 - static_cast<std::int64_t>(before), 0.25, length});
        }
    }
    measureRedraws(state, axis, page, windows);
    state.counters["slices"] = static_cast<double>(measured.numSlices());
    state.counters["page_width"] = page.width();
    state.counters["page_height"] = page.height();
    state.counters["marked_tasks"] = static_cast<double>(page.model().analysis()->matching().pairs.size());
}

void redrawPage(benchmark::State& state) {
    redrawPageOf(state, largeTrace());
}

void redrawManyLanes(benchmark::State& state) {
    redrawPageOf(state, manyLanesTrace());
}

void matching(benchmark::State& state) {
    MainWindow window(nullptr);
    openTrace(window, largeTrace());
    const std::shared_ptr<const TraceDocument> document = window.page()->document();
    if (!document->simulated || !window.page()->model().analysis() ||
        window.page()->model().analysis()->matching().pairs.empty()) {
        state.SkipWithError("the trace has no simulated side, so nothing is matched");
        return;
    }
    std::int64_t without = 0;
    std::string reasons;
    for (auto _ : state) {
        without = 0;
        reasons.clear();
        for (const UnmatchedTasks& each : unmatchedTasks(*document)) {
            without += static_cast<std::int64_t>(each.count);
            reasons += (reasons.empty() ? "" : "; ") + std::to_string(each.count) + ": " + each.reason.toStdString();
        }
    }
    const auto tasks = static_cast<double>(document->measured->numSlices());
    state.counters["tasks"] = tasks;
    state.counters["without_twin"] = static_cast<double>(without);
    state.counters["matched_percent"] = 100 * (1 - static_cast<double>(without) / tasks);
    state.SetLabel(reasons.empty() ? "none is without a twin" : reasons);
}
// Runs first, or memory left by the other benchmark would count as its own.
BENCHMARK(opening)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(matching)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(redrawPage)
    ->Name("redraw_page")
    ->Args({1920, 1080})
    ->Args({3840, 2160})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(redrawManyLanes)
    ->Name("redraw_512_lanes")
    ->Args({1920, 1080})
    ->Args({3840, 2160})
    ->Iterations(3)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(redraw)->Args({1920, 1080})->Args({3840, 2160})->Iterations(3)->Unit(benchmark::kMillisecond);
}  // namespace
}  // namespace pipescope
