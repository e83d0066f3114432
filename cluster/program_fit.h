#pragma once

#include "base/ids.h"
#include "cluster/training_program.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The end of a fitted program's name.
inline constexpr std::string_view kMeasuredName = "-measured";

/// A step that somebody measured.
struct MeasuredStep {
    double ns = 0;                ///< above 0
    std::optional<double> bytes;  ///< the most that a device showed
};
/// What a program predicts for such a step.
struct PredictedStep {
    double ns = 0;
    double tensor_bytes = 0;  ///< highest peak of tensors on a device
};
/// Predicts the step of that number in a program.
using StepPredictor = std::function<PredictedStep(std::size_t step, const TrainingProgram& program)>;

/// The least that a process holds on a device besides tensors: CUDA's context (docs/device-catalogue.md).
inline constexpr Bytes kLeastContext = 500'000'000;

/// A program fitted to measured steps. Its work_factor is fitted, and at most one constant more: context_bytes, at
/// least kLeastContext, if steps say their memory and none showed less than its predicted tensors; step_ns if no step
/// says its memory, with three steps or more, if that makes the error of steps left out smaller.
struct ProgramFit {
    TrainingProgram program;
    bool fits_context = false;  ///< context_bytes
    /// The first step that showed less than its predicted tensors: their error is not what a process holds besides.
    std::optional<std::size_t> below_tensors;
    std::vector<double> tensor_bytes;  ///< predicted for each step
    bool fits_step = false;            ///< step_ns
    std::vector<double> before;        ///< predicted / measured - 1 of each step in the program that was given
    std::vector<double> after;         ///< in the fitted one
    std::vector<double> left_out;      ///< in one fitted to the other steps; empty with one step
};
/// Fits the program to steps on one type of device by least squares of the relative errors. With several steps its
/// published range for that device becomes that of the steps left out one by one. Precondition: there are steps.
/// Throws UsageError if a work_factor from 0.01 to 100 gives none of the measured times.
ProgramFit fitted_program(const TrainingProgram& program, const std::vector<MeasuredStep>& steps,
                          const std::string& device, bool experts, const StepPredictor& predict);
/// The mean of the absolute values. Precondition: there are some.
double mean_absolute(const std::vector<double>& errors);
}  // namespace pipescope
