#pragma once

#include "engine/step/by_cell.h"
#include "engine/step/step_messages.h"

#include <cstddef>
#include <string>
#include <vector>

namespace pipescope {
/// The messages of a step whose lanes are in several processes, or that has replicas: what LaneChannels carries, and
/// where it comes from and goes to in the step.
class RankMessages final : public StepMessages {
public:
    explicit RankMessages(const RunningStep& step);

    void begin(StepHalves halves) override;
    void end(const at::Tensor& loss) override;
    at::Tensor loss_for_caller(const at::Tensor& loss) override;

    void note(const TaskKey& key) override { channels_.processes().note(key); }
    SharedElsewhere shared_inputs(Cell at, const Tensors& inputs) override;
    void mark_shared(Cell at, const Tensors& outputs, const SharedElsewhere& inputs) override;
    void send(TaskIndex copy) override;
    void loss_computed(const at::Tensor& loss, bool is_whole) override;
    void reduce(LaneId lane, const std::vector<at::Tensor>& parameters, Tensors& gradients) override;

    bool has_told() const override;
    void fail(const std::string& where) override { channels_.processes().fail_by_exception(where); }
    std::string cause() const override { return channels_.processes().failure().value(); }

private:
    /// Of the inputs of a task (i, j): 1 if it shares memory with what went to another process.
    struct Shares {
        std::vector<char> skips;   // by place, of routes that begin on this partition's lane or arrive at it first
        std::vector<char> inputs;  // may be shorter
    };

    void share_loss(const at::Tensor& loss);
    void deliver(const TaskKey& copy, const ReceivedMessage& message);
    bool has_replicas() const { return step_.graph.shape().replicas > 1; }
    PartitionId last_partition() const { return step_.pipeline.partitions().back().id(); }
    char& share_of_skip(MicroBatchId i, std::size_t route);

    const RunningStep step_;
    LaneChannels& channels_;
    const std::size_t num_micro_batches_;
    ByCell<Shares> shares_;
    std::size_t num_losses_ = 0;  // computed here so far
    at::Tensor total_loss_;       // of all replicas, where the last partition is
    at::Tensor received_loss_;    // elsewhere
};
}  // namespace pipescope
