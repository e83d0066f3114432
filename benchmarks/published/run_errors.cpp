#include "benchmarks/published/run_errors.h"

#include "simulator/memory/memory_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
bool counts(const PublishedRun& run) {
    return run.step && run.ran() && !run.tunes;
}
double ratio_of(const PublishedRun& run) {
    return 1 / (1 + run.error());  // measured over predicted
}
std::string repository_of(const PublishedRun& run) {
    return run.source.substr(0, run.source.find_first_of("@: "));
}
/// The value below which that share of the values lies.
double quantile(std::vector<double> values, double share) {
    std::ranges::sort(values);
    const auto place = static_cast<std::size_t>(std::llround(share * static_cast<double>(values.size() - 1)));
    return values[place];
}
constexpr double kLow = 0.05;
constexpr double kHigh = 0.95;
}  // namespace

std::vector<LayoutPairs> layout_pairs(const std::vector<PublishedRun>& runs) {
    struct Pairs {
        std::vector<double> spreads;
        int right = 0;
    };
    // Samples per second and device say which of two layouts is quicker, whatever their numbers of devices.
    const auto key = [](const PublishedRun& run) {
        const std::string model = run.about.substr(0, run.about.find(','));
        return std::tuple(run.program, run.device, repository_of(run), model, run.step->layout.product_dtype,
                          run.step->layout.dtype, run.step->tokens / static_cast<double>(run.step->layout.batch));
    };
    const auto rate = [](const PublishedRun& run, double seconds) {
        return static_cast<double>(run.step->layout.batch) / seconds / run.step->layout.devices();
    };
    std::map<std::pair<std::string, bool>, Pairs> by_program;
    for (std::size_t k = 0; k < runs.size(); ++k) {
        for (std::size_t other = 0; other < k; ++other) {
            const PublishedRun& a = runs[k];
            const PublishedRun& b = runs[other];
            if (!counts(a) || !counts(b) || key(a) != key(b) || a.step->layout == b.step->layout) {
                continue;
            }
            const bool is_right =
                (rate(a, a.seconds) > rate(b, b.seconds)) == (rate(a, a.step->step_ns()) > rate(b, b.step->step_ns()));
            for (const std::string& program : {a.program, std::string("all")}) {
                Pairs& pairs = by_program[{program, a.experts}];
                pairs.spreads.push_back(std::abs(ratio_of(a) / ratio_of(b) - 1));
                pairs.right += is_right ? 1 : 0;
            }
        }
    }
    std::vector<LayoutPairs> all;
    for (const auto& [set, pairs] : by_program) {
        constexpr double kNineOfTen = 0.9;
        all.push_back({set.first, set.second, static_cast<int>(pairs.spreads.size()), pairs.right,
                       quantile(pairs.spreads, kNineOfTen)});
    }
    return all;
}

std::vector<MemoryErrors> memory_errors(const std::vector<PublishedRun>& runs) {
    constexpr double kGiB = 1024.0 * 1024 * 1024;
    std::map<std::string, std::vector<double>> ratios;
    for (const PublishedRun& run : runs) {
        if (run.step && run.ran() && run.gib) {
            const LayoutStep& step = *run.step;
            const Bytes shown = step.layout.how().shown_bytes(highest_peak(step.simulation));
            ratios[run.program].push_back(*run.gib * kGiB / static_cast<double>(shown));
            ratios["all"].push_back(ratios[run.program].back());
        }
    }
    std::vector<MemoryErrors> all;
    for (const auto& [program, values] : ratios) {
        all.push_back({program, static_cast<int>(values.size()), quantile(values, kLow), quantile(values, kHigh)});
    }
    return all;
}
}  // namespace pipescope
