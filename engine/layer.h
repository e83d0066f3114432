#pragma once

#include "engine/skips.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch {
namespace nn {
class AnyModule;
}
namespace serialize {
class OutputArchive;
}
}  // namespace torch

namespace pipescope {
using Tensors = std::vector<at::Tensor>;
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
/// Which tensors a layer's buffers are.
using HeldBuffers = std::shared_ptr<const void>;

/// The smallest unit a balance moves: maps tensors to tensors. The first dimension of each tensor is the samples.
/// Threading: one thread at a time; the thread may change between calls.
/// Values: in a checkpointed forward, a partition's inputs must not be changed in place, since recomputing starts from
/// them; otherwise autograd's own rules hold.
class Layer {
public:
    virtual ~Layer() = default;

    virtual Tensors forward(const Tensors& inputs) = 0;
    /// Skip-aware layers override these two: the declared stashes and pops, and the forward that makes them. The engine
    /// and the plain model call only this forward.
    virtual SkipNames skips() const { return {}; }
    virtual Tensors forward_with_skips(const Tensors& inputs, SkipContext& /*skips*/) { return forward(inputs); }
    /// Names as in the plain module ("weight"); the same tensors at every call.
    virtual NamedTensors parameters() const = 0;
    virtual NamedTensors buffers() const = 0;
    /// A layer whose forward may put another tensor in a buffer's place, as Python's `self.c = self.c + 1` does,
    /// overrides these two. This one is called before each checkpointed forward, and returns the same pointer as before
    /// unless a buffer, or a parameter that does not train, has been replaced since.
    virtual HeldBuffers hold_buffers() { return nullptr; }
    /// The next recompute starts from these buffers, unless null; after it the layer has those that it has now.
    virtual void recompute_with(HeldBuffers /*buffers*/) {}
    /// Such a layer overrides this one, too: the buffer or parameter that has the memory of an output of the last
    /// forward; undefined if none has. The engine knows those that are never replaced.
    virtual at::Tensor keeper_of(const at::Tensor& /*output*/) const { return {}; }
    virtual void train(bool on) = 0;
    /// Casts floating-point parameters and buffers; the tensors of parameters() stay the same objects.
    virtual void to(at::ScalarType dtype) = 0;
    /// Writes what torch::save writes for the plain module. This default writes parameters and buffers by their names.
    virtual void save(torch::serialize::OutputArchive& archive) const;
};

/// Wraps any torch module whose forward takes one tensor (or a tuple of tensors, spread over its arguments) and returns
/// a tensor, a tuple of up to 8 tensors or a vector of them. A forward that returns something else throws LayerError.
std::unique_ptr<Layer> module_layer(torch::nn::AnyModule module);

/// A layer factory. Models come as factories because C++ can neither clone modules nor rebuild them elsewhere later.
/// `make` draws its initial weights from torch's default CPU generator.
struct LayerSpec {
    std::string name;
    std::function<std::unique_ptr<Layer>()> make;
};

struct Batch {
    Tensors input;
    Tensors target;
};

/// A model as a list of layer factories, with data and loss to train it.
struct ModelSpec {
    std::string name;
    std::vector<LayerSpec> layers;
    /// Returns a batch of that many samples; equal seeds give equal batches.
    std::function<Batch(std::int64_t batch, std::uint64_t seed)> make_batch;
    /// Scalar, mean over the samples.
    std::function<at::Tensor(const Tensors& output, const Tensors& target)> loss;
};
}  // namespace pipescope
