#pragma once

#include "base/ids.h"
#include "engine/deferred_batch_norm.h"
#include "engine/gradients/graph_walk.h"
#include "engine/kept_buffers.h"
#include "engine/layer.h"
#include "engine/skips/skip_layout.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace pipescope {
/// A layer of the model, with its name for messages and failures and its prefix for parameters' keys.
struct ModelLayer {
    std::string name;
    std::string key;
    std::unique_ptr<Layer> layer;
    bool is_here = true;  ///< false for a placeholder of a layer that another process runs
    /// Earlier layers that hold one of this layer's parameters too.
    struct SameParameter {
        LayerId layer;
        std::string key;        ///< "5.weight", of this layer
        std::string first_key;  ///< "0.weight"
    };
    std::vector<SameParameter> same = {};
};

/// Determines the random numbers of a micro-batch's forward, together with the layer.
struct RandomPlace {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    MicroBatchId micro_batch;
};

/// Data that a checkpointed forward keeps for its recompute, besides its inputs. Free it after the backward.
struct CheckpointedForward {
    struct Form {
        bool is_defined;
        at::ScalarType dtype;
        std::vector<std::int64_t> sizes;
        bool operator==(const Form&) const = default;
    };
    KeptBuffers buffers;
    std::vector<HeldBuffers> held;  ///< by layer, before the forward
    std::vector<bool> trains;       ///< by parameter, before the forward
    std::vector<Form> outputs;
};

/// Consecutive layers, run as one. Its inputs are the incoming skips, by PartitionSkips::incoming, then the previous
/// partition's outputs. Its outputs are the outgoing skips, by PartitionSkips::outgoing, then the last layer's outputs.
/// A skip may be an undefined tensor.
/// Threading: one thread at a time, that of its lane, except for expect_gradients().
class Partition {
public:
    Partition(PartitionId id, LayerId first, std::vector<ModelLayer> layers, PartitionSkips skips);

    PartitionId id() const noexcept { return id_; }
    LayerRange range() const noexcept { return {first_, LayerId{first_.value() + std::int64_t(layers_.size())}}; }
    const std::vector<ModelLayer>& layers() const noexcept { return layers_; }
    std::vector<ModelLayer>& layers() noexcept { return layers_; }
    /// "conv", or "conv..relu" for several layers
    std::string name() const;
    /// Takes the layers' tensors again, after layers have replaced some. Call while no lane runs.
    void list_tensors();
    const PartitionSkips& skips() const noexcept { return skips_; }

    /// Runs the layers under the thread's grad mode. Tells each in CurrentTask::layer before it starts, so that the
    /// caller knows which one threw. Throws LayerError if a layer returns no tensors or changes the inputs in place.
    /// Adds to `marks`, unless it is null, where each layer begins in the graph. Fills `kept`, unless it is null, for
    /// recompute().
    Tensors forward(Tensors inputs, const RandomPlace& place, LayerMarks* marks = nullptr,
                    CheckpointedForward* kept = nullptr);
    /// Like forward(), with the buffers as that forward found them, and leaves them as they are. So are the parameters'
    /// requires_grad. Run the backward of the result while kept.buffers.copies() are exchanged. Throws EngineError if
    /// it cannot have the buffers, or if the outputs have another form.
    Tensors recompute(Tensors inputs, const RandomPlace& place, CheckpointedForward& kept, LayerMarks* marks = nullptr);

    /// Like forward(), with gradients on, for a checkpointed partition without an expected gradient: neither its
    /// parameters nor its inputs require one. Throws LayerError if its outputs require one nevertheless.
    Tensors forward_without_backward(Tensors inputs, const RandomPlace& place);

    /// The buffer or parameter that has the memory of one of the last forward's outputs; undefined if none has.
    at::Tensor keeper_of(const at::Tensor& output) const;

    /// How split backwards went so far, by layer of the partition. Empty if there was none.
    SplitNotes& split_notes() noexcept { return split_notes_; }
    const SplitNotes& split_notes() const noexcept { return split_notes_; }

    /// The layers' tensors by their keys in the plain Sequential ("3.weight"); `tensors` is &Layer::parameters or
    /// &Layer::buffers.
    NamedTensors named(NamedTensors (Layer::*tensors)() const) const;
    void train(bool on);
    void to(at::ScalarType dtype);

    /// Makes batch norms track mini-batches instead of micro-batches from now on.
    void defer_batch_norm();
    /// Call these around the forwards of a mini-batch, which run in the order of its micro-batches.
    void begin_mini_batch();
    void end_mini_batch();
    /// Call before a loss goes backward that reaches these leaves. For the rest of the mini-batch, forward() does not
    /// take a changed gradient of one of them for that of a backward() within a checkpointed forward. Any thread.
    void expect_gradients(const std::unordered_set<const c10::TensorImpl*>& leaves);

    const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
    /// These tensors are parameters of other partitions, or stand for them: they are none of this partition's own.
    void set_foreign(std::unordered_set<const c10::TensorImpl*> foreign) { foreign_ = std::move(foreign); }
    bool is_own(const at::Tensor& parameter) const { return !foreign_.contains(parameter.unsafeGetTensorImpl()); }
    /// named(&Layer::parameters) of its own ones. A tensor that several layers hold is the first one's.
    NamedTensors own_parameters() const;
    /// True if any parameter requires a gradient.
    bool trains() const;
    /// True if a gradient is expected to go through it: a parameter or an input requires one.
    bool goes_backward(const Tensors& inputs) const;
    /// Its own parameters that require a gradient.
    std::vector<at::Tensor> trained_parameters() const;

private:
    Tensors run(Tensors values, const RandomPlace& place, LayerMarks* marks);
    void note_gradients();
    /// True if one has changed, or come to be, since note_gradients(), other than by a loss.
    bool have_gradients_changed() const;
    Tensors forward_and_keep(Tensors inputs, const RandomPlace& place, LayerMarks* marks, CheckpointedForward* kept);
    std::vector<c10::VariableVersion> versions_popped_later(const Tensors& inputs) const;
    Tensors forward_checked(Tensors inputs, const RandomPlace& place, LayerMarks* marks);
    void list_buffers();
    /// By layer. Lists the buffers again if a layer has replaced one.
    std::vector<HeldBuffers> hold_buffers();
    /// False if a parameter was frozen or unfrozen since list_buffers().
    bool trains_as_listed() const;
    void refuse_unlisted(const Tensors& outputs) const;
    void check_forms(const CheckpointedForward& kept, const Tensors& outputs, MicroBatchId micro_batch);
    /// "partition 1 (conv..relu)"
    std::string title() const;

    PartitionId id_;
    LayerId first_;
    std::vector<ModelLayer> layers_;
    PartitionSkips skips_;
    std::vector<at::Tensor> parameters_;
    std::unordered_set<const c10::TensorImpl*> foreign_;  // not owned
    std::vector<bool> trains_;                            // by parameter, as listed
    std::vector<std::uint64_t> noted_gradients_;          // by parameter
    /// By parameter: a loss of this mini-batch adds to its gradient, in another thread, perhaps right now. The lock
    /// ends before that begins, so a gradient is only looked at under it and if none is expected.
    std::vector<bool> expects_gradient_;
    std::unique_ptr<std::mutex> expects_mutex_ = std::make_unique<std::mutex>();
    BufferWatch buffers_;
    std::vector<HeldBuffers> held_;  // by layer, as listed
    std::optional<DeferredBatchNorm> deferred_;
    SplitNotes split_notes_;
};
}  // namespace pipescope
