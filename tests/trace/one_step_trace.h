#pragma once

#include "device_sample.h"
#include "schedule/schedules.h"
#include "trace/store/trace_writer.h"

#include <filesystem>
#include <limits>

namespace pipescope {
/// A GPipe step with m = 3, n = 2, tasks in sequence, at times that a double in us cannot represent.
inline Timeline sample_timeline(Source source) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 3});
    Timeline timeline{source, {{"lane 0", "cpu"}, {"lane \"1\"", "cuda:0"}}, {}};
    Nanoseconds now{9'007'199'254'740'993};  // 2^53 + 1
    for (const Task& task : graph.tasks()) {
        timeline.slices.push_back({task.key, task.lane, now, now + Nanoseconds{1003}, is_copy(task.key.kind) ? 64 : 0});
        now += Nanoseconds{1007};
    }
    return timeline;
}

inline void write_sample_trace(const std::filesystem::path& path) {
    TraceWriter writer(path, IfExists::refuse);
    writer.set_run("model", R"("mlp, \"deep\"")");
    writer.set_run("configuration", R"({"balance": [1, 1],  "chunks": 3})");
    writer.set_profile(R"({"format": "pipescope.profile", "version": 1})");
    writer.set_start(1'700'000'000'123'456'789);
    writer.add_timeline(sample_timeline(Source::measured));
    writer.add_timeline(sample_timeline(Source::simulated));
    constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
    writer.add_step({0, Nanoseconds{10}, Nanoseconds{90}, Nanoseconds{5}, Nanoseconds{120}, kNotANumber, true});
    writer.add_step({1, Nanoseconds{210}, Nanoseconds{290}, Nanoseconds{205}, Nanoseconds{320}, 0.1, false, 16});
    MemorySample sample{LaneId{1}, Nanoseconds{50}, 1000, 2000, 4096, 77};
    sample.composition[MemoryCategory::saved] = 400;
    sample.composition[MemoryCategory::transient] = 0;
    writer.add_memory({LaneId{0}, Nanoseconds{40}, 10, 20, 0, -1});
    writer.add_memory(sample);
    writer.add_drop({"nvtx", (7 << 24) | 9, 500, 2, 1, 3});
    writer.add_clock({1'700'000'000'000'000'000, 2, 3, 4});
    writer.add_overhead({"drain thread", "cpu_ns", 42});
    writer.add_diagnostic({"warning", "cupti", "off: no \"driver\""});
    writer.add_process(std::int64_t{7} << 24, 7, "trainer");
    writer.add_thread_name(std::int64_t{7} << 24 | 9, "main");
    NvtxRecord domain;
    domain.event_type = 75;
    domain.domain_id = 2;
    domain.text = "user";
    writer.add_range(domain);
    NvtxRecord range;
    range.domain_id = 2;
    range.global_tid = std::int64_t{7} << 24 | 9;
    for (const auto& [start, end, text] : {std::tuple{100, 200, "outer"}, {110, 150, "inner"}, {150, 190, "inner"}}) {
        range.start = start;
        range.end = end;
        range.text = text;
        writer.add_range(range);
    }
    range.start = 205;
    range.end.reset();
    range.text = "never ended";
    writer.add_range(range);
    add_device_sample(writer);
    writer.close();
}
}  // namespace pipescope
