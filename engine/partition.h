#pragma once

#include "engine/deferred_batch_norm.h"
#include "engine/layer.h"
#include "engine/skip_layout.h"
#include "schedule/ids.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A layer of the model with the name that messages and failures give it, and the prefix of its parameters' keys.
struct ModelLayer {
    std::string name;
    std::string key;
    std::unique_ptr<Layer> layer;
};

/// What the random numbers of a micro-batch's forward follow from, the layer apart.
struct RandomPlace {
    std::uint64_t seed = 0;
    std::int64_t step = 0;
    MicroBatchId micro_batch;
};

/// Consecutive layers, run as one. Its inputs are the skips that come in, by PartitionSkips::incoming, then what the
/// partition before returned; its outputs the skips that leave, by PartitionSkips::outgoing, then what the last layer
/// returned. A skip may be an undefined tensor.
/// Threading: one thread at a time, that of its lane.
class Partition {
public:
    Partition(PartitionId id, LayerId first, std::vector<ModelLayer> layers, PartitionSkips skips);

    PartitionId id() const noexcept { return id_; }
    LayerRange range() const noexcept { return {first_, LayerId{first_.value() + std::int64_t(layers_.size())}}; }
    const std::vector<ModelLayer>& layers() const noexcept { return layers_; }
    std::vector<ModelLayer>& layers() noexcept { return layers_; }
    /// "conv", or "conv..relu" for several layers
    std::string name() const;
    const PartitionSkips& skips() const noexcept { return skips_; }

    /// Runs the layers under the grad mode of the thread. Sets `running` to each layer before it starts, so that the
    /// caller knows which one threw. Throws LayerError where a layer returns no tensors or changes the inputs in place.
    Tensors forward(Tensors inputs, const RandomPlace& place, LayerId& running);
    /// The same again, without a trace in the buffers that a forward changes: they have seen the micro-batch already.
    Tensors recompute(Tensors inputs, const RandomPlace& place, LayerId& running);

    /// From now on batch norms track mini-batches, not micro-batches.
    void defer_batch_norm();
    /// Around the forwards of a mini-batch, in the order of its micro-batches.
    void begin_mini_batch();
    void end_mini_batch();

    const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
    /// Whether any parameter asks for a gradient.
    bool trains() const;
    /// Those that do.
    std::vector<at::Tensor> trained_parameters() const;

private:
    Tensors run(Tensors values, const RandomPlace& place, LayerId& running);
    Tensors forward_checked(Tensors inputs, const RandomPlace& place, LayerId& running);
    void find_changed_buffers(const std::vector<std::uint32_t>& versions_before);

    PartitionId id_;
    LayerId first_;
    std::vector<ModelLayer> layers_;
    PartitionSkips skips_;
    std::vector<at::Tensor> parameters_;
    std::vector<at::Tensor> statistics_;     // buffers that a forward changes
    std::vector<at::Tensor> other_buffers_;  // that no forward has changed so far
    std::optional<DeferredBatchNorm> deferred_;
};
}  // namespace pipescope
