#pragma once

#include "base/ids.h"
#include "engine/driver.h"
#include "engine/layer.h"
#include "schedule/checkpoint.h"
#include "schedule/schedules.h"
#include "schedule/task_key.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
class Processes;
class TaskObserver;

/// How a loss function reduces its samples' losses. Schedules that compute the loss of each micro-batch need it: the
/// mean of a mini-batch is the mean of the micro-batches' means, weighted by their samples; a sum is the sum of their
/// sums.
enum class Reduction { mean, sum };

/// How the micro-batches get their parts of one tensor of a mini-batch.
struct TensorSplit {
    /// The dimension of the samples, along which the tensor is cut. Nothing: each micro-batch gets the whole tensor,
    /// and the tensor's gradient is the sum of the micro-batches'.
    std::optional<std::int64_t> dimension = 0;
    /// If set, makes the part of the samples [first, end) from the whole tensor instead. Called on the caller's thread,
    /// before the step begins. Such a tensor cannot require a gradient.
    std::function<at::Tensor(const at::Tensor& whole, std::int64_t first, std::int64_t end)> make = {};
};

/// How mini-batches are cut into micro-batches. Tensors without an entry are cut along dimension 0.
struct MiniBatchSplit {
    std::vector<TensorSplit> input = {};    ///< by position
    std::vector<TensorSplit> target = {};   ///< by position; for schedules that compute the loss of each micro-batch
    std::vector<std::int64_t> output = {};  ///< by position: the dimension along which outputs are concatenated
};

struct GPipeOptions {
    std::vector<std::int64_t> balance = {};  ///< layers per partition; must sum to the number of layers
    std::vector<std::string> devices = {};   ///< lane k is the k-th entry: {"cpu", "cpu"} is two lanes on the host
    std::int64_t chunks = 1;                 ///< requested micro-batches; m = min(chunks, batch)
    Checkpoint checkpoint = Checkpoint::except_last;
    /// The order in which step() runs. All but gpipe compute the loss of each micro-batch inside, which forward()
    /// cannot.
    Schedule schedule = Schedule::gpipe;
    /// Lane of each partition. Empty: partition j on lane j, or as the schedule needs it; interleaved and looped_bfs
    /// deal the partitions out to the devices in turn.
    std::vector<std::int64_t> placement = {};
    Reduction reduction = Reduction::mean;
    /// For a loss that is a mean over something else than samples, such as the tokens that are no padding: how many of
    /// them the target, or a micro-batch's part of it, holds. A micro-batch's loss then counts by its weight instead of
    /// its samples, over all replicas. The loss of a micro-batch of weight 0 is not computed. Called on the caller's
    /// thread before the step begins, where the last partition is. Give it in all processes. Not with Reduction::sum.
    std::function<double(const Tensors& target)> weight = {};
    /// Parameters that are one, as tied embeddings are, by their keys in the plain Sequential: {{"0.weight",
    /// "5.weight"}}. Each layer has a tensor of its own for it. The first layer's holds the values and gets the whole
    /// gradient; it alone is among the model's parameters, and in what is saved. The others get its memory, or a copy
    /// of it at each step where they are on another device or in another process. Name them in all processes. Layers
    /// of one lane may simply hold the same tensor, without a name here.
    std::vector<std::vector<std::string>> shared = {};
    /// Inputs, targets and outputs whose samples are not their first dimension.
    MiniBatchSplit split = {};
    Driver driver = Driver::scheduled;
    AutogradParts autograd = {};
    bool deferred_batch_norm = false;  ///< running statistics of mini-batches, not of micro-batches
    std::uint64_t seed = 0;            ///< for random numbers drawn inside layers
    /// Cores that lanes on "cpu" share in turns, task by task, if lanes outnumber them (CoreScheduler). 0: all that
    /// this process may use. With as many as lanes, the operating system schedules the lanes, which suits layers that
    /// sleep or wait.
    int host_cores = 0;
    TaskObserver* observer = nullptr;  ///< not owned; must outlive the model
    /// Called on the caller's thread every 20 ms while the lanes run a forward, backward or step. If it throws, each
    /// lane stops at its next task and the exception reaches the caller; the model stays usable. For signals, such as
    /// Ctrl-C. With the driver autograd it is called during forwards only, since the caller's thread itself runs the
    /// backward.
    std::function<void()> while_waiting = {};
    /// Called in a lane's thread while it handles the exception that a task has thrown, before another thread sees it.
    /// Must not throw. For languages whose exceptions lie in the thread. Not with the driver autograd.
    std::function<void()> on_exception = {};
    /// The processes that run the lanes together; null: this one runs them all. See "Several processes" at GPipe.
    std::shared_ptr<Processes> processes = nullptr;
    /// Number of equal pipelines, each with its own share of the processes and of the samples; must divide both.
    int replicas = 1;
    /// How tensors go between accelerators of different processes: "host" is through the hosts' memory, "nccl" directly
    /// by NCCL, "auto" by NCCL where both ends can. A text with a '/' is the path of another plugin library
    /// (processes/device_plugin.h).
    std::string device_messages = "host";
};

/// Location of the last failure.
struct Failure {
    TaskKey task;
    LaneId lane;
    LayerId layer;
    std::string layer_name;
};

/// Computes the loss of an output, on the lane of the last partition.
using LossFunction = std::function<at::Tensor(const Tensors& output, const Tensors& target)>;

/// The samples of one step.
struct MiniBatch {
    Tensors input;
    Tensors target;
};

/// The callbacks of GPipe::train_staggered().
struct StaggeredTraining {
    /// Returns the next step's mini-batch, or nothing to end. Called on the caller's thread, one step ahead. The
    /// tensors must not change until their step is done.
    std::function<std::optional<MiniBatch>()> next;
    /// As for step().
    LossFunction loss;
    /// Updates the parameters of a lane's partitions and clears their gradients, as by an optimizer of their own.
    /// Called on the lane's thread after its last task of each step, while other lanes run: it must not touch their
    /// parameters.
    std::function<void(LaneId)> update;
    /// Takes each step's loss, in order, on the caller's thread, once all lanes have done the step. May be empty.
    std::function<void(const at::Tensor& loss)> done = {};
};
}  // namespace pipescope
