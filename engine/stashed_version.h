#pragma once

#include "engine/layer.h"
#include "engine/skips.h"

#include <cstdint>

namespace pipescope {
/// What a skip was when its partition handed it on.
///
/// Torch would let a layer between stash and pop change the tensor in place, and take the gradient of both through the
/// change. Here the two ends are different tensors of one storage, so the popping lane would see the changed values and
/// autograd would not know. Where the skip was copied on its way, it is another storage, and nothing is compared.
class StashedVersion {
public:
    StashedVersion();
    explicit StashedVersion(const at::Tensor& tensor);

    /// With gradients on, throws EngineError where the tensor, of the same storage, was changed since.
    void check(const at::Tensor& popped, const SkipName& name) const;

private:
    c10::weak_intrusive_ptr<c10::StorageImpl> storage_;  // weak: holds no bytes, and its address is not used again
    std::uint32_t version_ = 0;
};
}  // namespace pipescope
