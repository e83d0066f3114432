// Redraws of a timeline of ten million slices while zooming and panning: the whole widget with ruler, names, borders
// and labels, at 1920x1080 and 3840x2160. The counters p50_ms and p95_ms are what the reader looks for; 16 ms is a
// frame. They are wall time, which threads shorten and other programs lengthen; cpu_p95_ms counts all threads.
// Durations and kinds are random, which is the worst case for drawing runs of one kind.
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_view.h"

#include <benchmark/benchmark.h>

#include <QApplication>
#include <QImage>
#include <QPainter>

#include <algorithm>
#include <ctime>
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
BENCHMARK(redraw)->Args({1920, 1080})->Args({3840, 2160})->Iterations(3)->Unit(benchmark::kMillisecond);
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QApplication application(argc, argv);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
