#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pipescope {
/// Models without values: tensors on torch's meta device have a shape and a type but no memory. A model of any size can
/// be created and run instantly.
///
/// C++ torch has no default device and no module->to(meta), so a dispatcher fallback redirects every call that names a
/// device to meta. It uses a dispatch key that torch reserves for deferred initialisation and does not use itself.
///
/// While a MetaDevice lives, tensors created by this thread are on the meta device. The first one in the process adds
/// operators that C++ torch lacks there, such as convolution and batch norm. Reading a value of such a tensor throws
/// torch's error. Threading: belongs to the creating thread. Nestable.
class MetaDevice {
public:
    MetaDevice();
    ~MetaDevice();
    MetaDevice(const MetaDevice&) = delete;
    MetaDevice& operator=(const MetaDevice&) = delete;

private:
    bool was_on_;
};

/// All layers of the model on the meta device, ready for a forward of meta_batch(). Exceptions of a factory pass
/// unchanged.
std::vector<std::unique_ptr<Layer>> meta_layers(const ModelSpec& model);

/// Shapes and types of a batch of that many samples. Really creates one sample to learn them. Throws UsageError for a
/// batch below 1 or a model without make_batch.
Batch meta_batch(const ModelSpec& model, std::int64_t batch);
}  // namespace pipescope
