#pragma once

#include "engine/layer.h"
#include "engine/skips.h"

#include <cstdint>

namespace pipescope {
/// The version of a skip when its partition passed it on.
///
/// In plain torch, a layer between stash and pop may change the tensor in place, and both gradients pass through the
/// change. Here the two ends are different tensors of one storage, so the popping lane would see the changed values
/// without autograd knowing. If the skip was copied, it has another storage, and nothing is compared.
class StashedVersion {
public:
    StashedVersion();
    explicit StashedVersion(const at::Tensor& tensor);

    /// With gradients on, throws EngineError if the tensor still has the same storage and was changed since.
    void check(const at::Tensor& popped, const SkipName& name) const;

private:
    c10::weak_intrusive_ptr<c10::StorageImpl> storage_;  // weak: holds no bytes, but its address is not reused
    std::uint32_t version_ = 0;
};
}  // namespace pipescope
