#pragma once

#include <algorithm>

namespace pipescope {
/// Replicas sum this many bytes of a partition's gradients at once.
inline constexpr Bytes kAllReduceBucket = Bytes{25} << 20;

/// Host memory for the sum of that many bytes of gradients: the bucket, and the received share of one replica.
constexpr Bytes all_reduce_bytes(Bytes gradients, int replicas) {
    const Bytes bucket = std::min(gradients, kAllReduceBucket);
    return replicas > 1 ? bucket + (bucket + replicas - 1) / replicas : 0;
}
}  // namespace pipescope
