#include "benchmarks/experiments/validation_runs.h"

#include "analysis/calibration.h"
#include "analysis/trace_comparison.h"
#include "base/error.h"
#include "cli/stop_signals.h"
#include "cli/temporary_trace.h"
#include "cli/torch/training.h"
#include "engine/cores/usable_cores.h"
#include "simulator/pipeline_defaults.h"
#include "simulator/search/balance_search.h"
#include "trace/open_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace pipescope {
namespace {
/// Equal partitions, except for a few layers moved from the last partition to the first, or back.
Balance uneven(std::size_t layers, int partitions, bool to_first) {
    const auto n = static_cast<std::int64_t>(partitions);
    const auto total = static_cast<std::int64_t>(layers);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(n), total / n);
    for (std::int64_t k = 0; k < total % n; ++k) {
        ++counts[static_cast<std::size_t>(k)];
    }
    std::int64_t& from = to_first ? counts.back() : counts.front();
    std::int64_t& to = to_first ? counts.front() : counts.back();
    const std::int64_t moved = n == 1 ? 0 : std::min(from - 1, std::max<std::int64_t>(1, total / (4 * n)));
    from -= moved;
    to += moved;
    return Balance(counts);
}

enum class Cut { optimal, heavy_first, heavy_last };

PipelineOptions candidate(const CheckedProfile& profile, int lanes, std::int64_t chunks, std::int64_t batch,
                          Checkpoint checkpoint, Cut cut) {
    PipelineOptions options;
    options.chunks = chunks;
    options.batch = batch;
    options.checkpoint = checkpoint;
    options.hardware.devices.assign(static_cast<std::size_t>(lanes), "cpu");
    options.balance = cut == Cut::optimal ? find_balance(profile, options, lanes, BalanceAlgorithm::optimal).balance
                                          : uneven(profile->layers.size(), lanes, cut == Cut::heavy_first);
    return options;
}
}  // namespace

std::vector<std::int64_t> real_chunks(std::int64_t micro_batches, std::int64_t batch) {
    const std::int64_t m = std::min(micro_batches, batch);
    return {m, std::max<std::int64_t>(1, m / 2), std::min(batch, 2 * m)};
}

std::vector<PipelineOptions> real_candidates(const CheckedProfile& profile, int lanes, std::int64_t micro_batches,
                                             std::int64_t batch) {
    const std::vector<std::int64_t> chunks = real_chunks(micro_batches, batch);
    const std::int64_t m = chunks[0];
    const std::int64_t fewer = chunks[1];
    const std::int64_t more = chunks[2];
    std::vector<PipelineOptions> candidates{
        candidate(profile, lanes, m, batch, Checkpoint::except_last, Cut::optimal),
        candidate(profile, lanes, m, batch, Checkpoint::never, Cut::heavy_first),
        candidate(profile, lanes, fewer, batch, Checkpoint::always, Cut::optimal),
        candidate(profile, lanes, more, batch, Checkpoint::never, Cut::optimal),
        candidate(profile, lanes, fewer, batch, Checkpoint::except_last, Cut::heavy_last)};
    for (PipelineOptions& each : candidates) {
        assume_optimizer(each, profile->token_input);
        each.hardware.host_cores = usable_cores();
    }
    return candidates;
}

std::vector<PipelineOptions> emulated_candidates(const CheckedProfile& profile) {
    using enum Cut;
    const auto make = [&](int lanes, std::int64_t chunks, Checkpoint checkpoint, Cut cut) {
        PipelineOptions options = candidate(profile, lanes, chunks, chunks, checkpoint, cut);
        assume_optimizer(options, profile->token_input);
        return options;
    };
    return {make(2, 4, Checkpoint::always, optimal),      make(2, 8, Checkpoint::never, heavy_first),
            make(4, 8, Checkpoint::except_last, optimal), make(4, 16, Checkpoint::never, heavy_last),
            make(4, 4, Checkpoint::always, heavy_first),  make(8, 8, Checkpoint::except_last, heavy_last),
            make(8, 16, Checkpoint::always, optimal),     make(8, 32, Checkpoint::except_last, optimal),
            make(8, 32, Checkpoint::never, heavy_first)};
}

CheckedProfile calibrated_by_runs(const ModelSpec& model, const CheckedProfile& earlier,
                                  const std::vector<PipelineOptions>& layouts, std::int64_t steps, std::int64_t warmup,
                                  std::uint64_t seed) {
    const TemporaryTrace file;
    std::vector<OpenedTrace> traces;
    std::vector<RecordedRun> runs;
    traces.reserve(layouts.size());  // runs refer to them
    for (const PipelineOptions& layout : layouts) {
        TrainingOptions training;
        training.pipeline = layout;
        training.steps = steps + warmup;
        training.warmup = warmup;
        training.seed = seed;
        training.profile = earlier;
        training.trace = file.path();
        training.force = true;
        train_recorded(model, training);
        throw_if_stopped();
        traces.push_back(open_trace(file.path(), {.tracks = false}));
        runs.push_back(recorded_run(traces.back()));
    }
    std::vector<CalibrationRun> calibration;
    for (std::size_t k = 0; k < runs.size(); ++k) {
        calibration.push_back(calibration_run(runs[k], traces[k]));
    }
    return calibrated_profile(earlier, calibration);
}

std::vector<ValidatedCandidate> validate(const ModelSpec& model, const ValidationPlan& plan) {
    if (plan.rounds < 1) {
        throw UsageError(fmt::format("--rounds is {}; every candidate runs at least once; use 1 or more", plan.rounds));
    }
    std::vector<ValidatedCandidate> validated;
    for (const PipelineOptions& options : plan.candidates) {
        validated.push_back({options, {}});
    }
    const TemporaryTrace trace;
    const auto total = static_cast<double>(plan.rounds) * static_cast<double>(validated.size());
    double done = 0;
    const auto stopped = [&] { return plan.stop && plan.stop(); };
    for (std::int64_t round = 0; round < plan.rounds; ++round) {
        for (ValidatedCandidate& each : validated) {
            if (stopped()) {
                return validated;
            }
            TrainingOptions training;
            training.pipeline = each.options;
            training.steps = plan.steps + plan.warmup;
            training.warmup = plan.warmup;
            training.seed = plan.seed;
            training.update_parameters = !plan.emulated;
            try {
                training.profile = plan.profile(each.options);
            } catch (const Interrupted&) {
                return validated;
            }
            if (stopped()) {
                return validated;
            }
            training.trace = trace.path();
            training.force = true;
            const TrainingResult result = train_recorded(model, training);
            if (stopped()) {
                return validated;
            }
            TraceComparison compared = compare_trace(trace.path());
            if (compared.lossy()) {
                throw Error(fmt::format("the bubble of a run is not known: {}; validate on a quieter machine",
                                        fmt::join(texts_of(compared.warnings), "; ")));
            }
            each.runs.push_back({std::move(compared.comparison), measured_step_times(result), compared.simulation.noise,
                                 compared.profile_load, compared.run_load, compared.simulation.dtype});
            if (plan.progress) {
                plan.progress(++done / total);
            }
        }
    }
    return validated;
}
}  // namespace pipescope
