#pragma once

#include "gui/document/trace_document.h"

#include <QString>
#include <QStringList>

#include <array>
#include <cstdint>
#include <optional>

namespace pipescope {
/// Throughput of a step of a given length. Unknown figures are empty.
struct Throughput {
    std::optional<double> samples;
    std::optional<double> tokens;       ///< of language models
    std::optional<double> tflops;       ///< operations that the model needs, 10^12; recomputing does not count
    std::optional<double> utilization;  ///< MFU: these over the devices' peak, 0 to 1
};
/// Throughput of the measured side, of its simulation, or of the run before, in a step of that length, with what
/// follows the pipeline. `measured`: the measured step, if it is one. Empty if the batch is unknown.
Throughput throughputOf(const TraceDocument& document, Source source, Nanoseconds step,
                        std::optional<std::int32_t> measured = std::nullopt);

struct Rate {
    QString name;   ///< "Samples/s"
    QString value;  ///< empty if it is unknown
};
/// The figures in words, always in the same order.
std::array<Rate, 4> ratesOf(const Throughput& throughput);

/// The checkpoint mode and the optimizer that the options' memory is counted for. On a cluster, a language model's
/// layers contain them, and the options do not name them.
QString checkpointText(const RecordedRun& run, const PipelineOptions& options);
QString optimizerText(const RecordedRun& run, const PipelineOptions& options);

/// "1,234" or "1.234": four digits, and no fraction from 1,000 on.
QString formatPerSecond(double number);
/// "1,234 tokens/s" or "12.3 samples/s", and "MFU 41.2 %" or "512 GFLOP/s": the best known of each, for a headline.
QStringList brief(const Throughput& throughput);
}  // namespace pipescope
