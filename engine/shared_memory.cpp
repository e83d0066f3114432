#include "engine/shared_memory.h"

#include "engine/engine_error.h"
#include "engine/pipeline.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// A parameter with the addresses of its memory, or of its gradient's.
struct MemoryUse {
    std::uintptr_t begin;
    std::uintptr_t end;
    const Partition* partition;
    at::Tensor parameter;
};

/// The addresses from the first element to the last. Those in between may belong to others.
std::pair<std::uintptr_t, std::uintptr_t> addresses_of(const at::Tensor& tensor) {
    if (!tensor.has_storage()) {
        const auto itself = reinterpret_cast<std::uintptr_t>(tensor.unsafeGetTensorImpl());
        return {itself, itself + 1};
    }
    if (tensor.numel() == 0) {
        return {};
    }
    std::int64_t last = 0;
    for (std::int64_t k = 0; k < tensor.dim(); ++k) {
        last += (tensor.size(k) - 1) * tensor.stride(k);
    }
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
    return {begin, begin + static_cast<std::uintptr_t>((last + 1) * static_cast<std::int64_t>(tensor.itemsize()))};
}

/// The addresses of the whole storage.
std::pair<std::uintptr_t, std::uintptr_t> addresses_of_storage(const at::Tensor& tensor) {
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.storage().data());
    return {begin, begin + tensor.storage().nbytes()};
}

bool has_memory_of_its_own(const at::Tensor& tensor) {
    return tensor.use_count() == 1 && (!tensor.has_storage() || tensor.storage().use_count() == 1);
}

std::string parameter_name(const MemoryUse& used) {
    for (const auto& [name, tensor] : used.partition->named(&Layer::parameters)) {
        if (tensor.is_same(used.parameter)) {
            return name;
        }
    }
    return "a parameter";
}

/// "0.weight on lane 0 and 2.weight on lane 1", of the first two on unlike lanes that share an address.
std::optional<std::string> shared_by_lanes(const Pipeline& pipeline, std::vector<MemoryUse> all) {
    std::erase_if(all, [](const MemoryUse& each) { return each.begin == each.end; });
    std::sort(all.begin(), all.end(), [](const MemoryUse& a, const MemoryUse& b) { return a.begin < b.begin; });
    const auto lane = [&](const MemoryUse& used) { return pipeline.lane_of(used.partition->id()); };
    for (std::size_t k = 0; k < all.size(); ++k) {
        for (std::size_t next = k + 1; next < all.size() && all[next].begin < all[k].end; ++next) {
            const bool is_written = all[k].parameter.requires_grad() || all[next].parameter.requires_grad();
            if (is_written && lane(all[next]) != lane(all[k])) {
                const auto text = [&](const MemoryUse& used) {
                    return parameter_name(used) + " on lane " + std::to_string(lane(used).value());
                };
                return text(all[k]) + " and " + text(all[next]);
            }
        }
    }
    return std::nullopt;
}
}  // namespace

void refuse_shared_gradients(const Pipeline& pipeline) {
    std::vector<MemoryUse> all;
    for (const Partition& partition : pipeline.partitions()) {
        for (const at::Tensor& parameter : partition.parameters()) {
            if (!parameter.defined() || !parameter.requires_grad()) {
                continue;
            }
            const at::Tensor& gradient = parameter.grad();
            if (gradient.defined() && !has_memory_of_its_own(gradient)) {
                const auto [begin, end] = addresses_of(gradient);
                all.push_back({begin, end, &partition, parameter});
            }
        }
    }
    if (const auto shared = shared_by_lanes(pipeline, std::move(all))) {
        throw UsageError("the gradients of " + *shared +
                         " share memory, and lanes add to their gradients at the same time; give each parameter a "
                         ".grad of its own, or put both on one lane");
    }
}

void refuse_shared_weights(const Pipeline& pipeline) {
    std::vector<MemoryUse> all;
    for (const Partition& partition : pipeline.partitions()) {
        for (const at::Tensor& parameter : partition.parameters()) {
            if (!parameter.defined()) {
                continue;
            }
            // Views of one buffer that share its version look changed once one of them is updated.
            const bool has_own_version = parameter.unsafeGetTensorImpl()->version_counter().unique();
            const auto [begin, end] =
                has_own_version || !parameter.has_storage() ? addresses_of(parameter) : addresses_of_storage(parameter);
            all.push_back({begin, end, &partition, parameter});
        }
    }
    if (const auto shared = shared_by_lanes(pipeline, std::move(all))) {
        throw UsageError(
            "train_staggered is called where the parameters " + *shared +
            " share memory, or the version of one buffer; a lane updates its parameters while others compute; "
            "give each its own memory, "
            "or use step(), which updates after all lanes are done");
    }
}
}  // namespace pipescope
