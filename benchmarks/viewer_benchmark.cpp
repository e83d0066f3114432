// The viewer's promises. redraw: redraws of a timeline of ten million slices while zooming and panning: the whole
// widget with ruler, names, borders and labels, at 1920x1080 and 3840x2160. The counters p50_ms and p95_ms are what the
// reader looks for; 16 ms is a frame. They are wall time, which threads shorten and other programs lengthen; cpu_p95_ms
// counts all threads. Durations and kinds are random, which is the worst case for drawing runs of one kind.
//
// opening: a window opens a trace of ten million task rows (made first, 1.1 GB beside the temporary files; once, if
// PIPESCOPE_LARGE_TRACE names a file to keep it in). first_paint_ms: until the first steps are painted; all_tasks_ms:
// until all tasks are; complete_ms: with memory, comparison and tracks; longest_block_ms: the longest the window did
// not answer meanwhile. bytes_per_slice: what the store holds; resident_bytes_per_slice: what the process grew by, for
// the whole window, once its tables are filled too.
#include "balance/profile_file.h"
#include "gui/style/work_pool.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_view.h"
#include "gui/window/main_window.h"
#include "simulator/simulation.h"
#include "trace/trace_writer.h"

#include <benchmark/benchmark.h>

#include <QApplication>
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
#include <vector>

namespace pipescope {
namespace {
constexpr int kLanes = 64;
constexpr int kSlices = 10'000'000;

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

/// Fifteen places at each of five zooms, as someone looking for a slow step would pass through.
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

void redraw(benchmark::State& state) {
    TimeAxisModel axis;
    TimelineView view(Source::measured, axis);
    view.resize(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    view.setStore(sharedStore());
    axis.setTotal(sharedStore()->range());
    view.show();
    QApplication::processEvents();
    const std::vector<TimeWindow> windows = journey(axis.total());
    QImage image(view.size(), QImage::Format_RGB32);
    std::vector<double> wall;
    std::vector<double> cpu;
    for (auto _ : state) {
        for (const TimeWindow& window : windows) {
            axis.scrollTo(shifted(window, 1));
            const double wall_start = milliseconds(CLOCK_MONOTONIC);
            const double cpu_start = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
            QPainter painter(&image);
            view.render(&painter);
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

/// Steps of 8 partitions and 32 micro-batches, each task some percent off.
void writeLargeTrace(const std::filesystem::path& path) {
    const Profile profile = evenProfile(8);
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(8, 1));
    options.chunks = 32;
    options.batch = 32;
    options.link = {10e9, 50'000};
    const Simulation simulation = simulate(profile, options);
    TraceWriter writer(path, IfExists::replace);
    writer.set_run("model", "\"even\"");
    writer.set_run("configuration", to_json(options));
    writer.set_lanes(simulation.timeline.lanes);
    writer.set_profile(to_json(profile));
    std::mt19937_64 random(1);
    std::int64_t begin = 1'000'000;
    for (int step = 0, tasks = 0; tasks < kSlices; ++step) {
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

/// Where the trace is: kept if the environment says where, else of this process.
std::filesystem::path largeTrace() {
    static const QTemporaryDir folder;
    const char* kept = std::getenv("PIPESCOPE_LARGE_TRACE");
    std::filesystem::path path =
        kept != nullptr ? kept : std::filesystem::path(folder.path().toStdString()) / "large.sqlite";
    if (!std::filesystem::exists(path)) {
        writeLargeTrace(path);
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

/// Until the workers that fill tables and pictures have done so.
void settle() {
    do {
        workPool().waitForDone();
        QApplication::processEvents();
    } while (workPool().activeThreadCount() > 0);
    QElapsedTimer rest;  // statistics wait until the view has come to rest
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
        QObject::connect(&window, &MainWindow::pageChanged, [&] {
            if (window.document() == nullptr || !window.document()->measured) {
                return;
            }
            window.repaint();  // what the user sees counts, not what is in memory
            first = first == 0 ? now() : first;
            tasks = tasks == 0 && window.document()->loaded == 1 ? now() : tasks;
        });
        QObject::connect(&window, &MainWindow::loaded, [&] { done = true; });
        clock.start();
        const double cpu = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
        window.open(path);
        ticks.start(2);
        while (!done) {
            QApplication::processEvents(QEventLoop::WaitForMoreEvents);
        }
        const auto slices = static_cast<double>(window.document()->measured->numSlices());
        state.counters["first_paint_ms"] = first;
        state.counters["all_tasks_ms"] = tasks;
        state.counters["complete_ms"] = now();
        state.counters["cpu_ms"] = milliseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        state.counters["longest_block_ms"] = longest;
        settle();
        state.counters["bytes_per_slice"] = static_cast<double>(window.document()->measured->sizeBytes()) / slices;
        state.counters["resident_bytes_per_slice"] = (residentBytes() - before) / slices;
        state.counters["slices"] = slices;
    }
}
// First: what the other benchmark leaves in memory would count as its own.
BENCHMARK(opening)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(redraw)->Args({1920, 1080})->Args({3840, 2160})->Iterations(3)->Unit(benchmark::kMillisecond);
}  // namespace
}  // namespace pipescope
