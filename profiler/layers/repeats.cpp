#include "profiler/layers/repeats.h"

#include "schedule/median.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace pipescope {
void Repeats::drop_warm_up() {
    if (rounds_.size() > 1) {
        rounds_.erase(rounds_.begin());
    }
}

double Repeats::median(std::size_t layer) const {
    if (rounds_.empty()) {
        return 0;
    }
    std::vector<double> values;
    for (const auto& round : rounds_) {
        values.push_back(round.at(layer));
    }
    return pipescope::median(std::move(values));
}

std::vector<double> Repeats::medians_to_sum() const {
    std::vector<double> sums;
    for (const auto& round : rounds_) {
        sums.push_back(std::accumulate(round.begin(), round.end(), 0.0));
    }
    std::vector<double> medians;
    for (std::size_t layer = 0; !rounds_.empty() && layer < rounds_.front().size(); ++layer) {
        medians.push_back(median(layer));
    }
    const double sum_of_medians = std::accumulate(medians.begin(), medians.end(), 0.0);
    const double factor = sum_of_medians > 0 ? pipescope::median(std::move(sums)) / sum_of_medians : 1;
    for (double& each : medians) {
        each *= factor;
    }
    return medians;
}

double Repeats::mean(std::size_t layer) const {
    double sum = 0;
    for (const auto& round : rounds_) {
        sum += round.at(layer);
    }
    return rounds_.empty() ? 0 : sum / static_cast<double>(rounds_.size());
}

double Repeats::standard_deviation(std::size_t layer) const {
    if (rounds_.size() < 2) {
        return 0;
    }
    const double center = mean(layer);
    double squares = 0;
    for (const auto& round : rounds_) {
        squares += (round.at(layer) - center) * (round.at(layer) - center);
    }
    return std::sqrt(squares / static_cast<double>(rounds_.size() - 1));
}

double Repeats::coefficient_of_variation(std::size_t layer) const {
    const double center = mean(layer);
    return center > 0 ? standard_deviation(layer) / center : 0;
}

double Repeats::common_variation() const {
    if (rounds_.size() < 2) {
        return 0;
    }
    Repeats sums;
    double variances = 0;
    for (const auto& round : rounds_) {
        sums.add({std::accumulate(round.begin(), round.end(), 0.0)});
    }
    for (std::size_t layer = 0; layer < rounds_.front().size(); ++layer) {
        variances += standard_deviation(layer) * standard_deviation(layer);
    }
    const double beyond = sums.standard_deviation(0) * sums.standard_deviation(0) - variances;
    return beyond > 0 && sums.mean(0) > 0 ? std::sqrt(beyond) / sums.mean(0) : 0;
}

double Repeats::relative_error() const {
    if (rounds_.size() < 2) {
        return std::numeric_limits<double>::infinity();
    }
    double error = 0;
    double sum = 0;
    for (std::size_t layer = 0; layer < rounds_.front().size(); ++layer) {
        error += standard_deviation(layer) / std::sqrt(static_cast<double>(rounds_.size()));
        sum += mean(layer);
    }
    return sum > 0 ? error / sum : 0;
}

std::size_t repeat_rounds(const RepeatGoal& goal, const std::function<double()>& elapsed_s,
                          const std::function<void(std::size_t)>& round,
                          const std::function<double()>& relative_error) {
    std::size_t done = 0;
    while (done < goal.most) {
        const double start = elapsed_s();
        round(done);
        ++done;
        const double now = elapsed_s();
        if (now + (now - start) > goal.time_limit_s || (done >= goal.fewest && relative_error() < goal.target_error)) {
            break;
        }
    }
    return done;
}
}  // namespace pipescope
