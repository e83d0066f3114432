#include "engine/mini_batch.h"

#include "base/quantities.h"
#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

namespace pipescope {
namespace {
bool is_cut(const TensorSplit& rule) {
    return rule.dimension && !rule.make;
}

bool has_dimension(const at::Tensor& tensor, std::int64_t dimension) {
    return -tensor.dim() <= dimension && dimension < tensor.dim();
}

at::Tensor part_of(const at::Tensor& tensor, const TensorSplit& rule, std::int64_t start, std::int64_t size) {
    if (!tensor.defined()) {
        return {};
    }
    if (rule.make) {
        at::Tensor made = rule.make(tensor, start, start + size);
        if (!made.defined()) {
            throw EngineError("a function of split returned no tensor for the samples " + std::to_string(start) +
                              " to " + std::to_string(start + size - 1) +
                              "; a micro-batch gets what it returns; return a tensor");
        }
        return made;
    }
    return rule.dimension ? tensor.narrow(*rule.dimension, start, size) : tensor;
}

std::vector<std::int64_t> other_sizes(const at::Tensor& tensor, std::int64_t dimension) {
    std::vector<std::int64_t> sizes = tensor.sizes().vec();
    sizes.erase(sizes.begin() + at::maybe_wrap_dim(dimension, tensor.dim()));
    return sizes;
}

at::Tensor added_up(const Tensors& parts) {
    at::Tensor sum = parts.at(0);
    for (std::size_t i = 1; i < parts.size(); ++i) {
        sum = sum + parts[i];
    }
    return sum;
}
}  // namespace

TensorSplit split_of(const std::vector<TensorSplit>& how, std::size_t position) {
    return position < how.size() ? how[position] : TensorSplit{};
}

std::int64_t batch_size(const Tensors& mini_batch, const std::vector<TensorSplit>& how) {
    if (mini_batch.empty()) {
        throw EngineError("the input holds no tensor; a mini-batch needs at least one; pass one");
    }
    std::optional<std::size_t> first;  // that is cut
    std::int64_t batch = 0;
    for (std::size_t k = 0; k < mini_batch.size(); ++k) {
        const at::Tensor& tensor = mini_batch[k];
        const std::string name = "input " + std::to_string(k);
        if (!tensor.defined()) {
            throw EngineError(name + " is an undefined tensor; every input holds samples; leave it out or fill it");
        }
        const TensorSplit rule = split_of(how, k);
        if (!is_cut(rule)) {
            continue;
        }
        if (!has_dimension(tensor, *rule.dimension)) {
            throw EngineError(
                name +
                (tensor.dim() == 0
                     ? " has no dimension; the first dimension is the samples; give it one, as by unsqueeze(0), or say "
                       "in split that each micro-batch gets the whole tensor"
                     : " has " + std::to_string(tensor.dim()) + " dimensions and is to be cut along dimension " +
                           std::to_string(*rule.dimension) + "; name a dimension that it has"));
        }
        const std::int64_t size = tensor.size(*rule.dimension);
        if (size == 0) {
            throw EngineError(name + " holds 0 samples; a mini-batch needs at least 1; skip empty batches");
        }
        if (!first) {
            first = k;
            batch = size;
        }
        if (size != batch) {
            throw EngineError(name + " holds " + counted(size, "sample", "samples") + " and input " +
                              std::to_string(*first) + " holds " + std::to_string(batch) +
                              "; all inputs are cut alike, so they must agree; make their first dimensions equal, or "
                              "say in split that each micro-batch gets the whole tensor, or along which dimension it "
                              "is cut");
        }
    }
    if (!first) {
        throw EngineError(
            "no input is cut into micro-batches, since split gives all of them whole; at least one holds the samples; "
            "say along which dimension it is cut");
    }
    return batch;
}

void refuse_made_gradients(const Tensors& tensors, const std::vector<TensorSplit>& how) {
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        if (split_of(how, k).make && needs_gradient(tensors[k])) {
            throw EngineError("input " + std::to_string(k) +
                              " requires a gradient, and a function of split makes its parts; no gradient goes back "
                              "through that function; detach it, or cut the input along a dimension");
        }
    }
}

std::vector<Tensors> split(const Tensors& tensors, const std::vector<std::int64_t>& sizes,
                           const std::vector<TensorSplit>& how) {
    std::vector<Tensors> parts(sizes.size());
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        const TensorSplit rule = split_of(how, k);
        std::int64_t start = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            parts[i].push_back(part_of(tensors[k], rule, start, sizes[i]));
            start += sizes[i];
        }
    }
    return parts;
}

namespace {
/// An output may have any number of rows per micro-batch; the other dimensions must agree.
void check_shape(const at::Tensor& part, const Tensors& before, std::size_t output, std::size_t micro_batch,
                 std::int64_t dimension) {
    if (before.empty() || other_sizes(part, dimension) == other_sizes(before[0], dimension)) {
        return;
    }
    std::ostringstream message;
    message << "output " << output << " of the last layer has shape " << part.sizes() << " for micro-batch "
            << micro_batch << " and " << before[0].sizes() << " for micro-batch 0; micro-batches are gathered along "
            << (dimension == 0 ? "the first dimension" : "dimension " + std::to_string(dimension))
            << "; make the others equal";
    throw EngineError(message.str());
}
}  // namespace

Tensors gather(std::vector<Tensors> micro_batches, const std::vector<std::int64_t>& dimensions) {
    if (micro_batches.size() == 1) {
        return std::move(micro_batches[0]);
    }
    Tensors whole;
    for (std::size_t k = 0; k < micro_batches[0].size(); ++k) {
        const std::int64_t dimension = k < dimensions.size() ? dimensions[k] : 0;
        Tensors parts;
        for (std::size_t i = 0; i < micro_batches.size(); ++i) {
            if (micro_batches[i].size() != micro_batches[0].size()) {
                throw EngineError("the last layer returned " + counted(micro_batches[i].size(), "tensor", "tensors") +
                                  " for micro-batch " + std::to_string(i) + " and " +
                                  std::to_string(micro_batches[0].size()) +
                                  " for micro-batch 0; they are gathered one by one; return as many each time");
            }
            at::Tensor& part = micro_batches[i][k];
            if (part.dim() == 0) {
                throw EngineError("output " + std::to_string(k) +
                                  " of the last layer has no dimension; micro-batches are gathered along the first; "
                                  "return one value per sample, or one per micro-batch by unsqueeze(0), and reduce in "
                                  "the loss");
            }
            if (!has_dimension(part, dimension)) {
                throw EngineError("output " + std::to_string(k) + " of the last layer has " +
                                  counted(part.dim(), "dimension", "dimensions") +
                                  " and is to be gathered along dimension " + std::to_string(dimension) +
                                  "; name in split a dimension that it has");
            }
            check_shape(part, parts, k, i, dimension);
            parts.push_back(std::move(part));
        }
        whole.push_back(at::cat(parts, dimension));
    }
    return whole;
}

Tensors gather_gradients(std::vector<Tensors> micro_batches, const Tensors& whole,
                         const std::vector<std::int64_t>& sizes, const std::vector<TensorSplit>& how) {
    Tensors gathered(whole.size());
    for (std::size_t k = 0; k < whole.size(); ++k) {
        const bool any = std::any_of(micro_batches.begin(), micro_batches.end(),
                                     [k](const Tensors& part) { return k < part.size() && part[k].defined(); });
        if (!any || !whole[k].defined()) {
            continue;
        }
        const std::optional<std::int64_t> dimension = split_of(how, k).dimension;
        Tensors parts;
        for (std::size_t i = 0; i < micro_batches.size(); ++i) {
            if (k < micro_batches[i].size() && micro_batches[i][k].defined()) {
                // The first lane may be on another device than the input.
                parts.push_back(micro_batches[i][k].to(whole[k].device()));
                micro_batches[i][k] = at::Tensor();
            } else if (dimension) {
                auto shape = whole[k].sizes().vec();
                shape[static_cast<std::size_t>(at::maybe_wrap_dim(*dimension, whole[k].dim()))] = sizes[i];
                parts.push_back(at::zeros(shape, whole[k].options().requires_grad(false)));
            }
        }
        gathered[k] = parts.size() == 1 ? parts[0] : dimension ? at::cat(parts, *dimension) : added_up(parts);
    }
    return gathered;
}
}  // namespace pipescope
