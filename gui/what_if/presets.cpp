#include "gui/what_if/presets.h"

#include "gui/style/number_format.h"
#include "schedule/schedules.h"

#include <algorithm>

namespace pipescope {
namespace {
Preset linkPreset(const QString& name, double bytesPerSecond, double latencyNs) {
    return {translated("Links"), name, [bytesPerSecond, latencyNs](const Profile&, const Scenario& present) {
                Scenario changed = present;
                Link& link = changed.options.hardware.link;
                link.bytes_per_second = bytesPerSecond;
                link.latency_ns = latencyNs;
                link.times.clear();
                return changed;
            }};
}

Preset checkpointPreset(const QString& name, Checkpoint mode) {
    return {translated("Checkpointing"), name, [mode](const Profile&, const Scenario& present) {
                Scenario changed = present;
                changed.options.checkpoint = mode;
                return changed;
            }};
}

Preset schedulePreset(const Schedule& schedule, const QString& name) {
    return {translated("Schedule"), name, [schedule](const Profile& profile, const Scenario& present) {
                return withSchedule(profile, present, schedule);
            }};
}

/// Keeps either the micro-batch size or the number of samples.
Preset microBatchPreset(const QString& name, double factor, bool batchToo) {
    return {translated("Micro-batches"), name, [factor, batchToo](const Profile&, const Scenario& present) {
                Scenario changed = present;
                const auto scaled = [factor](std::int64_t value) {
                    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(value) * factor));
                };
                changed.options.chunks = scaled(present.options.chunks);
                if (batchToo) {
                    changed.options.batch = scaled(present.options.batch);
                }
                return changed;
            }};
}

Preset speedPreset(const QString& name, bool first) {
    return {translated("Lanes"), name, [first](const Profile&, const Scenario& present) {
                Scenario changed = present;
                std::vector<double>& speeds = changed.options.hardware.speeds;
                speeds.resize(static_cast<std::size_t>(lanesOf(present)), 1.0);
                (first ? speeds.front() : speeds.back()) *= 0.5;
                return changed;
            }};
}

Preset lanesPreset(const QString& name, double factor) {
    return {translated("Lanes"), name, [factor](const Profile& profile, const Scenario& present) {
                const int lanes = static_cast<int>(lanesOf(present) * factor);
                return withLanes(profile, present, lanes, partitionsPerLane(present));
            }};
}
}  // namespace

const std::vector<Preset>& presets() {
    static const std::vector<Preset> all{
        checkpointPreset(translated("No checkpointing"), Checkpoint::never),
        checkpointPreset(translated("Every micro-batch checkpointed"), Checkpoint::always),
        microBatchPreset(translated("Twice the micro-batches, half as large"), 2, false),
        microBatchPreset(translated("Half the micro-batches, twice as large"), 0.5, false),
        microBatchPreset(translated("Twice the batch, twice the micro-batches"), 2, true),
        schedulePreset(Schedule::one_f_one_b, translated("1F1B")),
        schedulePreset(Schedule::interleaved_1f1b, translated("Interleaved, two partitions per lane")),
        linkPreset(translated("Free copies"), 0, 0),
        linkPreset(translated("NVLink 4: 360 GB/s, 8 µs"), 360e9, 8e3),
        linkPreset(translated("PCIe 4.0 ×16: 24 GB/s, 10 µs"), 24e9, 10e3),
        linkPreset(translated("PCIe 3.0 ×16: 12 GB/s, 10 µs"), 12e9, 10e3),
        linkPreset(translated("Ethernet 100 Gb/s: 10 GB/s, 30 µs"), 10e9, 30e3),
        linkPreset(translated("Ethernet 10 Gb/s: 1 GB/s, 50 µs"), 1e9, 50e3),
        lanesPreset(translated("Twice the lanes"), 2),
        lanesPreset(translated("Half the lanes"), 0.5),
        speedPreset(translated("First lane at half speed"), true),
        speedPreset(translated("Last lane at half speed"), false),
    };
    return all;
}
}  // namespace pipescope
