#include "profiler/layers/profile_assembly.h"

#include "base/error.h"
#include "engine/running_statistics.h"
#include "models/cast_model.h"
#include "profiler/memory/tracking_allocator.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <string>

namespace pipescope {
void check_model_and_sizes(const ModelSpec& model, const std::vector<std::int64_t>& samples) {
    if (model.layers.empty()) {
        throw UsageError("the model has no layers; a profile needs at least 1; add a layer");
    }
    if (samples.empty() || samples.front() < 1 ||
        std::adjacent_find(samples.begin(), samples.end(), std::greater_equal<>()) != samples.end()) {
        std::string list;
        for (const std::int64_t size : samples) {
            if (!list.empty()) {
                list += ',';
            }
            list += std::to_string(size);
        }
        throw UsageError("micro-batch sizes are '" + list +
                         "'; they must be whole numbers from 1 up, ascending; write them as 1,2,4");
    }
    if (!tracking_allocator::installed()) {
        throw Error(
            "the tracking allocator is not installed; bytes cannot be measured without it; call "
            "tracking_allocator::install() before the first tensor is made");
    }
}

void add_dtypes(const Layer& layer, DtypeBytes& bytes) {
    for (const auto& [key, parameter] : layer.parameters()) {
        if (const std::string name = dtype_name(parameter.scalar_type()); !name.empty()) {
            bytes[name] += static_cast<Bytes>(parameter.nbytes());
        }
    }
}

std::string main_dtype(const DtypeBytes& bytes) {
    const auto most =
        std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == bytes.end() ? Profile{}.dtype : most->first;
}

bool holds_tokens(const Tensors& input) {
    return !input.empty() && (input.front().scalar_type() == at::kLong || input.front().scalar_type() == at::kInt);
}

std::int64_t tokens_per_sample(const Tensors& input) {
    return holds_tokens(input) && input.front().dim() == 2 ? input.front().size(1) : 0;
}

LayerProfile described_layer(const std::string& name, const Layer& layer) {
    LayerProfile profile;
    profile.name = name;
    for (const auto& [key, parameter] : layer.parameters()) {
        profile.parameter_bytes += static_cast<Bytes>(parameter.nbytes());
        profile.gradient_bytes += parameter.grad().defined() ? static_cast<Bytes>(parameter.grad().nbytes()) : 0;
    }
    for (const auto& [key, buffer] : layer.buffers()) {
        profile.buffer_bytes += static_cast<Bytes>(buffer.nbytes());
        profile.statistic_bytes += is_running_statistic(key) ? static_cast<Bytes>(buffer.nbytes()) : 0;
    }
    return profile;
}

void append_bytes(LayerProfile& profile, const LayerBytes& bytes) {
    profile.output_bytes.push_back(static_cast<double>(bytes.output));
    profile.saved_bytes.push_back(static_cast<double>(bytes.saved));
    profile.transient_bytes.push_back(static_cast<double>(bytes.transient));
    profile.flops.push_back(total_flops(bytes.forward_work));
    profile.forward_operators.push_back(bytes.forward_work);
    profile.backward_operators.push_back(bytes.backward_work);
    profile.forward_chains.push_back(bytes.forward_chains);
    profile.backward_chains.push_back(bytes.backward_chains);
    profile.keeps_input = bytes.keeps_input;
    profile.keeps_output = bytes.keeps_output;
    profile.aliases_input = bytes.aliases_input;
    profile.passes_gradient = bytes.passes_gradient;
    for (const auto& [name, stashed] : bytes.stash) {
        profile.stash[name].push_back(static_cast<double>(stashed));
    }
    profile.pop = bytes.pop;
    profile.without_gradient = bytes.without_gradient;
}

double input_bytes(const Tensors& input) {
    double bytes = 0;
    for (const at::Tensor& tensor : input) {
        bytes += static_cast<double>(tensor.nbytes());
    }
    return bytes;
}
}  // namespace pipescope
