#include "gui/document/throughput.h"

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

/// The whole step of a layout on a cluster, of which `run` is one part.
Throughput ofWholeStep(const RecordedRun& run, std::int64_t batch, std::int64_t tokensPerSample,
                       std::optional<ModelFlops> flops, Nanoseconds step) {
    if (run.on_cluster) {
        step += after_pipeline(run);
        if (flops && run.on_cluster->model_flops > 0) {
            flops->step =
                run.on_cluster->model_flops / static_cast<double>(run.on_cluster->batch) * static_cast<double>(batch);
        }
        if (flops && flops->peak_per_second) {
            *flops->peak_per_second *= static_cast<double>(run.on_cluster->lane_devices);
        }
    }
    return throughputOf(batch, tokensPerSample, flops, step);
}
}  // namespace

bool isBatchUnknown(const RecordedRun& run) {
    return run.of_another_program && !run.micro_batch_samples;
}

Throughput throughputOf(const RecordedRun& run, Nanoseconds step) {
    if (!run.options || isBatchUnknown(run)) {
        return {};
    }
    if (!run.profile || !run.why_not_simulated.empty()) {
        return throughputOf(run.options->batch, 0, std::nullopt, step);
    }
    return ofWholeStep(run, run.options->batch, run.profile->tokens_per_sample, model_flops(*run.profile, *run.options),
                       step);
}

Throughput throughputOf(const RecordedRun& run, const Simulation& simulation, Nanoseconds step) {
    return isBatchUnknown(run)
               ? Throughput{}
               : ofWholeStep(run, simulation.options.batch, simulation.tokens_per_sample, simulation.flops, step);
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
