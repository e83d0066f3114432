#include "tests/analysis/sample_run.h"

#include "analysis/stored_simulation.h"
#include "profiler/profile/profile_file.h"
#include "schedule/placement.h"
#include "trace/store/trace_writer.h"

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::int64_t kPause = 7'000'000;  // between steps, as a training loop has

/// 0.97 to 1.06 by a fixed rule: the same on every machine.
double wobble(std::uint64_t number) {
    const std::uint64_t mixed = (number * 6364136223846793005ULL + 1442695040888963407ULL) >> 33;
    return 0.97 + static_cast<double>(mixed % 91) / 1000.0;
}
}  // namespace

Profile sampleProfile(const SampleRun& run) {
    Profile profile;
    profile.model = "sample";
    profile.samples = {1};
    const auto cost = static_cast<double>(run.forward_ns);
    for (int layer = 0; layer < run.partitions; ++layer) {
        LayerProfile each;
        each.name = "layer" + std::to_string(layer);
        each.parameter_bytes = 64 << 20;
        each.gradient_bytes = 64 << 20;
        each.forward_ns = {cost};
        each.recompute_ns = {cost};
        each.backward_ns = {2 * cost};
        each.forward_cv = each.backward_cv = run.cv;
        each.output_bytes = {4 << 20};
        each.saved_bytes = {24 << 20};
        each.transient_bytes = {6 << 20};
        each.flops = {0};
        profile.layers.push_back(std::move(each));
    }
    profile.input_bytes = {4 << 20};
    profile.loss_ns = {cost / 4};
    return profile;
}

PipelineOptions sampleOptions(const SampleRun& run) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(run.partitions), 1));
    options.chunks = run.chunks;
    options.batch = run.chunks;
    if (run.lanes > 0) {
        options.schedule = Schedule::Name::interleaved_1f1b;
        options.placement =
            placement_in_turn(static_cast<std::size_t>(run.partitions), static_cast<std::size_t>(run.lanes));
    }
    options.hardware.link = {10e9, 50'000};
    options.hardware.memory_limit = Bytes{1} << 30;
    return options;
}

Timeline sampleTimeline(const SampleRun& run) {
    const Simulation simulation = simulate(sampleProfile(run), sampleOptions(run));
    Timeline measured{Source::measured, simulation.timeline.lanes, {}};
    std::int64_t begin = 1'000'000;
    for (int step = 0; step < run.steps; ++step) {
        // Durations are stretched where they stand; a late start keeps neighbours from overlapping.
        std::int64_t end = 0;
        std::vector<std::int64_t> free(measured.lanes.size(), begin);
        for (Slice slice : simulation.timeline.slices) {
            const double stretch = wobble(pack(slice.key) + static_cast<std::uint64_t>(step) * 7919);
            const auto duration = static_cast<std::int64_t>(static_cast<double>(slice.duration().count()) * stretch);
            std::int64_t start = begin + static_cast<std::int64_t>(static_cast<double>(slice.start.count()) * 1.06);
            if (!is_copy(slice.key.kind)) {
                start = std::max(start, free[slice.lane.index()]);
                free[slice.lane.index()] = start + duration;
            }
            slice.key.step = step;
            slice.start = Nanoseconds{start};
            slice.end = Nanoseconds{start + duration};
            end = std::max(end, start + duration);
            measured.slices.push_back(slice);
        }
        begin = end + kPause;
    }
    sort_slices(measured);
    return measured;
}

void writeSampleTrace(const std::filesystem::path& path, const SampleRun& run, std::int64_t dropped) {
    const Timeline measured = sampleTimeline(run);
    const Simulation simulation = simulate(sampleProfile(run), sampleOptions(run));
    TraceWriter writer(path, IfExists::replace);
    writer.set_run("model", "\"sample\"");
    writer.set_run("configuration", to_json(sampleOptions(run)));
    writer.set_lanes(measured.lanes);
    if (run.profile) {
        writer.set_profile(to_json(sampleProfile(run)));
    }
    writer.add_timeline(measured);
    for (int step = 0; step < run.steps; ++step) {
        const StepStatistics statistics = step_statistics(measured, step);
        writer.add_step({step, statistics.start, statistics.end, statistics.start - Nanoseconds{1000},
                         statistics.end + Nanoseconds{500'000}, 1.0 / (step + 1), step == 0});
        for (MemorySample sample : simulation.memory) {
            sample.time = statistics.start + sample.time * 103 / 100;
            sample.allocated += sample.allocated / 40;
            sample.peak += sample.peak / 40;
            if (run.memory) {
                writer.add_memory(sample);
            }
        }
    }
    if (dropped > 0) {
        writer.add_drop({"nvtx", 1, static_cast<std::int64_t>(measured.slices.size()), dropped, 0, 0});
    }
    writer.close();
}

void writeSimulatedTrace(const std::filesystem::path& path, const SampleRun& run) {
    const CheckedProfile profile = sampleProfile(run);
    write_simulation(path, profile, simulate(profile, sampleOptions(run)));
}
}  // namespace pipescope
