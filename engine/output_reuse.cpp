#include "engine/output_reuse.h"

#include "engine/engine_error.h"
#include "engine/partition.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// One past the last byte.
const void* end_of(const at::Tensor& tensor) {
    std::int64_t last = 0;
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
        last += (tensor.size(d) - 1) * tensor.stride(d);
    }
    const auto bytes = (last + 1) * static_cast<std::int64_t>(tensor.element_size());
    return static_cast<const char*>(tensor.const_data_ptr()) + bytes;
}
}  // namespace

void OutputReuse::check(const Partition& partition, MicroBatchId micro_batch, const Tensors& outputs) {
    const std::size_t num_before = entries_.size();
    for (const at::Tensor& output : outputs) {
        if (!output.defined() || output.layout() != at::kStrided || output.is_inference() || output.numel() == 0 ||
            !output.has_storage() || output.is_meta()) {
            continue;
        }
        const auto* const storage = output.storage().unsafeGetStorageImpl();
        const void* const begin = output.const_data_ptr();
        const void* const end = end_of(output);
        const std::less<const void*> is_before;
        const auto is_overwritten = [&](const Entry& each) {
            return each.storage._unsafe_get_target() == storage && is_before(begin, each.end) &&
                   is_before(each.begin, end) && each.counter.current_version() != each.version;
        };
        const auto first = entries_.begin();
        const auto last = first + static_cast<std::ptrdiff_t>(num_before);
        const auto found = std::find_if(first, last, is_overwritten);
        if (found != last) {
            throw LayerError("partition " + std::to_string(partition.id().value()) + " (" + partition.name() +
                             ") returns for micro-batch " + std::to_string(micro_batch.value()) +
                             " memory that it returned for micro-batch " + std::to_string(found->micro_batch.value()) +
                             ", and has changed it since; other lanes may still read it; return a new tensor each "
                             "time, as clone() makes one");
        }
        const c10::VariableVersion& counter = torch::autograd::impl::version_counter(output);
        entries_.push_back(
            {micro_batch, output.storage().getWeakStorageImpl(), begin, end, counter, counter.current_version()});
    }
}
}  // namespace pipescope
