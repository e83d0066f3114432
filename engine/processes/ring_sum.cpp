// The ring all-reduce. The values are cut into as many chunks as there are processes. In each of size - 1 rounds a
// process adds what comes from the previous one to a chunk and then passes that chunk on; after them it holds the whole
// sum of one chunk. In as many rounds more, the sums go around.

#include "engine/processes/ring_sum.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <cstddef>
#include <span>
#include <vector>

namespace pipescope {
namespace {
std::span<std::byte> bytes_of(const at::Tensor& tensor) {
    return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}
}  // namespace

bool ring_sum(Connections& connections, const RingPlace& place, int tag, const at::Tensor& values) {
    const at::NoGradGuard no_grad;
    const int size = place.size;
    std::vector<at::Tensor> chunks;
    for (int k = 0; k < size; ++k) {
        const std::int64_t from = values.numel() * k / size;
        chunks.push_back(values.narrow(0, from, values.numel() * (k + 1) / size - from));
    }
    const auto exchange = [&](const at::Tensor& sent, const at::Tensor& received) {
        Transfer in = connections.receive(bytes_of(received), place.previous, tag);
        Transfer out = connections.send(bytes_of(sent), place.next, tag);
        return in.wait() && out.wait();
    };
    const auto chunk = [&](int number) -> at::Tensor& {
        return chunks[static_cast<std::size_t>((number % size + size) % size)];
    };
    for (int round = 0; round + 1 < size; ++round) {
        at::Tensor& mine = chunk(place.position - round - 1);
        const at::Tensor received = at::empty_like(mine);
        if (!exchange(chunk(place.position - round), received)) {
            return false;
        }
        mine.add_(received);
    }
    for (int round = 0; round + 1 < size; ++round) {
        if (!exchange(chunk(place.position + 1 - round), chunk(place.position - round))) {
            return false;
        }
    }
    return true;
}
}  // namespace pipescope
