#pragma once

#include "schedule/ids.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace pipescope {
class GPipe;
class SavedTraining;

/// Throws UsageError unless runs support the optimizer: sgd, momentum (SGD with 0.9), adam or adamw.
void check_optimizer(const std::string& name);

/// 0.001 for adam and adamw, as in torch; 0.05 for the others.
double default_learning_rate(const std::string& optimizer);

/// One optimizer per lane over the parameters of its partitions. Its state is charged to the lane that would hold it,
/// and each lane's update is a separate task. Threading: one thread, between the steps of the model.
class LaneOptimizers {
public:
    /// Throws like check_optimizer().
    LaneOptimizers(const GPipe& model, const std::string& name, double learning_rate);

    /// Updates the parameters. The tasks have kind optimizer and the given step.
    void step(std::int32_t step);
    /// All of them, for save_training().
    std::vector<torch::optim::Optimizer*> all() const;
    /// Restores their state. Throws like SavedTraining::load().
    void load(SavedTraining& saved, const GPipe& model);
    /// Zeroes in place: gradients stay allocated, as in the profiled steady state.
    void zero_grad();

private:
    struct OfLane {
        LaneId lane;
        PartitionId partition;  // the lane's first partition, used in its tasks
        std::shared_ptr<torch::optim::Optimizer> optimizer;
    };
    std::vector<OfLane> lanes_;  // lanes with parameters
};

/// The optimizer state of an emulated model, which is never updated: the bytes that the optimizer would keep, charged
/// to the same lanes. They are allocated and never touched. Threading: one thread, between the steps of the model.
class EmulatedOptimizerState {
public:
    /// Throws like check_optimizer().
    explicit EmulatedOptimizerState(const std::string& name);

    /// The first call allocates the state of all parameters with a gradient, as an optimizer's first step does.
    void hold(const GPipe& model);

private:
    double state_per_byte_;
    bool is_held_ = false;
    std::vector<at::Tensor> state_;
};
}  // namespace pipescope
