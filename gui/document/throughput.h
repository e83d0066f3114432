#pragma once

#include "analysis/recorded_run.h"
#include "simulator/simulation.h"

#include <QString>
#include <QStringList>

#include <optional>

namespace pipescope {
/// Throughput of a step of a given length. Unknown figures are empty.
struct Throughput {
    std::optional<double> samples;
    std::optional<double> tokens;       ///< of language models
    std::optional<double> tflops;       ///< operations that the model needs, 10^12; recomputing does not count
    std::optional<double> utilization;  ///< MFU: these over the devices' peak, 0 to 1
};
/// Throughput of the recorded pipeline, or of the step that consists of it and of the work after it. Empty if its batch
/// is unknown.
Throughput throughputOf(const RecordedRun& run, Nanoseconds pipeline, std::optional<std::int32_t> step = std::nullopt);
/// Throughput of a simulation of this run, in a step of that length. Empty if the run's batch is unknown.
Throughput throughputOf(const RecordedRun& run, const Simulation& simulation, Nanoseconds step);

/// The checkpoint mode and the optimizer that the options' memory is counted for. On a cluster, a language model's
/// layers contain them, and the options do not name them.
QString checkpointText(const RecordedRun& run, const PipelineOptions& options);
QString optimizerText(const RecordedRun& run, const PipelineOptions& options);

/// "1,234" or "1.234": four digits, and no fraction from 1,000 on.
QString formatPerSecond(double number);
/// "1,234 tokens/s" or "12.3 samples/s", and "MFU 41.2 %" or "512 GFLOP/s": the best known of each, for a headline.
QStringList brief(const Throughput& throughput);
}  // namespace pipescope
