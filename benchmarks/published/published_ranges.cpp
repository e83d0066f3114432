#include "benchmarks/published/published_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

namespace pipescope {
namespace {
/// A run that counts, with what its errors are grouped by.
struct Judged {
    const PublishedRun* run = nullptr;
    PublishedErrors group;  ///< without numbers
    std::string release;    ///< repository and version
    double ratio = 1;       ///< measured / predicted
};

std::vector<Judged> judged_runs(const std::vector<PublishedRun>& runs) {
    std::vector<Judged> judged;
    for (const PublishedRun& run : runs) {
        if (run.step && run.ran() && !run.tunes) {
            judged.push_back({&run,
                              {.device = run.device, .experts = run.experts},
                              run.source.substr(0, run.source.find(':')),
                              1 / (1 + run.error())});
        }
    }
    return judged;
}

bool is_alike(const Judged& a, const Judged& b) {
    return a.run->program == b.run->program && a.group == b.group;
}

/// The runs by program, device and experts, each group in the order of its first run.
std::vector<std::vector<Judged>> alike_runs(const std::vector<Judged>& judged) {
    std::vector<std::vector<Judged>> groups;
    for (const Judged& each : judged) {
        const auto found =
            std::ranges::find_if(groups, [&](const auto& group) { return is_alike(group.front(), each); });
        if (found == groups.end()) {
            groups.push_back({each});
        } else {
            found->push_back(each);
        }
    }
    return groups;
}

/// The range that holds nine of ten of these runs.
PublishedErrors errors_of(PublishedErrors group, std::vector<double> ratios) {
    std::ranges::sort(ratios);
    constexpr double kLeftOutAtEachEnd = 0.05;
    const auto skipped = static_cast<std::size_t>(kLeftOutAtEachEnd * static_cast<double>(ratios.size()));
    constexpr double kStep = 0.01;
    group.runs = static_cast<int>(ratios.size());
    group.low = std::floor(ratios[skipped] / kStep) * kStep;
    group.high = std::ceil(ratios[ratios.size() - 1 - skipped] / kStep) * kStep;
    return group;
}

/// What the file of the run's program would say without the runs of its own source.
std::vector<PublishedErrors> errors_of_others(const Judged& one, const std::vector<Judged>& all) {
    std::vector<PublishedErrors> errors;
    std::vector<std::vector<double>> ratios;
    for (const Judged& each : all) {
        if (each.run->program != one.run->program || each.release == one.release) {
            continue;
        }
        const auto found = std::ranges::find(errors, each.group) - errors.begin();
        if (found == std::ssize(errors)) {
            errors.push_back(each.group);
            ratios.emplace_back();
        }
        ratios[static_cast<std::size_t>(found)].push_back(each.ratio);
    }
    for (std::size_t k = 0; k < errors.size(); ++k) {
        errors[k] = errors_of(errors[k], ratios[k]);
    }
    return errors;
}
}  // namespace

std::vector<RangeCheck> range_checks(const std::vector<PublishedRun>& runs) {
    const std::vector<Judged> judged = judged_runs(runs);
    std::vector<RangeCheck> checks;
    for (const std::vector<Judged>& group : alike_runs(judged)) {
        RangeCheck check;
        check.program = group.front().run->program;
        std::vector<double> ratios;
        for (const Judged& each : group) {
            ratios.push_back(each.ratio);
            const auto holds = [&](const StepRange& range) {
                return each.ratio >= range.low && each.ratio <= range.high;
            };
            check.inside += holds(each.run->step->range) ? 1 : 0;
            TrainingProgram program = each.run->step->layout.how();
            program.published = errors_of_others(each, judged);
            check.inside_left_out += holds(step_range(program, each.group.device, each.group.experts)) ? 1 : 0;
        }
        check.errors = errors_of(group.front().group, std::move(ratios));
        checks.push_back(std::move(check));
    }
    return checks;
}

std::vector<HalfCheck> half_checks(const std::vector<PublishedRun>& runs) {
    std::vector<HalfCheck> checks;
    for (const std::vector<Judged>& group : alike_runs(judged_runs(runs))) {
        std::map<std::string, std::vector<double>> by_release;  // predicted / measured
        for (const Judged& each : group) {
            by_release[each.release].push_back(1 / each.ratio);
        }
        if (by_release.size() < 2) {
            continue;
        }
        std::array<std::vector<double>, 2> halves;
        std::size_t next = 0;
        for (const auto& [release, ratios] : by_release) {
            std::vector<double>& half = halves[next++ % 2];
            half.insert(half.end(), ratios.begin(), ratios.end());
        }
        HalfCheck check{group.front().run->program, group.front().group, static_cast<int>(by_release.size()), 0, 0};
        for (std::size_t half = 0; half < halves.size(); ++half) {
            double sum = 0;
            double squares = 0;
            for (const double ratio : halves[1 - half]) {
                sum += ratio;
                squares += ratio * ratio;
            }
            for (const double ratio : halves[half]) {
                check.as_is += std::abs(ratio - 1);
                check.from_others += std::abs(sum / squares * ratio - 1);
                ++check.group.runs;
            }
        }
        check.as_is /= check.group.runs;
        check.from_others /= check.group.runs;
        checks.push_back(std::move(check));
    }
    return checks;
}
}  // namespace pipescope
