#include "profiler/layers/size_times.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace pipescope {
namespace {
constexpr double kPassGoal = 2;
}  // namespace

void SizeTimes::add(const LayerTimes& times) {
    forward_.add(times.forward);
    recompute_.add(times.recompute);
    backward_.add(times.backward);
    loss_.add({times.loss});
    pass_.add({times.total()});
}

void SizeTimes::add(const SplitTimes& times) {
    weights_.add(times.weights);
    halves_.add({times.both});
}

double SizeTimes::backward_weight_ns(std::size_t layer) const {
    const double both = halves_.mean(0);
    const double scaled = both > 0 ? weights_.mean(layer) / both * scale_ * backward_.mean_sum() : 0;
    return std::min(scaled, backward_ns(layer));
}

void SizeTimes::finish(std::vector<double> others, int other_lanes) {
    other_lanes_ = other_lanes;
    others_ = std::move(others);
    others_.resize(pass_.rounds(), std::numeric_limits<double>::quiet_NaN());
    std::vector<std::size_t> rounds = standstills(pass_.sums());
    if (pass_.rounds() > rounds.size() + 1 && (rounds.empty() || rounds.front() != 0)) {
        rounds.insert(rounds.begin(), 0);
    }
    for (Repeats* repeats : {&forward_, &recompute_, &backward_, &loss_, &pass_}) {
        repeats->drop(rounds);
    }
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
        others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(*round));
    }
}

void SizeTimes::average_with(const std::vector<double>& other_lanes) {
    const double mine = pass_.mean(0);
    const double sum = std::accumulate(other_lanes.begin(), other_lanes.end(), mine);
    scale_ = mine > 0 ? sum / mine / static_cast<double>(other_lanes.size() + 1) : 1;
}

double SizeTimes::relative_error() const {
    SizeTimes finished = *this;
    finished.finish();
    return std::max({finished.forward_.relative_error(), finished.recompute_.relative_error(),
                     finished.backward_.relative_error(), kPassGoal * finished.pass_.relative_error()});
}

double SizeTimes::step_cv() const {
    double time = 0;
    double variation = 0;
    for (const Repeats* repeats : {&forward_, &backward_}) {
        const double mean = repeats->mean_sum();
        time += mean;
        variation += mean * repeats->common_variation();
    }
    return time > 0 ? variation / time : 0;
}

double SizeTimes::lane_cv() const {
    return std::min(step_cv(), lane_variation(pass_.sums(), others_, other_lanes_));
}
}  // namespace pipescope
