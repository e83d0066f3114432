#pragma once

#include "benchmarks/published/published_runs.h"
#include "cluster/training_program.h"

#include <string>
#include <vector>

namespace pipescope {
/// The published runs of one program on one type of device, with or without experts, and how many of them lie in the
/// interval of their prediction. Runs that tune a trained model are left out, as in cluster/programs.json.
struct RangeCheck {
    std::string program;
    PublishedErrors errors;   ///< of these runs now: what the program's file should say
    int inside = 0;           ///< of the runs, in the interval from the program's file
    int inside_left_out = 0;  ///< of the runs, in the interval that all runs but those of their own source would give
};
/// By program, device and experts, in the order of the runs. A source is a release of a repository.
std::vector<RangeCheck> range_checks(const std::vector<PublishedRun>& runs);

/// Errors out of sample: of runs whose predictions are multiplied by a factor from other sources. The sources (releases
/// of a repository) of one program on one type of device, with or without experts, are dealt out to two halves in the
/// order of their names. The factor of a half minimizes the squares of the other half's relative errors.
struct HalfCheck {
    std::string program;
    PublishedErrors group;   ///< device, experts and number of runs
    int sources = 0;         ///< at least two
    double as_is = 0;        ///< mean absolute error without a factor
    double from_others = 0;  ///< with the factor of the other half
};
/// By program, device and experts, in the order of the runs. Leaves out those with one source.
std::vector<HalfCheck> half_checks(const std::vector<PublishedRun>& runs);
}  // namespace pipescope
