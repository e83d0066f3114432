#include "engine/in_place_checks.h"

#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/partition.h"
#include "engine/tensor_state.h"
#include "engine/torch_internals.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// Skips come first among a partition's inputs.
std::string name_of(std::size_t input, const Partition& partition) {
    const std::string where = partition.id().value() == 0 ? "the model"
                                                          : "partition " + std::to_string(partition.id().value()) +
                                                                " (" + partition.name() + ")";
    const std::size_t num_skips = partition.skips().incoming.size();
    return input < num_skips ? "a skip that " + where + " pops"
                             : "input " + std::to_string(input - num_skips) + " of " + where;
}

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// Null if there is none.
WeakStorage storage_of(const at::Tensor& tensor) {
    return tensor.defined() && tensor.has_storage() ? tensor.storage().getWeakStorageImpl()
                                                    : WeakStorage(c10::intrusive_ptr<c10::StorageImpl>());
}

/// Null if there is none.
const void* address_of_storage(const at::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

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

RecomputeInputs::RecomputeInputs(Tensors inputs, bool trains) : inputs_(std::move(inputs)), trains_(trains) {
    for (const at::Tensor& input : inputs_) {
        versions_.push_back(version_of(input));
    }
}

Tensors RecomputeInputs::take(const Partition& partition, bool trains) {
    if (trains != trains_) {
        throw EngineError("the model was in " + std::string(trains_ ? "train" : "eval") +
                          " mode in forward and is in " + (trains ? "train" : "eval") +
                          " mode in backward; a checkpointed micro-batch is computed again, in one mode; switch back "
                          "first, go backward before you switch, or use checkpoint never");
    }
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
        if (version_of(inputs_[k]) != versions_[k]) {
            throw EngineError(name_of(k, partition) + " was changed in place between forward and backward (version " +
                              std::to_string(versions_[k]) + ", now " + std::to_string(version_of(inputs_[k])) +
                              "); a checkpointed micro-batch is computed again from its input; change a clone, go "
                              "backward first, or use checkpoint never");
        }
    }
    return std::exchange(inputs_, {});
}

ParameterVersions::ParameterVersions(const std::vector<Partition>& partitions) {
    for (const Partition& partition : partitions) {
        for (at::Tensor& parameter : partition.trained_parameters()) {
            const void* const storage = address_of_storage(parameter);
            const std::uint32_t version = version_of(parameter);
            seen_.push_back({std::move(parameter), storage, version});
        }
    }
}

void ParameterVersions::check(const std::vector<Partition>& partitions) const {
    const auto is_changed = [](const Seen& each) {
        return version_of(each.parameter) != each.version || address_of_storage(each.parameter) != each.storage;
    };
    const auto changed = std::find_if(seen_.begin(), seen_.end(), is_changed);
    if (changed == seen_.end()) {
        return;
    }
    std::string name;
    for (const Partition& partition : partitions) {
        for (const auto& [key, tensor] : partition.named(&Layer::parameters)) {
            name = tensor.is_same(changed->parameter) ? key : name;
        }
    }
    throw EngineError("parameter " + name +
                      " was changed between forward and backward, which computes checkpointed micro-batches again with "
                      "its values; go backward before the optimizer's step, or use checkpoint never");
}

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

SharedElsewhere::SharedElsewhere(const Tensors& inputs, const std::vector<char>& shares) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (k < shares.size() && shares[k] != 0 && inputs[k].defined()) {
            inputs_.push_back({k, inputs[k], version_of(inputs[k])});
        }
    }
}

void SharedElsewhere::check(const Partition& partition) const {
    for (const Input& each : inputs_) {
        if (version_of(each.tensor) != each.version) {
            throw EngineError(name_of(each.place, partition) +
                              " was changed in place, and shares its memory with a tensor of another process, which "
                              "cannot see the change; clone it before the change, or keep both layers in one process");
        }
    }
}

bool SharedElsewhere::holds(const at::Tensor& tensor) const {
    return std::any_of(inputs_.begin(), inputs_.end(),
                       [&](const Input& each) { return share_storage(tensor, each.tensor); });
}

void OutputReuse::begin_step() {
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(num_of_last_step_));
    num_of_last_step_ = entries_.size();
}

void OutputReuse::check(const Partition& partition, MicroBatchId micro_batch, const Tensors& tensors, TaskKind by) {
    const std::size_t num_before = entries_.size();
    for (const at::Tensor& tensor : tensors) {
        if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_inference() || tensor.numel() == 0 ||
            !tensor.has_storage() || tensor.is_meta()) {
            continue;
        }
        // Without another holder its memory does not come again: no layer has kept it.
        const bool may_come_again = is_held_elsewhere(tensor);
        if (num_before == 0 && !may_come_again) {
            continue;
        }
        const auto* const storage = tensor.storage().unsafeGetStorageImpl();
        const void* const begin = tensor.const_data_ptr();
        const void* const end = end_of(tensor);
        const std::less<const void*> is_before;
        const auto is_overwritten = [&](const Entry& each) {
            return each.storage._unsafe_get_target() == storage && is_before(begin, each.end) &&
                   is_before(each.begin, end) && each.counter.current_version() != each.version;
        };
        const auto first = entries_.begin();
        const auto last = first + static_cast<std::ptrdiff_t>(num_before);
        const auto found = std::find_if(first, last, is_overwritten);
        if (found != last) {
            throw LayerError((by == TaskKind::backward ? "the backward of partition " : "partition ") +
                             std::to_string(partition.id().value()) + " (" + partition.name() +
                             ") returns for micro-batch " + std::to_string(micro_batch.value()) +
                             " memory that it returned for micro-batch " + std::to_string(found->micro_batch.value()) +
                             ", and has changed it since; other tasks may still read it; return a new tensor each "
                             "time, as clone() makes one");
        }
        if (!may_come_again) {
            continue;
        }
        const c10::VariableVersion& counter = torch::autograd::impl::version_counter(tensor);
        entries_.push_back(
            {micro_batch, tensor.storage().getWeakStorageImpl(), begin, end, counter, counter.current_version()});
    }
}

void KeptOutputs::note(const Partition& partition, MicroBatchId micro_batch, const Tensors& outputs) {
    for (const at::Tensor& output : outputs) {
        if (!is_held_elsewhere(output)) {
            continue;
        }
        const at::Tensor keeper = partition.keeper_of(output);
        for (const at::Tensor& each : {output, keeper}) {
            if (keeper.defined() && !each.is_inference()) {
                const c10::VariableVersion& counter = torch::autograd::impl::version_counter(each);
                entries_.push_back({micro_batch, c10::weak_intrusive_ptr<c10::TensorImpl>(keeper.getIntrusivePtr()),
                                    counter, counter.current_version()});
            }
        }
    }
}

void KeptOutputs::check(const Partition& partition) {
    const std::vector<Entry> entries = std::exchange(entries_, {});
    const auto changed =
        std::ranges::find_if(entries, [](const Entry& each) { return each.counter.current_version() != each.version; });
    if (changed == entries.end()) {
        return;
    }
    std::string keeper = "a buffer or parameter";
    for (const auto tensors : {&Layer::parameters, &Layer::buffers}) {
        for (const auto& [name, tensor] : partition.named(tensors)) {
            const bool is_one = std::ranges::any_of(entries, [&](const Entry& each) {
                return each.keeper._unsafe_get_target() == tensor.unsafeGetTensorImpl();
            });
            keeper = is_one ? (tensors == &Layer::buffers ? "buffer " : "parameter ") + name : keeper;
        }
    }
    throw LayerError("partition " + std::to_string(partition.id().value()) + " (" + partition.name() +
                     ") returned for micro-batch " + std::to_string(changed->micro_batch.value()) + " memory that " +
                     keeper +
                     " keeps, and a layer has changed it in place since; lanes compute at the same time, so it would "
                     "depend on time which layer sees the change; keep a clone() instead, or use the out-of-place "
                     "form");
}
}  // namespace pipescope
