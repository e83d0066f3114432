#include "engine/gradient_norm.h"

#include "engine/engine_error.h"
#include "engine/pipeline.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

namespace pipescope {
namespace {
/// The norm of one gradient, as it goes to the other processes.
struct GradientNorm {
    double partition;  // orders the norms of all processes
    double dtype;      // of the norm
    double value;
};
constexpr std::size_t kFields = 3;

Tensors gradients_here(const Pipeline& pipeline, std::vector<double>& partitions) {
    Tensors gradients;
    for (const Partition& partition : pipeline.partitions()) {
        for (const at::Tensor& parameter : partition.parameters()) {
            if (parameter.defined() && partition.is_own(parameter) && parameter.grad().defined()) {
                gradients.push_back(parameter.grad());
                partitions.push_back(static_cast<double>(partition.id().value()));
            }
        }
    }
    return gradients;
}

/// The norms as one tensor on the first one's device, of the type that holds them all.
at::Tensor stacked(Tensors norms) {
    for (at::Tensor& norm : norms) {
        norm = norm.to(norms.front().device());
    }
    return at::stack(norms);
}

/// The norms of all processes, in layer order; empty if there is no gradient.
at::Tensor norms_everywhere(LaneChannels& channels, const Tensors& norms, const std::vector<double>& partitions) {
    std::vector<double> mine;
    if (!norms.empty()) {
        const at::Tensor values = stacked(norms).to(at::kCPU, at::kDouble);
        for (std::size_t k = 0; k < norms.size(); ++k) {
            const auto dtype = static_cast<double>(norms[k].scalar_type());
            mine.insert(mine.end(), {partitions[k], dtype, values.const_data_ptr<double>()[k]});
        }
    }
    const std::vector<double> said = channels.gather(LaneChannels::Purpose::norm, mine);
    std::vector<GradientNorm> all;
    for (std::size_t k = 0; k < said.size(); k += kFields) {
        all.push_back({said[k], said[k + 1], said[k + 2]});
    }
    std::ranges::stable_sort(all, {}, &GradientNorm::partition);
    std::vector<double> values;
    std::ranges::transform(all, std::back_inserter(values), &GradientNorm::value);
    at::ScalarType dtype = all.empty() ? at::kFloat : static_cast<at::ScalarType>(all.front().dtype);
    for (const GradientNorm& each : all) {
        dtype = at::promote_types(dtype, static_cast<at::ScalarType>(each.dtype));
    }
    return at::tensor(values, at::kDouble).to(dtype);
}
}  // namespace

at::Tensor clip_gradients(Pipeline& pipeline, double max_norm, double norm_type, bool error_if_nonfinite) {
    const at::NoGradGuard no_grad;
    std::vector<double> partitions;
    const Tensors gradients = gradients_here(pipeline, partitions);
    Tensors norms;
    for (const at::Tensor& gradient : gradients) {
        norms.push_back(at::linalg_vector_norm(gradient, norm_type));
    }
    at::Tensor all;
    if (pipeline.channels() != nullptr) {
        all = pipeline.channels()->processes().together(
            [&] { return norms_everywhere(*pipeline.channels(), norms, partitions); });
    } else if (!norms.empty()) {
        all = stacked(norms);
    }
    const at::Tensor total =
        all.defined() && all.numel() > 0 ? at::linalg_vector_norm(all, norm_type) : at::zeros({}, at::kFloat);
    if (error_if_nonfinite && !std::isfinite(total.item<double>())) {
        throw EngineError("the norm of all gradients is " + std::to_string(total.item<double>()) +
                          "; gradients cannot be clipped to a part of it; skip this step, or leave out "
                          "error_if_nonfinite to clip anyway");
    }
    // As torch.nn.utils.clip_grad_norm_ computes, to the bit.
    const at::Tensor factor = total.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0);
    for (const at::Tensor& gradient : gradients) {
        gradient.mul_(factor.to(gradient.device()));
    }
    return total;
}
}  // namespace pipescope
