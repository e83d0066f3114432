#include "engine/skips/stashed_version.h"

#include "engine/engine_error.h"
#include "engine/recompute_inputs.h"

#include <ATen/core/grad_mode.h>

namespace pipescope {
namespace {
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Null if there is none.
WeakStorage storage_of(const at::Tensor& tensor) {
    return tensor.defined() && tensor.has_storage() ? tensor.storage().getWeakStorageImpl()
                                                    : WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
}
}  // namespace

StashedVersion::StashedVersion() : storage_(storage_of({})) {}

StashedVersion::StashedVersion(const at::Tensor& tensor) : storage_(storage_of(tensor)), version_(version_of(tensor)) {}

void StashedVersion::check(const at::Tensor& popped, const SkipName& name) const {
    const auto* const storage = storage_._unsafe_get_target();
    if (at::GradMode::is_enabled() && storage != nullptr && storage_of(popped)._unsafe_get_target() == storage &&
        version_of(popped) != version_) {
        throw EngineError("skip '" + to_string(name) +
                          "' was changed in place by a partition between its stash and its " +
                          "pop; autograd does not know of it there; stash a clone, or use the out-of-place form");
    }
}
}  // namespace pipescope
