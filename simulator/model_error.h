#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>

namespace pipescope {
/// How far the simulation of a recorded pipeline is from its measured steps, and how well those determine that.
///
/// A predicted change of the step is a ratio of two simulated steps. An error that both share, such as one slow core,
/// cancels in it. An error in the part that the change concerns does not, and nobody knows how the error is divided. So
/// this takes the worst case: no part of the error cancels, and the measured mean is off by two standard errors.
struct ModelError {
    double error = 0;  ///< simulated / measured - 1, of the mean steps
    /// Of the measured mean, relative to that; from the spread of the steps as if they were independent. Empty for
    /// one step.
    std::optional<double> standard_error;
    std::size_t steps = 0;  ///< measured and compared

    /// A change of the step by less than this share cannot be told apart from the error.
    double least_change() const { return std::abs(error) + 2 * standard_error.value_or(0); }
    bool hides(double change) const { return std::abs(change) < least_change(); }
    struct Range {
        double least = 0;
        double most = 0;
    };
    /// What a predicted change of the step may be in a run, by that error.
    Range range_of(double change) const { return {change - least_change(), change + least_change()}; }

    friend bool operator==(const ModelError&, const ModelError&) = default;
};

/// "the simulation of this run is 22.9 % above its mean measured step (24 steps, standard error 4.1 %); a change of
/// less than 31.1 % cannot be told apart from that error".
std::string model_error_text(const ModelError& error);
/// Of a change that shortens the step, negative: "would save 6 to 9 % of the step (the model was 2 % off on this run)".
/// Without an error, says that no run checked it.
std::string saving_text(double change, const std::optional<ModelError>& error);
}  // namespace pipescope
