#pragma once

#include <algorithm>

namespace pipescope {
/// Replicas sum this many bytes of a partition's gradients at once.
inline constexpr Bytes kAllReduceBucket = Bytes{25} << 20;

/// Host memory that summing that many bytes of gradients takes: the bucket, and one replica's share of it that arrives.
constexpr Bytes all_reduce_bytes(Bytes gradients, int replicas) {
    const Bytes bucket = std::min(gradients, kAllReduceBucket);
    return replicas > 1 ? bucket + (bucket + replicas - 1) / replicas : 0;
}
}  // namespace pipescope
