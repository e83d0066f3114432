#include "cluster/program_fit.h"

#include "base/error.h"
#include "base/printable.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace pipescope {
namespace {
constexpr double kLeastWorkFactor = 0.01;
constexpr double kMostWorkFactor = 100;

/// A step's predicted time by work_factor, without step_ns: nearly linear, as messages keep their times.
class Curve {
public:
    void add(double factor, double ns) { points_[factor] = ns; }
    struct Line {
        double at_zero = 0;
        double slope = 0;
    };
    /// Through the two points around the factor, or the two nearest. Precondition: there are two.
    Line line(double factor) const {
        auto after = points_.upper_bound(factor);
        after = after == points_.begin() ? std::next(after) : after == points_.end() ? std::prev(after) : after;
        const auto before = std::prev(after);
        const double slope = (after->second - before->second) / (after->first - before->first);
        return {before->second - slope * before->first, slope};
    }

private:
    std::map<double, double> points_;
};

struct Constants {
    double factor = 1;
    double step_ns = 0;

    double predicted(const Curve& curve) const {
        const Curve::Line line = curve.line(factor);
        return line.at_zero + line.slope * factor + step_ns;
    }
};

/// Least squares of the relative errors of these steps, from where the curves are lines.
Constants fitted(const std::vector<Curve>& curves, const std::vector<MeasuredStep>& steps,
                 const std::vector<std::size_t>& used, Constants start, bool fits_step) {
    Constants found = start;
    constexpr int kRounds = 8;
    for (int round = 0; round < kRounds; ++round) {
        // Each step asks for slope factor + step_ns = measured - at_zero, divided by what was measured.
        double aa = 0;
        double ab = 0;
        double bb = 0;
        double ay = 0;
        double by = 0;
        for (const std::size_t k : used) {
            const Curve::Line line = curves[k].line(found.factor);
            const double a = line.slope / steps[k].ns;
            const double b = 1 / steps[k].ns;
            const double y = 1 - line.at_zero / steps[k].ns;
            aa += a * a;
            ab += a * b;
            bb += b * b;
            ay += a * y;
            by += b * y;
        }
        const double determinant = aa * bb - ab * ab;
        constexpr double kSingular = 1e-9;
        const auto factor_alone = [&](double step_ns) { return (ay - ab * step_ns) / aa; };
        if (fits_step && determinant > kSingular * aa * bb) {
            found.step_ns = std::max(0.0, (aa * by - ab * ay) / determinant);
        }
        found.factor = std::clamp(factor_alone(found.step_ns), kLeastWorkFactor, kMostWorkFactor);
    }
    return found;
}

/// Bytes that a device showed beside what the allocator holds for the predicted tensors; 0 without measured memory.
double beside_tensors(const MeasuredStep& step, const PredictedStep& predicted, const TrainingProgram& program) {
    return step.bytes ? *step.bytes - predicted.tensor_bytes * (1 + program.reserved_share) : 0;
}
}  // namespace

double mean_absolute(const std::vector<double>& errors) {
    const double sum = std::accumulate(errors.begin(), errors.end(), 0.0,
                                       [](double all, double error) { return all + std::abs(error); });
    return sum / static_cast<double>(errors.size());
}

ProgramFit fitted_program(const TrainingProgram& program, const std::vector<MeasuredStep>& steps,
                          const std::string& device, bool experts, const StepPredictor& predict) {
    ProgramFit found;
    found.program = program;
    std::vector<Curve> curves(steps.size());
    const auto predict_all = [&](double factor) {
        TrainingProgram tried = program;
        tried.work_factor = factor;
        std::vector<PredictedStep> all;
        for (std::size_t k = 0; k < steps.size(); ++k) {
            all.push_back(predict(k, tried));
            curves[k].add(factor, all.back().ns - program.step_ns);
        }
        return all;
    };
    const std::vector<PredictedStep> given = predict_all(program.work_factor);
    double least = kMostWorkFactor;
    double most = kLeastWorkFactor;
    bool has_memory = false;
    for (std::size_t k = 0; k < steps.size(); ++k) {
        found.tensor_bytes.push_back(given[k].tensor_bytes);
        has_memory = has_memory || steps[k].bytes.has_value();
        if (!found.below_tensors && beside_tensors(steps[k], given[k], program) < 0) {
            found.below_tensors = k;
        }
        const double ratio = steps[k].ns / given[k].ns;
        found.before.push_back(1 / ratio - 1);
        least = std::min(least, program.work_factor * ratio);
        most = std::max(most, program.work_factor * ratio);
    }
    constexpr double kWider = 1.05;  // two points at least, and the fit between them
    predict_all(std::clamp(least / kWider, kLeastWorkFactor, kMostWorkFactor));
    predict_all(std::clamp(most * kWider, kLeastWorkFactor, kMostWorkFactor));

    std::vector<std::size_t> all(steps.size());
    std::iota(all.begin(), all.end(), 0);
    const Constants start{program.work_factor, program.step_ns};
    const auto errors_left_out = [&](bool fits_step) {
        std::vector<double> errors;
        for (std::size_t k = 0; k < steps.size() && steps.size() > 1; ++k) {
            std::vector<std::size_t> others = all;
            others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
            const Constants without = fitted(curves, steps, others, start, fits_step && others.size() > 1);
            errors.push_back(without.predicted(curves[k]) / steps[k].ns - 1);
        }
        return errors;
    };
    found.fits_context = has_memory && !found.below_tensors;
    found.left_out = errors_left_out(false);
    constexpr std::size_t kStepsOfTwo = 3;  // with two, one is left, which cannot say two constants
    if (!has_memory && steps.size() >= kStepsOfTwo) {
        std::vector<double> of_two = errors_left_out(true);
        if (mean_absolute(of_two) < mean_absolute(found.left_out)) {
            found.fits_step = true;
            found.left_out = std::move(of_two);
        }
    }
    Constants best = fitted(curves, steps, all, start, found.fits_step);
    predict_all(best.factor);  // the curves bend: once more from a point that is exact
    best = fitted(curves, steps, all, best, found.fits_step);
    if (best.factor <= kLeastWorkFactor || best.factor >= kMostWorkFactor) {
        throw UsageError("measured steps take " + shortest(steps.front().ns / given.front().ns) +
                         " of their prediction; a work_factor from 0.01 to 100 must give them; check the seconds and "
                         "the layouts");
    }
    found.program.work_factor = best.factor;
    found.program.step_ns = best.step_ns;
    if (found.fits_context) {
        double sum = 0;
        double count = 0;
        for (std::size_t k = 0; k < steps.size(); ++k) {
            if (steps[k].bytes) {
                sum += beside_tensors(steps[k], given[k], program);
                ++count;
            }
        }
        found.program.context_bytes = std::max<Bytes>(kLeastContext, std::llround(sum / count));
    }
    for (std::size_t k = 0; k < steps.size(); ++k) {
        found.after.push_back(predict(k, found.program).ns / steps[k].ns - 1);
    }
    if (!found.left_out.empty()) {
        std::erase_if(found.program.published,
                      [&](const PublishedErrors& each) { return each.device == device && each.experts == experts; });
        const auto [low, high] = std::ranges::minmax(found.left_out);
        found.program.published.push_back(
            {device, experts, static_cast<int>(steps.size()), 1 / (1 + high), 1 / (1 + low), true});
    }
    return found;
}
}  // namespace pipescope
