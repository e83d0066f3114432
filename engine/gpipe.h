#pragma once

#include "engine/engine_error.h"
#include "engine/layer.h"
#include "schedule/balance.h"
#include "schedule/checkpoint.h"
#include "schedule/ids.h"
#include "schedule/schedules.h"
#include "schedule/task_key.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::nn {
class SequentialImpl;
class Sequential;
}  // namespace torch::nn

namespace pipescope {
class TaskObserver;

/// How a loss function puts its samples' losses together. Schedules that compute the loss of each micro-batch need to
/// know: a mini-batch's mean is the micro-batches' means, weighted by their samples; a sum is their sum.
enum class Reduction { mean, sum };

struct GPipeOptions {
    std::vector<std::int64_t> balance = {};  ///< layers per partition; must sum to the number of layers
    std::vector<std::string> devices = {};   ///< lane k is the k-th entry: {"cpu", "cpu"} is two lanes on the host
    std::int64_t chunks = 1;                 ///< micro-batches asked for; m = min(chunks, batch)
    Checkpoint checkpoint = Checkpoint::except_last;
    /// In which order step() runs. All but gpipe compute the loss of each micro-batch, inside; forward() cannot.
    Schedule schedule = Schedule::gpipe;
    /// Lane of each partition. Empty: partition j on lane j, or with the schedule interleaved on lane j mod devices.
    std::vector<std::int64_t> placement = {};
    Reduction reduction = Reduction::mean;
    bool deferred_batch_norm = false;  ///< running statistics of mini-batches, not of micro-batches
    std::uint64_t seed = 0;            ///< of the random numbers drawn inside layers
    TaskObserver* observer = nullptr;  ///< not owned; must outlive the model
};

/// Where the last failing task stood.
struct Failure {
    TaskKey task;
    LaneId lane;
    LayerId layer;
    std::string layer_name;
};

/// Pipeline-parallel training of a sequential model by GPipe, on the lanes of `devices`.
///
/// Usage:
///     GPipe model(spec, {.balance = {2, 2}, .devices = {"cpu", "cpu"}, .chunks = 8});
///     auto output = model.forward(input);                 // then loss.backward() as usual, or
///     auto loss = model.step(input, target, loss_fn);     // forward, loss and backward inside the schedule
///
/// Shapes: the first dimension of every input is the mini-batch; all inputs agree in it.
/// Threading: one caller at a time. Lanes are worker threads owned by the model; they end with it.
/// Errors: BalanceError, UsageError, EngineError for what is asked wrongly; a layer's exception reaches the caller
/// unchanged, the first in schedule order, and the model can be used again.
/// Source: torchgpipe (arXiv 2004.09910), section 3; backward is scheduled here, not discovered by autograd.
class GPipe {
public:
    using LossFunction = std::function<at::Tensor(const Tensors& output, const Tensors& target)>;

    GPipe(const ModelSpec& model, GPipeOptions options);
    GPipe(const std::vector<LayerSpec>& layers, GPipeOptions options);
    /// Takes the children of a ready module; its parameters are shared, not copied.
    GPipe(torch::nn::Sequential module, GPipeOptions options);
    ~GPipe();
    GPipe(GPipe&&) noexcept;
    GPipe& operator=(GPipe&&) noexcept;

    /// The pipeline as one node of the caller's graph: call backward() on a loss of the output as usual.
    Tensors forward(const Tensors& input);
    at::Tensor forward(const at::Tensor& input);
    /// Forward, the loss on the gathered output, and backward; gradients are added to the parameters' .grad.
    /// Returns the loss, detached.
    at::Tensor step(const Tensors& input, const Tensors& target, const LossFunction& loss);
    at::Tensor step(const at::Tensor& input, const at::Tensor& target,
                    const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& loss);

    /// In layer order, the same tensors as long as the model lives.
    std::vector<at::Tensor> parameters() const;
    /// Keys are those of the plain Sequential ("3.weight"), so they fit any balance.
    NamedTensors named_parameters() const;
    NamedTensors named_buffers() const;
    void train(bool on = true);
    void to(at::ScalarType dtype);
    void zero_grad();

    const Balance& balance() const;
    const std::vector<std::string>& devices() const;
    std::int64_t chunks() const;
    Checkpoint checkpoint() const;
    std::size_t num_layers() const;
    /// The number the next step's tasks carry in their TaskKey; counts up with every forward that trains.
    std::int32_t next_step() const;
    std::optional<Failure> last_failure() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
