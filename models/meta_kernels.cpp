#include "models/meta_kernels.h"

#include "engine/layer_dispatch_key.h"

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using at::IntArrayRef;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

Tensor of_shape(IntArrayRef sizes, const Tensor& like) {
    return at::empty(sizes, like.options());
}

/// A list of one value applies to all dimensions.
std::int64_t along(IntArrayRef values, std::size_t dimension) {
    return values.size() == 1 ? values[0] : values[dimension];
}

/// Shapes as documented for torch::nn::Conv2d and ConvTranspose2d, for any number of dimensions.
Tensor convolution_shape(const Tensor& input, const Tensor& weight, const OptionalTensor& /*bias*/, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                         std::int64_t groups) {
    std::vector<std::int64_t> sizes{input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
    for (std::size_t k = 0; k + 2 < static_cast<std::size_t>(input.dim()); ++k) {
        const auto dimension = static_cast<std::int64_t>(k) + 2;
        const std::int64_t reach = along(dilation, k) * (weight.size(dimension) - 1);
        const std::int64_t border = 2 * along(padding, k) - reach;
        sizes.push_back(transposed
                            ? (input.size(dimension) - 1) * along(stride, k) - border + along(output_padding, k) + 1
                            : (input.size(dimension) + border - 1) / along(stride, k) + 1);
    }
    return of_shape(sizes, input);
}

ThreeTensors convolution_gradients(const Tensor& gradient, const Tensor& input, const Tensor& weight,
                                   IntArrayRef /*stride*/, IntArrayRef /*padding*/, IntArrayRef /*dilation*/,
                                   bool /*transposed*/, IntArrayRef /*output_padding*/, std::int64_t /*groups*/,
                                   std::array<bool, 3> /*wanted*/) {
    return {at::empty_like(input), at::empty_like(weight), of_shape({gradient.size(1)}, gradient)};
}

ThreeTensors batch_norm(const Tensor& input, const OptionalTensor& /*weight*/, const OptionalTensor& /*bias*/,
                        const OptionalTensor& /*running_mean*/, const OptionalTensor& /*running_variance*/,
                        bool training, double /*momentum*/, double /*epsilon*/) {
    const std::int64_t channels = training ? input.size(1) : 0;
    return {of_shape(input.sizes(), input), of_shape({channels}, input), of_shape({channels}, input)};
}

Tensor index_select(const Tensor& input, std::int64_t dimension, const Tensor& index) {
    std::vector<std::int64_t> sizes = input.sizes().vec();
    if (!sizes.empty()) {
        sizes[static_cast<std::size_t>(dimension < 0 ? dimension + input.dim() : dimension)] = index.numel();
    }
    return of_shape(sizes, input);
}

Tensor embedding_gradient(const Tensor& gradient, const Tensor& /*indices*/, std::int64_t rows,
                          std::int64_t /*padding_index*/, bool /*scale_by_frequency*/) {
    return of_shape({rows, gradient.size(-1)}, gradient);
}

Tensor where_shape(const Tensor& condition, const Tensor& input, const Tensor& other) {
    const auto shape = at::infer_size(at::infer_size(condition.sizes(), input.sizes()), other.sizes());
    return at::empty(shape, input.options().dtype(at::result_type(input, other)));
}

Tensor& where_into(const Tensor& condition, const Tensor& input, const Tensor& other, Tensor& output) {
    output.resize_(where_shape(condition, input, other).sizes());
    return output;
}

std::tuple<Tensor, Tensor> log_sigmoid(const Tensor& input) {
    return {of_shape(input.sizes(), input), of_shape({0}, input)};
}

Tensor adaptive_pool(const Tensor& input, IntArrayRef output) {
    std::vector<std::int64_t> sizes = input.sizes().vec();
    std::copy(output.begin(), output.end(), sizes.end() - static_cast<std::ptrdiff_t>(output.size()));
    return of_shape(sizes, input);
}

Tensor broadcast(const Tensor& input, const Tensor& other) {
    return at::empty(at::infer_size(input.sizes(), other.sizes()),
                     input.options().dtype(at::result_type(input, other)));
}
Tensor reversed_subtraction(const Tensor& input, const Tensor& other, const at::Scalar& /*factor*/) {
    return broadcast(input, other);
}

/// One loss per value, or a single number.
Tensor reduced(IntArrayRef sizes, std::int64_t reduction, const Tensor& like) {
    return of_shape(reduction == at::Reduction::None ? sizes : IntArrayRef{}, like);
}
Tensor binary_cross_entropy(const Tensor& input, const Tensor& /*target*/, const OptionalTensor& /*weight*/,
                            std::int64_t reduction) {
    return reduced(input.sizes(), reduction, input);
}
std::tuple<Tensor, Tensor> pixelwise_cross_entropy(const Tensor& input, const Tensor& target,
                                                   const OptionalTensor& /*weight*/, std::int64_t reduction,
                                                   std::int64_t /*ignored*/) {
    return {reduced(target.sizes(), reduction, input), of_shape({}, input)};
}

Tensor variance(const Tensor& input, at::OptionalIntArrayRef dimensions,
                const std::optional<at::Scalar>& /*correction*/, bool keep) {
    return at::empty_like(input.mean(dimensions.value_or(IntArrayRef{}), keep));
}

/// Operators whose results have the shapes and types of some of their arguments, with those arguments in the order of
/// the results.
struct LikeArguments {
    std::string_view name;
    std::array<std::string_view, 3> arguments;
};
constexpr std::array kLikeArguments = {
    LikeArguments{"native_batch_norm_backward", {"input", "weight", "weight"}},
    LikeArguments{"native_layer_norm_backward", {"input", "weight", "bias"}},
    LikeArguments{"native_group_norm_backward", {"input", "weight", "weight"}},
    LikeArguments{"log_sigmoid_backward", {"self"}},
    LikeArguments{"relu", {"self"}},
    LikeArguments{"hardswish", {"self"}},
    LikeArguments{"hardswish_backward", {"self"}},
    LikeArguments{"hardtanh", {"self"}},
    LikeArguments{"hardtanh_backward", {"self"}},
    LikeArguments{"glu_backward", {"self"}},
    LikeArguments{"_prelu_kernel", {"self"}},
    LikeArguments{"_prelu_kernel_backward", {"self", "weight"}},
    LikeArguments{"flip", {"self"}},
    LikeArguments{"roll", {"self"}},
    LikeArguments{"mse_loss_backward", {"self"}},
    LikeArguments{"binary_cross_entropy_backward", {"self"}},
    LikeArguments{"nll_loss2d_backward", {"self"}},
    LikeArguments{"_adaptive_avg_pool2d_backward", {"self"}},
};

void make_like_arguments(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, torch::jit::Stack* stack) {
    const std::string_view name = std::string_view(op.operator_name().name).substr(std::string_view("aten::").size());
    const auto* const row =
        std::find_if(kLikeArguments.begin(), kLikeArguments.end(), [&](const auto& each) { return each.name == name; });
    const auto& schema = op.schema().arguments();
    const std::vector<c10::IValue> arguments = torch::jit::pop(*stack, schema.size());
    for (std::size_t result = 0; result < op.schema().returns().size(); ++result) {
        const auto found = std::find_if(schema.begin(), schema.end(),
                                        [&](const auto& each) { return each.name() == row->arguments.at(result); });
        const auto index = static_cast<std::size_t>(found - schema.begin());
        const bool given =
            found != schema.end() && arguments[index].isTensor() && arguments[index].toTensor().defined();
        torch::jit::push(*stack, given ? at::empty_like(arguments[index].toTensor()) : Tensor());
    }
}

class MetaKernels {
public:
    MetaKernels() : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__) {
        add("convolution_overrideable", "", &convolution_shape);
        add("convolution_backward_overrideable", "", &convolution_gradients);
        add("native_batch_norm", "", &batch_norm);
        add("index_select", "", &index_select);
        add("embedding_dense_backward", "", &embedding_gradient);
        add("where", "self", &where_shape);
        add("where", "self_out", &where_into);
        add("rsub", "Tensor", &reversed_subtraction);
        add("log_sigmoid_forward", "", &log_sigmoid);
        add("_adaptive_avg_pool2d", "", &adaptive_pool);
        add("binary_cross_entropy", "", &binary_cross_entropy);
        add("nll_loss2d_forward", "", &pixelwise_cross_entropy);
        add("var", "correction", &variance);
        add("std", "correction", &variance);
        for (const LikeArguments& each : kLikeArguments) {
            add(std::string(each.name), "", torch::CppFunction::makeFromBoxedFunction<&make_like_arguments>());
        }
    }

private:
    // If Python's torch is loaded in the process, its kernels are already registered.
    template <class Kernel>
    void add(const std::string& name, const std::string& overload, Kernel&& kernel) {
        const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
        if (op && !op->hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
            library_.impl((overload.empty() ? name : name + "." + overload).c_str(), std::forward<Kernel>(kernel));
        }
    }

    torch::Library library_;
};
}  // namespace

void add_meta_kernels() {
    static const Permanent<MetaKernels> kernels;
}
}  // namespace pipescope
