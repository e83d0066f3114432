#pragma once

#include "analysis/recorded_run.h"
#include "schedule/timeline.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The measured steps that are compared with the simulated one.
struct MeasuredSteps {
    std::vector<StepRecord> steps;       ///< by time; without times if the training loop recorded none
    std::size_t comparable = 0;          ///< more than `steps` if only some were taken
    std::vector<std::int32_t> left_out;  ///< by leave_out_halves()
    bool cut_off = false;                ///< one of them may be incomplete
    std::string why_none;                ///< as RecordedRun::why_not_simulated; empty if there is a step

    std::vector<std::int32_t> numbers() const;
    /// Wall times of the steps. Steps without a record of the training loop have none.
    std::vector<Nanoseconds> wall_times() const;
};

/// The steps with compute tasks that take time, in order of time.
std::vector<std::int32_t> steps_in_time(const Timeline& timeline);

/// Selects the steps that the training loop recorded, without warm-up. If it recorded none, selects the `recorded`
/// ones, which have tasks, in order of time; the last one is left out if the recording was cut off and there are
/// others. Selects at most `most` steps, evenly spaced.
MeasuredSteps steps_to_compare(const RecordedRun& run, std::span<const std::int32_t> recorded,
                               std::size_t most = std::numeric_limits<std::size_t>::max());
/// Leaves out steps without forwards or without backwards, as after a loss of ranges, and steps of no length. Their
/// times are unknown. `timeline` needs to hold the slices of these steps only.
void leave_out_halves(const Timeline& timeline, MeasuredSteps& measured);
/// A sentence that names MeasuredSteps::left_out.
std::string left_out_warning(std::span<const std::int32_t> steps);
/// The refusal for MeasuredSteps::cut_off.
inline constexpr std::string_view kOnlyStepCutOff =
    "the recording was cut off in the only step that it holds: the step may have gone on, and its idle time "
    "and bubble fractions are not known and not shown; record more steps";
}  // namespace pipescope
