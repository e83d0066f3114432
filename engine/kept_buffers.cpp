#include "engine/kept_buffers.h"

#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/running_statistics.h"
#include "engine/tensor_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
bool has_memory(const at::Tensor& tensor) {
    return tensor.defined() && tensor.has_storage() && !tensor.is_meta() && tensor.storage().data() != nullptr;
}

c10::Storage memory_of(const at::Tensor& tensor) {
    return tensor.defined() && tensor.has_storage() ? tensor.storage() : c10::Storage();
}

bool are_one(const c10::Storage& a, const c10::Storage& b) {
    return a.unsafeGetStorageImpl() == b.unsafeGetStorageImpl();
}

/// Changes if sizes, strides, offset or the memory's length do.
std::size_t shape_of(const at::Tensor& tensor) {
    if (!has_memory(tensor)) {
        return 0;
    }
    std::size_t hash = c10::hash_combine(static_cast<std::size_t>(tensor.storage_offset()), tensor.storage().nbytes());
    for (std::int64_t k = 0; k < tensor.dim(); ++k) {
        hash = c10::hash_combine(hash, static_cast<std::size_t>(tensor.size(k)));
        hash = c10::hash_combine(hash, static_cast<std::size_t>(tensor.stride(k)));
    }
    return c10::hash_combine(hash, static_cast<std::size_t>(tensor.dim()));
}

/// All bytes of a storage, as a tensor. Not by set_(), which not every kind of device has.
at::Tensor bytes_of(const c10::Storage& storage) {
    const at::Tensor bytes = at::empty({0}, at::TensorOptions(storage.device()).dtype(at::kByte));
    bytes.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
    bytes.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<std::int64_t>(storage.nbytes())});
    return bytes;
}

std::string_view owner_of(std::string_view name) {
    return name.substr(0, name.rfind('.') + 1);
}
}  // namespace

std::size_t BufferCopies::Entry::uses() const {
    std::size_t all = storage.use_count();
    for (const at::Tensor& tensor : tensors) {
        all += tensor.use_count();
    }
    return all;
}

void BufferCopies::add(const at::Tensor& tensor) {
    if (!has_memory(tensor)) {
        return;
    }
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& each) { return are_one(each.storage, tensor.storage()); });
    if (found != entries_.end()) {
        found->tensors.push_back(tensor);
        return;
    }
    const at::NoGradGuard no_grad;
    entries_.push_back({{tensor}, tensor.storage(), bytes_of(tensor.storage()).clone()});
}

bool BufferCopies::holds(const at::Tensor& tensor) const {
    const c10::Storage storage = memory_of(tensor);
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const Entry& each) { return are_one(each.storage, storage); });
}

bool BufferCopies::equals(const at::Tensor& tensor) const {
    const c10::Storage storage = memory_of(tensor);
    return std::all_of(entries_.begin(), entries_.end(), [&](const Entry& each) {
        return !are_one(each.storage, storage) ||
               (storage.nbytes() == each.copy.nbytes() && bytes_of(storage).equal(each.copy));
    });
}

void BufferCopies::keep_only(const std::vector<at::Tensor>& tensors) {
    std::erase_if(entries_, [&](const Entry& each) {
        return std::none_of(tensors.begin(), tensors.end(),
                            [&](const at::Tensor& tensor) { return are_one(each.storage, memory_of(tensor)); });
    });
}

BufferCopies::Exchange::Exchange(const BufferCopies& copies) : copies_(copies) {
    for (const Entry& each : copies_.entries_) {
        uses_before_.push_back(each.uses());
    }
    exchange();
}

BufferCopies::Exchange::~Exchange() {
    exchange();
}

void BufferCopies::Exchange::exchange() const {
    for (const Entry& each : copies_.entries_) {
        std::swap(each.storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks(),
                  each.copy.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks());
    }
}

std::vector<at::Tensor> BufferCopies::Exchange::newly_used() const {
    std::vector<at::Tensor> used;
    for (std::size_t k = 0; k < uses_before_.size(); ++k) {
        if (copies_.entries_[k].uses() > uses_before_[k]) {
            used.push_back(copies_.entries_[k].tensors.front());
        }
    }
    return used;
}

std::string KeptBuffers::title_of(const Watched& watched) {
    return (watched.is_parameter ? "parameter " : "buffer ") + watched.name;
}

void KeptBuffers::check(const std::string& what) const {
    for (std::size_t k = 0; k < seen_.size(); ++k) {
        Watched& each = (*list_)[k];
        const bool is_moved = !are_one(memory_of(each.tensor), seen_[k].storage);
        if (each.learnt->is_statistic ||
            (!is_moved && (copies_.holds(each.tensor) || version_of(each.tensor) == seen_[k].version))) {
            continue;
        }
        const std::string name = title_of(each);
        if (is_moved) {
            throw EngineError(name + " was given other memory since the forward of " + what +
                              ", which is to be computed again with its former values; change it in place, as copy_() "
                              "does, or use checkpoint never");
        }
        each.learnt->changes = true;
        throw EngineError(name + " was changed since the forward of " + what +
                          ", which is to be computed again with its former values; the first forward had not changed "
                          "it, so no copy was kept; run the step again, as one is kept from now on, or use checkpoint "
                          "never");
    }
}

void BufferWatch::list(const NamedTensors& buffers, const NamedTensors& frozen_parameters) {
    list_ = std::make_shared<std::vector<Watched>>();
    const auto add = [&](const NamedTensors& tensors, bool is_parameter) {
        for (const auto& [name, tensor] : tensors) {
            std::shared_ptr<KeptBuffers::Learnt>& learnt = learnt_[name];
            if (learnt == nullptr) {
                learnt = std::make_shared<KeptBuffers::Learnt>();
                learnt->is_statistic = !is_parameter && is_running_statistic(name);
            }
            list_->push_back({name, tensor, is_parameter, learnt});
        }
    };
    add(buffers, false);
    add(frozen_parameters, true);
}

at::Tensor BufferWatch::sharing_memory_with(const at::Tensor& tensor) const {
    const auto found =
        std::ranges::find_if(*list_, [&](const Watched& each) { return share_storage(each.tensor, tensor); });
    return found == list_->end() ? at::Tensor() : found->tensor;
}

KeptBuffers BufferWatch::before() const {
    KeptBuffers kept;
    kept.list_ = list_;
    kept.seen_.reserve(list_->size());
    for (const Watched& each : *list_) {
        kept.seen_.push_back({memory_of(each.tensor), version_of(each.tensor), shape_of(each.tensor)});
        if (each.learnt->changes || (!has_learned_ && !each.is_parameter)) {
            kept.copies_.add(each.tensor);
        }
    }
    return kept;
}

/// A statistic whose version a forward raises is no batch norm's, whatever its name; nor are those beside it.
void BufferWatch::find_statistics_of_other_layers(const KeptBuffers& kept) {
    std::vector<Watched>& list = *kept.list_;
    for (std::size_t k = 0; k < list.size(); ++k) {
        if (!list[k].learnt->is_statistic || list[k].name.ends_with("num_batches_tracked") ||
            version_of(list[k].tensor) == kept.seen_[k].version) {
            continue;
        }
        for (Watched& other : list) {
            if (owner_of(other.name) == owner_of(list[k].name)) {
                other.learnt->is_statistic = false;
            }
        }
    }
}

void BufferWatch::after(KeptBuffers& kept) {
    find_statistics_of_other_layers(kept);
    std::vector<at::Tensor> changing;
    for (std::size_t k = 0; k < kept.seen_.size(); ++k) {
        Watched& each = (*kept.list_)[k];
        if (shape_of(each.tensor) != kept.seen_[k].shape) {
            throw EngineError(KeptBuffers::title_of(each) +
                              " was given another shape in a forward that is to be computed again, which cannot have "
                              "its former shape; let the layer return new memory, or use checkpoint never");
        }
        if (!each.learnt->is_statistic && !each.learnt->changes) {
            each.learnt->changes = version_of(each.tensor) != kept.seen_[k].version ||
                                   (!has_learned_ && !kept.copies_.equals(each.tensor));
        }
        if (each.learnt->changes) {
            changing.push_back(each.tensor);
        }
    }
    kept.keep_only(changing);
    has_learned_ = true;
}

BufferCopies KeptBuffers::statistics() const {
    BufferCopies copies;
    for (const Watched& each : *list_) {
        if (each.learnt->is_statistic) {
            copies.add(each.tensor);
        }
    }
    return copies;
}
}  // namespace pipescope
