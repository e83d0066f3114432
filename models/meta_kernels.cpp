#include "models/meta_kernels.h"

#include "engine/layer_dispatch_key.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
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

// Operators that torch decomposes on the meta device, or runs differently than on the CPU. These versions create the
// same tensors as the CPU's kernels, so that a layer saves the same bytes for its backward.

/// Statistics are in single precision if the input has less.
at::TensorOptions statistics_of(const Tensor& input) {
    const bool is_reduced = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
    return input.options().dtype(is_reduced ? at::kFloat : input.scalar_type());
}

ThreeTensors layer_norm(const Tensor& input, IntArrayRef normalized, const OptionalTensor&, const OptionalTensor&,
                        double) {
    auto rows = input.sizes().vec();
    for (std::size_t i = rows.size() - normalized.size(); i < rows.size(); ++i) {
        rows[i] = 1;
    }
    const at::TensorOptions statistics = statistics_of(input);
    return {at::empty_like(input, input.options(), at::MemoryFormat::Contiguous), at::empty(rows, statistics),
            at::empty(rows, statistics)};
}

ThreeTensors group_norm(const Tensor& input, const OptionalTensor&, const OptionalTensor&, std::int64_t samples,
                        std::int64_t, std::int64_t, std::int64_t groups, double) {
    const at::TensorOptions statistics = statistics_of(input);
    return {at::empty_like(input), at::empty({samples, groups}, statistics), at::empty({samples, groups}, statistics)};
}

Tensor& relu_(Tensor& input) {
    return input;
}

/// (batch, heads, sequence, features), laid out as (batch, sequence, heads, features), like the CPU's kernel.
std::tuple<Tensor, Tensor> flash_attention(const Tensor& query, const Tensor&, const Tensor&, double, bool,
                                           const OptionalTensor&, std::optional<double>) {
    const Tensor output = at::empty({query.size(0), query.size(2), query.size(1), query.size(3)}, query.options());
    const Tensor sums = at::empty({query.size(0), query.size(2), query.size(1)}, statistics_of(query));
    return {output.transpose(1, 2), sums.transpose(1, 2)};
}

ThreeTensors flash_attention_backward(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Tensor&, const Tensor&, double, bool, const OptionalTensor&,
                                      std::optional<double>) {
    const auto laid_out_like = [](const Tensor& tensor) {
        return at::empty({tensor.size(0), tensor.size(2), tensor.size(1), tensor.size(3)}, tensor.options())
            .transpose(1, 2);
    };
    return {laid_out_like(query), laid_out_like(key), laid_out_like(value)};
}

/// torch asks each device for its choice, and falls back to plain operators on meta. This makes the CPU's choice.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                 double dropout, bool is_causal, std::optional<double> scale, bool is_grouped) {
    const auto is_symbolic = [](const Tensor& tensor) {
        return tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
    };
    if (is_symbolic(query) || is_symbolic(key) || is_symbolic(value)) {  // torch.export, which needs shapes only
        return std::get<0>(
            at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, is_causal, {}, scale, is_grouped));
    }
    const auto ends_dense = [](const Tensor& tensor) { return tensor.stride(-1) == 1; };
    const bool fits = query.dim() == 4 && query.size(-1) == key.size(-1) && key.size(-1) == value.size(-1) &&
                      ends_dense(query) && ends_dense(key) && ends_dense(value) && dropout == 0 && !is_grouped &&
                      query.numel() > 0 && key.numel() > 0 && query.size(1) == key.size(1) &&
                      !(mask && mask->defined() && mask->requires_grad());
    if (fits) {
        return std::get<0>(
            at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, is_causal, mask, scale));
    }
    return std::get<0>(
        at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, is_causal, {}, scale, is_grouped));
}

/// Operators whose results have the shapes and types of some of their arguments. Lists these arguments in the order of
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
    MetaKernels()
        : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__),
          autograd_(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__) {
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
        add("native_layer_norm", "", &layer_norm);
        add("native_group_norm", "", &group_norm);
        add("relu_", "", &relu_);
        add("_scaled_dot_product_flash_attention_for_cpu", "", &flash_attention);
        add("_scaled_dot_product_flash_attention_for_cpu_backward", "", &flash_attention_backward);
        autograd_.impl("scaled_dot_product_attention", &attention);  // above autograd, where the choice is made
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
    torch::Library autograd_;
};
}  // namespace

void add_meta_kernels() {
    static const NoDestructor<MetaKernels> kernels;
}
}  // namespace pipescope
