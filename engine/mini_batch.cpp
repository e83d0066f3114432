#include "engine/mini_batch.h"

#include "engine/engine_error.h"
#include "schedule/quantities.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace pipescope {
std::int64_t batch_size(const Tensors& mini_batch) {
    if (mini_batch.empty()) {
        throw EngineError("the input holds no tensor; a mini-batch needs at least one; pass one");
    }
    for (std::size_t k = 0; k < mini_batch.size(); ++k) {
        const at::Tensor& tensor = mini_batch[k];
        const std::string name = "input " + std::to_string(k);
        if (!tensor.defined()) {
            throw EngineError(name + " is an undefined tensor; every input holds samples; leave it out or fill it");
        }
        if (tensor.dim() == 0) {
            throw EngineError(name +
                              " has no dimension; the first dimension is the samples; give it one, as by unsqueeze(0)");
        }
        if (tensor.size(0) == 0) {
            throw EngineError(name + " holds 0 samples; a mini-batch needs at least 1; skip empty batches");
        }
        if (tensor.size(0) != mini_batch[0].size(0)) {
            throw EngineError(name + " holds " + counted(tensor.size(0), "sample", "samples") + " and input 0 holds " +
                              std::to_string(mini_batch[0].size(0)) +
                              "; all inputs are cut alike, so they must agree; make their first dimensions equal");
        }
    }
    return mini_batch[0].size(0);
}

std::vector<Tensors> split(const Tensors& tensors, const std::vector<std::int64_t>& sizes) {
    std::vector<Tensors> parts(sizes.size());
    for (const at::Tensor& tensor : tensors) {
        std::int64_t start = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            parts[i].push_back(tensor.defined() ? tensor.narrow(0, start, sizes[i]) : at::Tensor());
            start += sizes[i];
        }
    }
    return parts;
}

namespace {
/// An output may have any number of rows per micro-batch; the other dimensions must agree.
void check_shape(const at::Tensor& part, const Tensors& before, std::size_t output, std::size_t micro_batch) {
    if (before.empty() || part.sizes().slice(1) == before[0].sizes().slice(1)) {
        return;
    }
    std::ostringstream message;
    message << "output " << output << " of the last layer has shape " << part.sizes() << " for micro-batch "
            << micro_batch << " and " << before[0].sizes()
            << " for micro-batch 0; micro-batches are gathered along the first dimension; make the others equal";
    throw EngineError(message.str());
}
}  // namespace

Tensors gather(std::vector<Tensors> micro_batches) {
    if (micro_batches.size() == 1) {
        return std::move(micro_batches[0]);
    }
    Tensors whole;
    for (std::size_t k = 0; k < micro_batches[0].size(); ++k) {
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
            check_shape(part, parts, k, i);
            parts.push_back(std::move(part));
        }
        whole.push_back(at::cat(parts, 0));
    }
    return whole;
}

Tensors gather_gradients(std::vector<Tensors> micro_batches, const Tensors& whole,
                         const std::vector<std::int64_t>& sizes) {
    Tensors gathered(whole.size());
    for (std::size_t k = 0; k < whole.size(); ++k) {
        const bool any = std::any_of(micro_batches.begin(), micro_batches.end(),
                                     [k](const Tensors& part) { return k < part.size() && part[k].defined(); });
        if (!any || !whole[k].defined()) {
            continue;
        }
        Tensors parts;
        for (std::size_t i = 0; i < micro_batches.size(); ++i) {
            if (k < micro_batches[i].size() && micro_batches[i][k].defined()) {
                // The first lane may be on another device than the input.
                parts.push_back(micro_batches[i][k].to(whole[k].device()));
                micro_batches[i][k] = at::Tensor();
            } else {
                auto shape = whole[k].sizes().vec();
                shape[0] = sizes[i];
                parts.push_back(at::zeros(shape, whole[k].options().requires_grad(false)));
            }
        }
        gathered[k] = parts.size() == 1 ? parts[0] : at::cat(parts, 0);
    }
    return gathered;
}
}  // namespace pipescope
