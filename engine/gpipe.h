#pragma once

#include "base/ids.h"
#include "engine/engine_error.h"
#include "engine/engine_options.h"
#include "engine/layer.h"
#include "schedule/balance.h"
#include "schedule/checkpoint.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch {
namespace nn {
class SequentialImpl;
class Sequential;
}  // namespace nn
namespace serialize {
class InputArchive;
class OutputArchive;
}  // namespace serialize
}  // namespace torch

namespace pipescope {
class TaskGraph;

/// Describes a layer of a model.
struct LayerInfo {
    LayerId id;
    std::string name;
    std::string key;  ///< prefix of its parameters' names, as in the plain Sequential: "3"
    PartitionId partition;
    Layer* layer;  ///< not owned; lives as long as the model
};

/// Describes a layer whose weight gradients could not all be computed separately, in a schedule that splits the
/// backward.
struct UnsplitLayer {
    LayerId id;
    std::string name;
    bool in_part = false;  ///< other weight gradients of it were computed separately
    /// Autograd's nodes that computed gradients of weights together with those of activations, such as
    /// "NativeBatchNormBackward0"; ascending.
    std::vector<std::string> nodes;
};

/// Describes a partition of a model.
struct PartitionInfo {
    PartitionId id;
    LayerRange layers;
    LaneId lane;
    std::string device;
    bool is_here = true;  ///< false: another process runs it
};

/// Pipeline-parallel training of a sequential model by GPipe, on the lanes of `devices`.
///
/// Usage:
///     GPipe model(spec, {.balance = {2, 2}, .devices = {"cpu", "cpu"}, .chunks = 8});
///     auto output = model.forward(input);                 // then loss.backward() as usual, or
///     auto loss = model.step(input, target, loss_fn);     // forward, loss and backward inside the schedule
///
/// Shapes: the first dimension of every input is the mini-batch; all must agree in it. Outputs are concatenated along
/// their first dimension. GPipeOptions::split says so where that differs. A model without layers is the identity: give
/// it an empty balance. Threading: one caller at a time. Lanes are worker threads owned by the model; they end with it.
/// Errors: BalanceError, UsageError and EngineError for wrong use. A layer's exception reaches the caller unchanged,
/// the first in schedule order, and the model stays usable. (In loss.backward(), one that is no std::exception becomes
/// an EngineError.) A moved-from model throws UsageError from every method.
///
/// Several processes (GPipeOptions::processes): all build the same model with the same options, and call the same
/// functions. Each keeps its own lanes' layers only: other layers have no parameters here, and parameters(),
/// state_dict() and load_state_dict() cover its own. step() takes the input where partition 0 is and the target where
/// the last partition is, ignores them elsewhere, and returns the loss everywhere: without replicas, on the last
/// partition's device in its process; otherwise on the host. forward() runs under no_grad and returns the output where
/// the last partition is, nothing elsewhere. With replicas, each pipeline's step() takes its own samples; gradients and
/// loss are those of all samples together, by the options' reduction, and random numbers those of one pipeline that has
/// the replicas' micro-batches one after the other. The first failure of any process ends the group: it reaches its own
/// caller unchanged, and the other processes' callers as a ProcessError.
///
/// exit() may be called while other threads run models: each stops for good after its current task, without running
/// destructors.
/// Source: torchgpipe (arXiv 2004.09910), section 3; backward is scheduled here, not discovered by autograd.
class GPipe {
public:
    using LossFunction = pipescope::LossFunction;

    GPipe(const ModelSpec& model, GPipeOptions options);
    GPipe(const std::vector<LayerSpec>& layers, GPipeOptions options);
    /// Takes the children of an existing module; its parameters are shared, not copied. A template, so that layers in
    /// braces are never taken for a module that they could make.
    template <std::same_as<torch::nn::Sequential> Module>
    GPipe(Module module, GPipeOptions options);
    ~GPipe();
    GPipe(GPipe&&) noexcept;
    GPipe& operator=(GPipe&&) noexcept;

    /// The pipeline as one node of the caller's graph, in eval mode too: call backward() on a loss of the output.
    Tensors forward(const Tensors& input);
    at::Tensor forward(const at::Tensor& input);
    /// Runs forward, the loss on the gathered output, and backward. Adds to the parameters' .grad and continues into
    /// the input's own graph. With a schedule that needs the loss inside, calls `loss` for each micro-batch with its
    /// part of the target. Returns the loss of the mini-batch, detached.
    at::Tensor step(const Tensors& input, const Tensors& target, const LossFunction& loss);
    at::Tensor step(const at::Tensor& input, const at::Tensor& target,
                    const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& loss);

    /// Trains with staggered updates: each lane updates its own parameters when it has finished its tasks of a step,
    /// and continues with the next step while other lanes still run this one. So the pipeline fills and drains once for
    /// all steps. Losses and parameters equal bit for bit those of step() followed by updates of all lanes. Throws
    /// UsageError for several processes or replicas, an input that requires a gradient, the driver autograd, and lanes
    /// on an accelerator. Clipping by a global norm and loss scaling need all lanes' gradients at once; use step(). An
    /// exception of `next` or `done` reaches the caller once the steps that have begun are done. An exception in a step
    /// ends it and the next one. All steps before it are done; in this step some lanes may have updated their
    /// parameters, so continue from a saved state. The gradients are undefined then; call zero_grad().
    void train_staggered(const StaggeredTraining& training);

    /// Scales the gradients of all parameters so that their norm is at most `max_norm`: what
    /// torch::nn::utils::clip_grad_norm_ does to the plain model. `norm_type`: 2, infinity or another p. Collective in
    /// several processes, where it has the gradients of all lanes: call it on every rank, after step(). With replicas,
    /// which hold equal gradients, each parameter counts once. Returns the norm before, without dimensions: of all
    /// gradients, on every rank; in several processes on the host, otherwise on the first parameter's device. Throws
    /// EngineError, on every rank, if the norm is infinite or nan and `error_if_nonfinite` is set, and UsageError or
    /// ProcessError if another rank calls something else.
    at::Tensor clip_grad_norm_(double max_norm, double norm_type = 2.0, bool error_if_nonfinite = false);
    /// Collective in several processes: true on every rank if `here` is true on any. For the scaling of losses: if a
    /// gradient of one rank is infinite, all skip the update.
    bool any_process(bool here);

    /// In layer order; the same tensors for the model's lifetime.
    std::vector<at::Tensor> parameters() const;
    /// Keys are those of the plain Sequential ("3.weight"), so they fit any balance.
    NamedTensors named_parameters() const;
    NamedTensors named_buffers() const;
    /// Parameters, then buffers, by the keys of the plain Sequential.
    NamedTensors state_dict() const;
    /// Copies the values into this model's tensors, all or none. Throws EngineError if a key is missing or unknown, or
    /// if a shape differs.
    void load_state_dict(const NamedTensors& state);
    /// For torch::save(model, file) and torch::load(model, file). The file has the plain Sequential's format: it can be
    /// exchanged with one, and between balances. load() throws as load_state_dict() does.
    void save(torch::serialize::OutputArchive& archive) const;
    void load(torch::serialize::InputArchive& archive);

    /// Takes the layers' parameters and buffers again. Call it after a layer has replaced some by other tensors, and
    /// not between a forward and its backward.
    void list_tensors();

    /// Replaces GPipeOptions::split from the next call on.
    void set_split(MiniBatchSplit split);

    void train(bool on = true);
    void eval() { train(false); }
    bool is_training() const;
    void to(at::ScalarType dtype);
    /// Throws UsageError: partitions live on the devices of GPipeOptions.
    [[noreturn]] void to(at::Device device);
    void zero_grad();

    /// The layers in order, also usable as for (const LayerInfo& layer : model).
    const std::vector<LayerInfo>& layers() const;
    std::size_t size() const { return layers().size(); }
    /// Throws UsageError past the last layer.
    const LayerInfo& operator[](std::size_t layer) const;
    std::vector<LayerInfo>::const_iterator begin() const { return layers().begin(); }
    std::vector<LayerInfo>::const_iterator end() const { return layers().end(); }
    const std::vector<PartitionInfo>& partitions() const;
    /// The task graph of a step of that many samples.
    std::shared_ptr<const TaskGraph> task_graph(std::int64_t batch) const;

    /// Number of the pipeline that this process is part of (GPipeOptions::replicas); 0 is the first.
    int replica() const;
    const Balance& balance() const;  ///< {1} for a model without layers
    const std::vector<std::string>& devices() const;
    std::int64_t chunks() const;
    Checkpoint checkpoint() const;
    std::size_t num_layers() const { return size(); }
    /// The step number in the next step's TaskKeys. step() counts, and so does forward() with gradients in train().
    std::int32_t next_step() const;
    /// Continues the count of an earlier training: random numbers inside layers then continue its own. Throws
    /// UsageError for a negative number.
    void set_next_step(std::int32_t step);
    std::optional<Failure> last_failure() const;
    /// This process's layers whose weight gradients were not all computed separately, in layer order. Empty unless a
    /// step has split the backward.
    std::vector<UnsplitLayer> unsplit_layers() const;

private:
    struct Impl;
    Impl& impl() const;

    std::unique_ptr<Impl> impl_;  // null once moved from
};

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive, const GPipe& model);
torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, GPipe& model);
}  // namespace pipescope
