#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pipescope {
/// A model without its numbers: on torch's meta device tensors have shape and type and no memory, so that a model of
/// any size is made, and run through, at once.
///
/// C++ torch has no default device and no module->to(meta), so every call that names a device is turned to meta on its
/// way through the dispatcher. The key is one torch keeps for deferred initialisation and does not use itself.
///
/// While a MetaDevice lives, what this thread makes is on the meta device. What its operators lack there in C++, such
/// as convolution and batch norm, the first one of the process adds. Reading a value of a tensor then throws torch's
/// error. Threading: belongs to the thread that made it. They nest.
class MetaDevice {
public:
    MetaDevice();
    ~MetaDevice();
    MetaDevice(const MetaDevice&) = delete;
    MetaDevice& operator=(const MetaDevice&) = delete;

private:
    bool was_on_;
};

/// Every layer of the model on the meta device, ready for a forward of meta_batch(). What a factory throws passes
/// unchanged.
std::vector<std::unique_ptr<Layer>> meta_layers(const ModelSpec& model);

/// Shapes and types of a batch of that many samples. One sample is really made, to see what they look like.
/// Throws UsageError for a batch below 1 or a model without make_batch.
Batch meta_batch(const ModelSpec& model, std::int64_t batch);
}  // namespace pipescope
