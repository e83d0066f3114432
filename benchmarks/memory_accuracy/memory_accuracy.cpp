// Compares the memory model with the tracking allocator at measured instants, over random models, schedules and
// checkpoint modes. Prints a Markdown table for docs/accuracy.md.

#include "benchmarks/memory_accuracy/measured_peaks.h"
#include "benchmarks/memory_accuracy/random_models.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/memory/tracking_allocator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace pipescope {
namespace {
struct Errors {
    std::size_t models = 0;
    std::vector<double> errors;  // absolute

    void print(const std::string& name) {
        std::sort(errors.begin(), errors.end());
        const auto within = std::upper_bound(errors.begin(), errors.end(), 0.01) - errors.begin();
        const double share = errors.empty() ? 1 : static_cast<double>(within) / static_cast<double>(errors.size());
        std::printf("| %s | %zu | %zu | %.1f %% | %.2f %% |\n", name.c_str(), models, errors.size(), 100 * share,
                    errors.empty() ? 0.0 : 100 * errors.back());
    }
};

std::string parts(const MemoryBreakdown& breakdown) {
    std::string text;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        if (breakdown[category] > 0) {
            text += " " + std::string(to_string(category)) + " " + std::to_string(breakdown[category]);
        }
    }
    return text;
}

std::string layers_of(const RandomModel& model) {
    std::string text;
    for (const LayerSpec& layer : model.spec.layers) {
        text += (text.empty() ? "" : " ") + layer.name;
    }
    return text;
}

/// Measures all pipelines of a model, and reports lanes with errors above `shown`.
void measure(const RandomModel& model, std::uint64_t seed, double shown, Errors& errors, Errors& all) {
    const std::vector<PipelineOptions> pipelines = random_pipelines(model, seed);
    ProfileOptions options;
    options.samples = micro_batches_of(pipelines);
    options.co_running_lanes = 1;
    options.time_limit_s = 1e-3;
    options.tapes = std::getenv("NO_TAPES") == nullptr;
    const Profile profile = profile_model(model.spec, options);
    bool is_named = false;
    ++errors.models;
    ++all.models;
    for (const PipelineOptions& pipeline : pipelines) {
        const auto peaks = lane_peaks(model.spec, profile, pipeline);
        if (!peaks) {
            continue;
        }
        for (std::size_t lane = 0; lane < peaks->size(); ++lane) {
            const LanePeak& peak = (*peaks)[lane];
            errors.errors.push_back(std::abs(peak.error()));
            all.errors.push_back(errors.errors.back());
            if (std::abs(peak.error()) > shown) {
                if (!is_named) {
                    std::fprintf(stderr, "%s %lu: %s\n", model.kind.c_str(), static_cast<unsigned long>(seed),
                                 layers_of(model).c_str());
                    is_named = true;
                }
                std::fprintf(stderr,
                             "  %s lane %zu: counted %lld modelled %lld (%+.2f %%)\n    counted %s\n    modelled%s\n",
                             describe(pipeline).c_str(), lane, static_cast<long long>(peak.counted),
                             static_cast<long long>(peak.modelled), 100 * peak.error(),
                             parts(peak.counted_parts).c_str(), parts(peak.modelled_parts).c_str());
            }
        }
    }
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.size() > 3) {
        std::fputs("usage: memory_accuracy [MODELS OF EACH KIND] [FIRST SEED] [KIND]\n", stderr);
        return 2;
    }
    const std::uint64_t models = !arguments.empty() ? std::stoull(arguments[0]) : 10;
    const std::uint64_t first = arguments.size() > 1 ? std::stoull(arguments[1]) : 0;
    tracking_allocator::install();
    std::fputs("| kind | models | lanes | within 1 % | worst |\n| --- | ---: | ---: | ---: | ---: |\n", stdout);
    Errors all;
    for (const std::string& kind : random_model_kinds()) {
        if (arguments.size() > 2 && arguments[2] != kind) {
            continue;
        }
        Errors errors;
        for (std::uint64_t seed = first; seed < first + models; ++seed) {
            measure(random_model(kind, seed), seed, 0.01, errors, all);
        }
        errors.print(kind);
        std::fflush(stdout);
    }
    all.print("all");
    return 0;
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    return pipescope::run({argv + 1, argv + argc});
}
