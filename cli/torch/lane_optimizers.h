#pragma once

#include "base/ids.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace pipescope {
class GPipe;
class SavedTraining;
struct Profile;

/// Throws UsageError unless runs support the optimizer: sgd, momentum (SGD with 0.9), adam or adamw.
void check_optimizer(const std::string& name);

/// 0.001 for adam and adamw, as in torch; 0.05 for the others.
double default_learning_rate(const std::string& optimizer);

/// An optimizer of these parameters.
using MakeOptimizer = std::function<std::shared_ptr<torch::optim::Optimizer>(std::vector<at::Tensor> parameters)>;

/// One optimizer per lane over the parameters of its partitions. Its state is charged to the lane that would hold it,
/// and each lane's update is a separate task. Threading: one thread, between the model's steps; update() on the lane's
/// thread.
class LaneOptimizers {
public:
    LaneOptimizers(const GPipe& model, const MakeOptimizer& make);
    /// Throws as check_optimizer().
    LaneOptimizers(const GPipe& model, const std::string& name, double learning_rate);

    /// Updates the parameters. The tasks have kind optimizer and the given step.
    void step(std::int32_t step);
    /// Updates the parameters of one lane and zeroes their gradients, within the caller's task of kind optimizer.
    /// Threading: lanes may update simultaneously.
    void update(LaneId lane);
    /// All lanes' optimizers, for save_training().
    std::vector<torch::optim::Optimizer*> all() const;
    /// Restores the optimizers' state. Throws as SavedTraining::load().
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

/// The optimizer of an emulated model, which is never updated. It holds the bytes of state that the optimizer would
/// keep, charged to the same lanes, and takes the time that an update would take. The bytes are allocated and never
/// touched. Threading: one thread, between the model's steps; update() on the lane's thread.
class EmulatedOptimizer {
public:
    /// `profile`: for update(); null if update() is not called. Throws as check_optimizer().
    EmulatedOptimizer(const GPipe& model, const std::string& name, const Profile* profile);

    /// The first call allocates the state of all parameters with a gradient, as an optimizer's first step does.
    void hold();
    /// hold() for one lane; then waits as long as the update of its parameters takes. Within a task of kind optimizer.
    void update(LaneId lane);

private:
    struct OfLane {
        std::vector<at::Tensor> parameters;
        double update_ns = 0;
        bool is_held = false;
        std::vector<at::Tensor> state = {};
    };
    void hold(LaneId id, OfLane& lane) const;

    double state_per_byte_;
    std::map<LaneId, OfLane> lanes_;  // lanes with parameters
};
}  // namespace pipescope
