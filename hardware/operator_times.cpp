#include "hardware/operator_times.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
bool is_aligned(const ProductShape& shape, double element) {
    constexpr double kLoad = 16;
    return shape.batch == 1 || (std::fmod(shape.n * element, kLoad) == 0 && std::fmod(shape.k * element, kLoad) == 0);
}

/// Fused kernels of attention compute heads of a multiple of 32.
double padded(double width) {
    constexpr double kStep = 32;
    return std::ceil(width / kStep) * kStep / width;
}
constexpr double kBackwardProducts = 2.5;  // five products instead of the forward's two, since it recomputes the scores
}  // namespace

OperatorTimes::OperatorTimes(const DeviceType& device, std::string dtype, const KernelProgram& program)
    : device_(device),
      dtype_(std::move(dtype)),
      program_(program),
      work_factor_(program.work_factor_of(device.name)),
      element_(static_cast<double>(dtype_bytes(dtype_))) {}

double OperatorTimes::aligned_product(const ProductShape& shape, const std::string& dtype) const {
    DeviceWork work = matmul_work(device_, dtype, shape.m, shape.n, shape.k, shape.batch, program_.product_depth);
    work.flops /= program_.product_share_of(device_.name);
    return work_factor_ * estimated_ns(device_, dtype, work);
}

double OperatorTimes::product(const ProductShape& shape, const std::string& dtype) const {
    if (!is_aligned(shape, product_bytes(dtype))) {
        const DeviceWork work{2 * shape.m * shape.n * shape.k * shape.batch, 0, 1};
        return work_factor_ * estimated_ns(device_, "float32", work);
    }
    return aligned_product(shape, dtype);
}

double OperatorTimes::matrices(const ProductShape& shape, const std::string& dtype) const {
    return aligned_product(shape, dtype) + (shape.batch > 1 ? work_factor_ * shape.batch * device_.launch_ns : 0);
}

std::optional<AttentionRate> OperatorTimes::attention_rate(const AttentionShape& shape) const {
    for (const std::string& kernel : program_.attention) {
        const auto found = device_.attention.find(kernel);
        if (found == device_.attention.end()) {
            continue;
        }
        AttentionRate rate = found->second;
        constexpr double kNarrow = 64;
        constexpr double kWide = 128;
        constexpr double kWider = 192;
        const double width = shape.width;
        const auto at_width = [&](double narrow, double usual, double wide) {
            return width <= kWide ? std::lerp(narrow, usual, std::max(0.0, (width - kNarrow) / (kWide - kNarrow)))
                                  : std::lerp(usual, wide, std::min(1.0, (width - kWide) / (kWider - kWide)));
        };
        const double reached = shape.queries / (shape.queries + rate.half_length);
        constexpr double kQueries = 256;
        const double waves = shape.heads * shape.queries / kQueries / std::max(1, device_.multiprocessors);
        rate.forward = reached * waves / (waves + rate.forward_half_waves) *
                       at_width(rate.narrow_forward, rate.forward, rate.wide_forward);
        rate.backward = reached * waves / (waves + rate.backward_half_waves) *
                        at_width(rate.narrow_backward, rate.backward, rate.wide_backward);
        return rate;
    }
    return std::nullopt;
}

double OperatorTimes::attention(const AttentionShape& shape) const {
    const double widths = shape.width + shape.value_width;
    // Queries and results, keys and values. The backward moves their gradients too.
    const double moved = (shape.is_backward ? 2 : 1) * (shape.queries + shape.keys) * widths * shape.heads * element_;
    const double products = shape.is_backward ? kBackwardProducts : 1;
    if (const std::optional<AttentionRate> rate = attention_rate(shape)) {
        const double flops =
            products * 2 * shape.pairs * shape.queries * shape.keys * shape.heads * widths * padded(shape.width);
        const double peak = peak_rate(device_, dtype_) / work_factor_;
        return std::max(flops / (peak * (shape.is_backward ? rate->backward : rate->forward)) * 1e9, pass(moved));
    }
    // Both products go along the keys in one loop, so their tiles are filled only once, and not for each head's width.
    DeviceWork work = matmul_work(device_, dtype_, shape.queries, widths / 2, shape.keys, shape.heads);
    constexpr double kShareOfProducts = 0.7;  // share of a product's rate that is left beside the softmax
    // FlashAttention-2 (arXiv 2307.08691) reaches 50 to 73 % of an A100's peak, FlashAttention-3 (arXiv 2407.08608)
    // up to 75 % of an H100's.
    work.flops *= products * 2 * shape.pairs / kShareOfProducts;
    work.bytes_moved = moved;
    return roofline(work);
}

double OperatorTimes::roofline(const DeviceWork& work) const {
    return work_factor_ * estimated_ns(device_, dtype_, work);
}

double OperatorTimes::of(const DeviceWork& work) const {
    if (const auto* product_shape = std::get_if<ProductShape>(&work.shape)) {
        return work.kernels * product(*product_shape);
    }
    if (const auto* attention_shape = std::get_if<AttentionShape>(&work.shape)) {
        return work.kernels * attention(*attention_shape);
    }
    if (const auto* entropy = std::get_if<CrossEntropyShape>(&work.shape)) {
        const double half = program_.loss_bytes / 2 * entropy->logits;  // the other half is the other pass
        return work.kernels * pass(std::max(half, work.bytes_moved / work.kernels));
    }
    return roofline(work);
}

double OperatorTimes::all(const Operators& operators, const Operators& chains, double tensors) const {
    const bool is_fused = program_.fused && !chains.empty();
    double ns = 0;
    double kernels = 0;
    const auto add = [&](const DeviceWork& work) {
        ns += of(work);
        kernels += work.kernels;
    };
    for (const DeviceWork& each : operators) {
        if (!is_fused || each.flops > 0) {
            add(each);
        }
        if (const auto* attention_shape = std::get_if<AttentionShape>(&each.shape); attention_shape && is_fused) {
            const double result =
                attention_shape->heads * attention_shape->queries * attention_shape->value_width * element_;
            ns += each.kernels * added_pass(tensors * result);
        }
    }
    if (is_fused) {
        for (const DeviceWork& each : chains) {
            add(each);
        }
    }
    return launched(ns, kernels);
}

double OperatorTimes::launched(double work, double kernels) const {
    const double host = kernels * program_.launch_ns;
    return program_.host_waits ? work + host : std::max(work, host);
}
}  // namespace pipescope
