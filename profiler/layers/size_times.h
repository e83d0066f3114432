#pragma once

#include "profiler/layers/layer_chain.h"
#include "profiler/layers/repeats.h"

#include <vector>

namespace pipescope {
/// The passes over a part at one micro-batch size, and the estimates from them.
class SizeTimes {
public:
    void add(const LayerTimes& times);
    void add(const SplitTimes& times);

    /// Error of the estimates so far: the layers' error, or twice the error of whole passes, whichever is larger. With
    /// a goal of 2 % for layers, passes are therefore known to 1 %.
    double relative_error() const;

    /// Discards standstills and the first pass, which still warmed caches and allocators, if there are others. Call
    /// once, before the estimates below. `others`: time of the other busy lanes' passes during each pass, in any unit,
    /// averaged over `other_lanes`, NaN if unknown; may be empty.
    void finish(std::vector<double> others = {}, int other_lanes = 1);

    /// Scales all times to the mean of the lanes: the measured lane and those with the given mean passes, in ns. On a
    /// machine whose cores differ in speed for seconds, all lanes together give a better estimate. Call after finish().
    void average_with(const std::vector<double>& other_lanes);

    double forward_ns(std::size_t layer) const { return scale_ * forward_.mean(layer); }
    double recompute_ns(std::size_t layer) const { return scale_ * recompute_.mean(layer); }
    double backward_ns(std::size_t layer) const { return scale_ * backward_.mean(layer); }
    /// The part of backward_ns that its second half takes. Both halves are measured together and scaled to the whole
    /// backwards of all layers, since they ran at another time.
    double backward_weight_ns(std::size_t layer) const;
    double loss_ns() const { return scale_ * loss_.mean(0); }
    double pass_ns() const { return scale_ * pass_.mean(0); }
    double forward_cv(std::size_t layer) const { return forward_.coefficient_of_variation(layer); }
    double backward_cv(std::size_t layer) const { return backward_.coefficient_of_variation(layer); }
    /// Repeats::common_variation of forward and backward together, weighted by their share of the time.
    double step_cv() const;
    /// lane_variation of the passes; at most step_cv.
    double lane_cv() const;

private:
    Repeats forward_;
    Repeats recompute_;
    Repeats backward_;
    Repeats weights_;
    Repeats halves_;
    Repeats loss_;
    Repeats pass_;
    std::vector<double> others_;
    int other_lanes_ = 1;
    double scale_ = 1;
};
}  // namespace pipescope
