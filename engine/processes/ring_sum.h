#pragma once

#include "engine/processes/transport.h"

#include <ATen/core/Tensor.h>

namespace pipescope {
/// A process's place in a ring: it sends to `next` and receives from `previous`, both ranks of the connections.
struct RingPlace {
    int position = 0;
    int size = 1;
    int previous = 0;
    int next = 0;
};

/// Sums a tensor over the processes of a ring, in place: each process sends 2 (size - 1) / size of its bytes. All end
/// with the same bits. `values` is contiguous, one-dimensional and on the host.
/// Returns false, with `values` spoilt, if the transfers were canceled. Throws ConnectionLost.
/// Why not c10d's all-reduce: a thread that waits in Gloo's cannot be woken when another process has failed.
bool ring_sum(Connections& connections, const RingPlace& place, int tag, const at::Tensor& values);
}  // namespace pipescope
