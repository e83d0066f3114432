#pragma once

#include "schedule/ids.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace pipescope {
class GPipe;

/// Throws UsageError unless a run can use an optimizer of that name: sgd, momentum (SGD with 0.9), adam or adamw.
void check_optimizer(const std::string& name);

/// One optimizer for each lane, over the parameters of its partitions, so that its state is charged to the lane that
/// would hold it and each lane's share is a task of its own.
/// Threading: one thread, between the steps of the model.
class LaneOptimizers {
public:
    /// Throws as check_optimizer does.
    LaneOptimizers(const GPipe& model, const std::string& name, double learning_rate);

    /// Updates the parameters, as tasks of kind optimizer of that step.
    void step(std::int32_t step);
    /// In place: gradients stay allocated, as in the steady state that is profiled.
    void zero_grad();

private:
    struct OfLane {
        LaneId lane;
        PartitionId partition;  // the lane's first: its tasks carry it
        std::shared_ptr<torch::optim::Optimizer> optimizer;
    };
    std::vector<OfLane> lanes_;  // those with parameters
};
}  // namespace pipescope
