#include "gui/document/scenario_messages.h"

#include "gui/style/number_format.h"
#include "gui/style/text.h"
#include "schedule/schedules.h"

#include <algorithm>

namespace pipescope {
namespace {
QString samples(std::int64_t count) {
    return formatCount(count, translated("sample"), translated("samples"));
}

QString overTheLimit(const Simulation& simulation) {
    const std::vector<Bytes> limits = memory_limits_of(simulation.options, static_cast<int>(simulation.lanes.size()));
    QStringList lanes;
    Bytes most = 0;
    Bytes limit = 0;  // of the lane with the highest peak
    for (std::size_t lane = 0; lane < limits.size(); ++lane) {
        const Bytes peak = simulation.lanes[lane].peak_bytes;
        if (peak > limits[lane]) {
            lanes << QString::number(lane);
            limit = peak > most ? limits[lane] : limit;
            most = std::max(most, peak);
        }
    }
    return translated(
               "Does not fit: up to %1 on one lane, above the limit of %2 (lanes %3). Use more partitions, more "
               "micro-batches or checkpointing, or raise the limit.")
        .arg(formatBytes(most), formatBytes(limit), lanes.join(QStringLiteral(", ")));
}

QString extrapolated(const Profile& profile, const PipelineOptions& options, std::int64_t microBatches) {
    const std::int64_t size = (replica_batch(options) + microBatches - 1) / microBatches;
    return translated(
               "Micro-batches of %1 are outside the sizes profiled (%2 to %3): their costs are extrapolated. Profile "
               "that size to be sure.")
        .arg(samples(size))
        .arg(profile.samples.front())
        .arg(profile.samples.back());
}
/// Reason why copies take no time although the link has a bandwidth or a latency; empty if some copies do.
QString linkWithoutEffect(const Simulation& simulation) {
    const PipelineOptions& options = simulation.options;
    if (options.link.bytes_per_second <= 0 && options.link.latency_ns <= 0) {
        return {};  // no link was configured
    }
    const std::vector<SimulatedPartition>& partitions = simulation.partitions;
    for (std::size_t j = 1; j < partitions.size(); ++j) {
        if (partitions[j].device != partitions[j - 1].device) {
            return {};
        }
    }
    if (simulation.lanes.size() < 2) {
        return translated("Link bandwidth and latency have no effect: one lane copies nothing. Use more lanes.");
    }
    return translated(
               "Link bandwidth and latency have no effect: all lanes are on the device %1, where copies cost nothing. "
               "Name a device for each lane, or clear Devices, to see them.")
        .arg(QString::fromStdString(partitions.front().device));
}
}  // namespace

std::vector<ScenarioMessage> scenarioMessages(const Profile& profile, const Simulation& simulation) {
    using Kind = ScenarioMessage::Kind;
    const PipelineOptions& options = simulation.options;
    std::vector<ScenarioMessage> messages;
    if (!simulation.feasible) {
        messages.push_back({Kind::warning, overTheLimit(simulation)});
    }
    if (options.chunks > simulation.micro_batches) {
        messages.push_back(
            {Kind::note,
             translated("%1 micro-batches of %2 are not possible: %3 of one sample each run. Use a larger batch.")
                 .arg(options.chunks)
                 .arg(samples(replica_batch(options)))
                 .arg(simulation.micro_batches)});
    } else if (replica_batch(options) % simulation.micro_batches != 0) {
        messages.push_back(
            {Kind::note, translated("%1 samples do not divide by %2: micro-batches differ by one sample.")
                             .arg(replica_batch(options))
                             .arg(simulation.micro_batches)});
    }
    if (const QString why = linkWithoutEffect(simulation); !why.isEmpty()) {
        messages.push_back({Kind::note, why});
    }
    if (simulation.extrapolated) {
        messages.push_back({Kind::note, extrapolated(profile, options, simulation.micro_batches)});
    }
    if (simulation.estimated) {
        messages.push_back(
            {Kind::note,
             translated("Times are estimated from operation counts, not measured: expect errors of 10 to 40 %.")});
    }
    if (is_for_comparison_only(options.schedule)) {
        messages.push_back(
            {Kind::note, translated("Schedule %1 is there to compare with: it is simulated only, and cannot be run.")
                             .arg(QString::fromStdString(to_string(options.schedule)))});
    }
    return messages;
}
}  // namespace pipescope
