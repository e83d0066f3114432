// Compares the memory model with the tracking allocator at measured instants, over random models, schedules and
// checkpoint modes. Prints a Markdown table for docs/evidence/accuracy.md.

#include "benchmarks/memory_accuracy/measured_peaks.h"
#include "benchmarks/memory_accuracy/random_models.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/memory/tracking_allocator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
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

struct Arguments {
    std::vector<std::string> places;  ///< models of each kind, first seed, kind
    bool tapes = true;
    bool tasks = false;  ///< print each task of a lane that is off
};

/// What one side says of a task: the highest since the lane's task before, and what is left at its end.
struct AtTask {
    MemorySample peak;
    MemorySample end;
};
using LaneTasks = std::map<std::int64_t, AtTask>;

LaneTasks tasks_of(const std::vector<MemorySample>& samples, std::size_t lane) {
    LaneTasks tasks;
    for (const MemorySample& sample : samples) {
        if (sample.lane.index() == lane) {
            const auto [place, is_new] = tasks.try_emplace(sample.task, AtTask{sample, sample});
            AtTask& task = place->second;
            task.peak = sample.peak > task.peak.peak ? sample : task.peak;
            task.end = sample;
        }
    }
    return tasks;
}

void print_tasks(const PeakTrace& trace, std::size_t lane) {
    const LaneTasks modelled = tasks_of(trace.modelled, lane);
    std::vector<std::pair<std::int64_t, AtTask>> counted;
    for (const auto& each : tasks_of(trace.counted, lane)) {
        counted.push_back(each);
    }
    std::sort(counted.begin(), counted.end(),
              [](const auto& a, const auto& b) { return a.second.end.time < b.second.end.time; });
    for (const auto& [task, count] : counted) {
        const auto model = modelled.find(task);
        if (model == modelled.end()) {
            continue;
        }
        const AtTask& said = model->second;
        const bool differs = count.peak.peak != said.peak.peak || count.end.allocated != said.end.allocated;
        std::fprintf(stderr, "    %s %-28s peak %lld %lld (%+lld) end %lld %lld (%+lld)\n", differs ? "*" : " ",
                     to_string(unpack(static_cast<std::uint64_t>(task)).value()).c_str(),
                     static_cast<long long>(count.peak.peak), static_cast<long long>(said.peak.peak),
                     static_cast<long long>(said.peak.peak - count.peak.peak),
                     static_cast<long long>(count.end.allocated), static_cast<long long>(said.end.allocated),
                     static_cast<long long>(said.end.allocated - count.end.allocated));
        if (differs) {
            std::fprintf(stderr, "          counted%s\n          modelled%s\n", parts(count.end.composition).c_str(),
                         parts(said.end.composition).c_str());
        }
    }
}

/// Measures one model in all its pipelines, and says which lanes are more than `shown` off.
void measure(const RandomModel& model, std::uint64_t seed, double shown, const Arguments& arguments, Errors& errors,
             Errors& all) {
    const std::vector<PipelineOptions> pipelines = random_pipelines(model, seed);
    ProfileOptions options;
    options.samples = micro_batches_of(pipelines);
    options.co_running_lanes = 1;
    options.time_limit_s = 1e-3;
    options.tapes = arguments.tapes;
    const Profile profile = profile_model(model.spec, options);
    bool is_named = false;
    ++errors.models;
    ++all.models;
    for (const PipelineOptions& pipeline : pipelines) {
        PeakTrace trace;
        const auto peaks = lane_peaks(model.spec, profile, pipeline, arguments.tasks ? &trace : nullptr);
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
                if (arguments.tasks) {
                    print_tasks(trace, lane);
                }
            }
        }
    }
}

Arguments parse(const std::vector<std::string>& words) {
    Arguments arguments;
    for (const std::string& word : words) {
        if (word == "--no-tapes") {
            arguments.tapes = false;
        } else if (word == "--tasks") {
            arguments.tasks = true;
        } else {
            arguments.places.push_back(word);
        }
    }
    return arguments;
}

int run(const Arguments& arguments) {
    const std::vector<std::string>& places = arguments.places;
    if (places.size() > 3 || (!places.empty() && places[0].starts_with('-'))) {
        std::fputs("usage: memory_accuracy [MODELS OF EACH KIND] [FIRST SEED] [KIND] [--no-tapes] [--tasks]\n", stderr);
        return 2;
    }
    const std::uint64_t models = !places.empty() ? std::stoull(places[0]) : 10;
    const std::uint64_t first = places.size() > 1 ? std::stoull(places[1]) : 0;
    tracking_allocator::install();
    std::fputs("| kind | models | lanes | within 1 % | worst |\n| --- | ---: | ---: | ---: | ---: |\n", stdout);
    Errors all;
    for (const std::string& kind : random_model_kinds()) {
        if (places.size() > 2 && places[2] != kind) {
            continue;
        }
        Errors errors;
        for (std::uint64_t seed = first; seed < first + models; ++seed) {
            measure(random_model(kind, seed), seed, 0.01, arguments, errors, all);
        }
        errors.print(kind);
        std::fflush(stdout);
    }
    all.print("all");
    return 0;
}
}  // namespace
}  // namespace pipescope

int memory_accuracy_main(int argc, char** argv) {
    return pipescope::run(pipescope::parse({argv + 1, argv + argc}));
}
