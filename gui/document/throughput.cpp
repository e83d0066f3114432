#include "gui/document/throughput.h"

#include "gui/document/baseline.h"
#include "gui/style/number_format.h"

#include <cmath>

namespace pipescope {
namespace {
Throughput throughputOf(std::int64_t batch, std::int64_t tokensPerSample, const std::optional<ModelFlops>& flops,
                        Nanoseconds step) {
    Throughput found;
    const auto ns = static_cast<double>(step.count());
    if (ns <= 0) {
        return found;
    }
    found.samples = static_cast<double>(batch) / ns * 1e9;
    if (tokensPerSample > 0) {
        found.tokens = *found.samples * static_cast<double>(tokensPerSample);
    }
    if (flops) {
        found.tflops = flops->per_second(ns) / 1e12;
        found.utilization = flops->utilization(ns);
    }
    return found;
}

Throughput throughputOf(const RecordedRun& run, Nanoseconds whole, std::optional<std::int32_t> step) {
    if (!run.options || is_batch_unknown(run)) {
        return {};
    }
    PipelineOptions options = *run.options;
    if (const StepRecord* const record = step ? run.record_of(*step) : nullptr;
        record != nullptr && record->samples > 0) {
        options.batch = record->samples;
    }
    if (!run.profile || !run.why_not_simulated.empty()) {
        return throughputOf(options.batch, 0, std::nullopt, whole);
    }
    std::optional<ModelFlops> flops = model_flops(*run.profile, options);
    if (flops && run.on_cluster) {
        flops = of_whole_step(*flops, *run.on_cluster, options.batch);
    }
    return throughputOf(options.batch, (*run.profile)->tokens_per_sample, flops, whole);
}

template <class Format>
QString textOf(const std::optional<double>& figure, const Format& format) {
    return figure ? format(*figure) : QString();
}
}  // namespace

Throughput throughputOf(const TraceDocument& document, Source source, Nanoseconds step,
                        std::optional<std::int32_t> measured) {
    if (source == Source::measured) {
        return throughputOf(document.run, step, measured);
    }
    if (document.baseline) {
        return throughputOf(document.baseline->compared.run, step,
                            measured ? std::optional(document.baseline->step) : std::nullopt);
    }
    if (!document.simulation || is_batch_unknown(document.run)) {
        return {};
    }
    const Simulation& simulation = *document.simulation;
    return throughputOf(simulation.options.batch, simulation.tokens_per_sample, simulation.flops, step);
}

std::array<Rate, 4> ratesOf(const Throughput& throughput) {
    return {{{translated("Samples/s"), textOf(throughput.samples, formatPerSecond)},
             {translated("Tokens/s"), textOf(throughput.tokens, formatPerSecond)},
             {translated("Model operations/s"), textOf(throughput.tflops, formatOperations)},
             {translated("MFU"), textOf(throughput.utilization, formatShare)}}};
}

QString checkpointText(const RecordedRun& run, const PipelineOptions& options) {
    return QString::fromStdString(to_string(as_counted(run, options).checkpoint));
}

QString optimizerText(const RecordedRun& run, const PipelineOptions& options) {
    return QString::fromStdString(as_counted(run, options).optimizer);
}

QString formatPerSecond(double number) {
    if (number >= 1000) {
        return QLocale().toString(static_cast<qlonglong>(std::llround(number)));
    }
    if (number < 1) {
        return QLocale().toString(number, 'g', 4);
    }
    return QLocale().toString(number, 'f', number >= 100 ? 1 : number >= 10 ? 2 : 3);
}

QStringList brief(const Throughput& throughput) {
    QStringList parts;
    if (throughput.tokens) {
        parts << translated("%1 tokens/s").arg(formatPerSecond(*throughput.tokens));
    } else if (throughput.samples) {
        parts << translated("%1 samples/s").arg(formatPerSecond(*throughput.samples));
    }
    if (throughput.utilization) {
        parts << translated("MFU %1").arg(formatShare(*throughput.utilization));
    } else if (throughput.tflops) {
        parts << formatOperations(*throughput.tflops);
    }
    return parts;
}
}  // namespace pipescope
