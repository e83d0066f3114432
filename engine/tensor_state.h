#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pipescope {
/// Number of in-place changes of a tensor; 0 if torch does not count them.
inline std::uint32_t version_of(const at::Tensor& tensor) {
    return tensor.defined() && !tensor.is_inference() ? static_cast<std::uint32_t>(tensor._version()) : 0;
}

/// True if something besides this handle refers to the tensor, or to its memory.
inline bool is_held_elsewhere(const at::Tensor& tensor) {
    return tensor.defined() && (tensor.use_count() > 1 || (tensor.has_storage() && tensor.storage().use_count() > 1));
}
}  // namespace pipescope
