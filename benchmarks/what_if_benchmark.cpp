// Time from a slider's move to the new simulated timeline on screen: simulation, memory tracks, timeline store, panel,
// analysis beside the measured timeline, and painting, at n partitions, m micro-batches and 200 layers, in wall time.
// Sliders: 0 bandwidth, 1 partitions (with new cuts), 2 micro-batches, 3 memory limit. The main counters are p50_ms and
// p95_ms; a frame is 16 ms.
#include "gui/document/document_builder.h"
#include "gui/document/trace_document.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "gui/window/scenario_docks.h"
#include "gui/window/scenario_tools.h"

#include <benchmark/benchmark.h>

#include <QApplication>
#include <QSlider>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

namespace pipescope {
namespace {
constexpr int kLayers = 200;

Profile randomProfile() {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> around(0.5, 1.5);
    Profile profile;
    profile.model = "benchmark";
    profile.samples = {1};
    profile.input_bytes = {1e6};
    profile.loss_ns = {1e5};
    for (int l = 0; l < kLayers; ++l) {
        LayerProfile layer;
        layer.name = "layer" + std::to_string(l);
        layer.forward_ns = {around(random) * 1e5};
        layer.backward_ns = {layer.forward_ns[0] * 2};
        layer.output_bytes = {1e6};
        layer.saved_bytes = {4e6};
        layer.transient_bytes = {1e6};
        layer.parameter_bytes = layer.gradient_bytes = 1'000'000;
        profile.layers.push_back(layer);
    }
    return profile;
}

std::shared_ptr<const TraceDocument> documentOf(int n, int m) {
    TraceDocument document;
    document.path = QStringLiteral("benchmark.json");
    document.run.profile = randomProfile();
    Scenario scenario = defaultScenario(*document.run.profile);
    scenario.options.hardware.devices.clear();
    scenario.options.chunks = scenario.options.batch = m;
    scenario.options.hardware.link = {16e9, 5'000};
    scenario.options.hardware.memory_limit = Bytes{1} << 30;
    scenario = withLanes(*document.run.profile, scenario, n, 1);
    return withScenario(document, simulateScenario(*document.run.profile, scenario));
}

/// The same with a measured half: the simulated step as if it had run. Its analysis follows each move as well.
std::shared_ptr<const TraceDocument> measuredDocumentOf(int n, int m) {
    auto document = std::make_shared<TraceDocument>(*documentOf(n, m));
    Timeline timeline = timelineOf(*document->simulated);
    timeline.source = Source::measured;
    document->measured = std::make_shared<const TimelineStore>(timeline);
    return document;
}

double milliseconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(now).count();
}

enum Moved : int { kBandwidth, kPartitions, kMicroBatches, kMemoryLimit };
QSlider& sliderOf(const WhatIfPanel& panel, std::int64_t moved) {
    switch (moved) {
        case kPartitions: return panel.partitions().slider();
        case kMicroBatches: return panel.microBatches().slider();
        case kMemoryLimit: return panel.memoryLimit().slider();
        default: return panel.bandwidth().slider();
    }
}

void move_slider(benchmark::State& state) {
    MainWindow window(nullptr);
    window.resize(1920, 1080);
    window.show();
    window.files().setDocument(measuredDocumentOf(static_cast<int>(state.range(0)), static_cast<int>(state.range(1))));
    ScenarioTools& tools = *window.scenarios().tools();
    tools.model().setPatience(std::chrono::hours(1));  // everything runs in this thread, to be measured
    QApplication::processEvents();
    QSlider& slider = sliderOf(tools.panel(), state.range(2));
    const int first = slider.value();
    std::vector<double> times;
    int direction = 1;
    for (auto _ : state) {
        // Partitions and micro-batches stay within one of the requested value, to keep the problem size.
        const bool counts = state.range(2) == kPartitions || state.range(2) == kMicroBatches;
        const int next = slider.value() + direction;
        if (next > slider.maximum() || next <= slider.minimum() || (counts && std::abs(next - first) > 1)) {
            direction = -direction;
        }
        const TimelineStore* before = window.page()->views().view(Source::simulated).store();
        const double start = milliseconds();
        slider.setValue(slider.value() + direction);
        QApplication::processEvents();  // paints the changes, as on screen
        times.push_back(milliseconds() - start);
        if (window.page()->views().view(Source::simulated).store() == before) {
            state.SkipWithError("the timeline did not follow");
        }
    }
    std::sort(times.begin(), times.end());
    state.counters["p50_ms"] = times[times.size() / 2];
    state.counters["p95_ms"] = times[times.size() * 95 / 100];
    state.counters["worst_ms"] = times.back();
}
BENCHMARK(move_slider)
    ->ArgNames({"n", "m", "slider"})
    ->Args({8, 32, kBandwidth})
    ->Args({8, 32, kPartitions})
    ->Args({8, 32, kMicroBatches})
    ->Args({8, 32, kMemoryLimit})
    ->Args({4, 16, kBandwidth})
    ->Args({16, 64, kBandwidth})
    ->Iterations(200)
    ->Unit(benchmark::kMillisecond);

void simulate_scenario(benchmark::State& state) {
    const auto document = documentOf(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
    const Scenario scenario = *recordedScenario(*document);
    for (auto _ : state) {
        benchmark::DoNotOptimize(simulateScenario(*document->run.profile, scenario).timeline.get());
    }
}
BENCHMARK(simulate_scenario)->Args({8, 32})->Unit(benchmark::kMillisecond);
}  // namespace
}  // namespace pipescope
