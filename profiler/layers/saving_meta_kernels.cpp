// Shapes of operators whose meta kernel torch only has in Python. Each creates tensors of the shapes that the CPU's
// kernel creates, including those saved for the backward, so that a layer holds the same bytes on meta as on the CPU.

#include "profiler/layers/saving_meta_kernels.h"

#include "engine/layer_dispatch_key.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>

namespace pipescope {
namespace {
using at::IntArrayRef;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;
using Mask = std::array<bool, 3>;

bool has(const MaybeTensor& tensor) {
    return tensor && tensor->defined();
}

Tensor like_if(bool wanted, const Tensor& tensor) {
    return wanted ? at::empty_like(tensor, tensor.options(), at::MemoryFormat::Contiguous) : Tensor();
}

Tensor like_if(bool wanted, const MaybeTensor& tensor) {
    return wanted && has(tensor) ? at::empty_like(*tensor) : Tensor();
}

// Statistics are in single precision if the input has less.
at::TensorOptions statistics_of(const Tensor& input) {
    const bool is_reduced = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
    return input.options().dtype(is_reduced ? at::kFloat : input.scalar_type());
}

ThreeTensors layer_norm(const Tensor& input, IntArrayRef normalized, const MaybeTensor&, const MaybeTensor&, double) {
    auto rows = input.sizes().vec();
    for (std::size_t i = rows.size() - normalized.size(); i < rows.size(); ++i) {
        rows[i] = 1;
    }
    const at::TensorOptions statistics = statistics_of(input);
    return {at::empty_like(input, input.options(), at::MemoryFormat::Contiguous), at::empty(rows, statistics),
            at::empty(rows, statistics)};
}

ThreeTensors layer_norm_backward(const Tensor&, const Tensor& input, IntArrayRef, const Tensor&, const Tensor&,
                                 const MaybeTensor& weight, const MaybeTensor& bias, Mask wanted) {
    return {like_if(wanted[0], input), like_if(wanted[1], weight), like_if(wanted[2], bias)};
}

ThreeTensors group_norm(const Tensor& input, const MaybeTensor&, const MaybeTensor&, std::int64_t samples, std::int64_t,
                        std::int64_t, std::int64_t groups, double) {
    const at::TensorOptions statistics = statistics_of(input);
    return {at::empty_like(input), at::empty({samples, groups}, statistics), at::empty({samples, groups}, statistics)};
}

ThreeTensors group_norm_backward(const Tensor&, const Tensor& input, const Tensor&, const Tensor&,
                                 const MaybeTensor& weight, std::int64_t, std::int64_t channels, std::int64_t,
                                 std::int64_t, Mask wanted) {
    const auto parameters = has(weight) ? weight->options() : input.options();
    const auto per_channel = [&](bool one) { return one ? at::empty({channels}, parameters) : Tensor(); };
    return {like_if(wanted[0], input), per_channel(wanted[1]), per_channel(wanted[2])};
}

Tensor relu(const Tensor& input) {
    return at::empty_like(input);
}

Tensor& relu_(Tensor& input) {
    return input;
}

// (batch, heads, sequence, features), laid out as (batch, sequence, heads, features), like the CPU's kernel.
std::tuple<Tensor, Tensor> flash_attention(const Tensor& query, const Tensor&, const Tensor&, double, bool,
                                           const MaybeTensor&, std::optional<double>) {
    const Tensor output = at::empty({query.size(0), query.size(2), query.size(1), query.size(3)}, query.options());
    const Tensor sums = at::empty({query.size(0), query.size(2), query.size(1)}, statistics_of(query));
    return {output.transpose(1, 2), sums.transpose(1, 2)};
}

ThreeTensors flash_attention_backward(const Tensor&, const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Tensor&, const Tensor&, double, bool, const MaybeTensor&,
                                      std::optional<double>) {
    const auto laid_out_like = [](const Tensor& tensor) {
        return at::empty({tensor.size(0), tensor.size(2), tensor.size(1), tensor.size(3)}, tensor.options())
            .transpose(1, 2);
    };
    return {laid_out_like(query), laid_out_like(key), laid_out_like(value)};
}

// torch asks each device for its choice, and falls back to plain operators on meta. This makes the CPU's choice.
Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask, double dropout,
                 bool is_causal, std::optional<double> scale, bool is_grouped) {
    const auto ends_dense = [](const Tensor& tensor) { return tensor.stride(-1) == 1; };
    const bool fits = query.dim() == 4 && query.size(-1) == key.size(-1) && key.size(-1) == value.size(-1) &&
                      ends_dense(query) && ends_dense(key) && ends_dense(value) && dropout == 0 && !is_grouped &&
                      query.numel() > 0 && key.numel() > 0 && query.size(1) == key.size(1) &&
                      !(has(mask) && mask->requires_grad());
    if (fits) {
        return std::get<0>(
            at::_scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout, is_causal, mask, scale));
    }
    return std::get<0>(
        at::_scaled_dot_product_attention_math(query, key, value, mask, dropout, is_causal, {}, scale, is_grouped));
}

Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
    const auto values = at::infer_size(self.sizes(), other.sizes());
    out.resize_(at::infer_size(condition.sizes(), values));
    return out;
}

Tensor mse_loss_backward(const Tensor&, const Tensor& self, const Tensor&, std::int64_t) {
    return at::empty_like(self, self.options(), at::MemoryFormat::Contiguous);
}

/// Process-wide, as operators are.
class SavingMetaKernels {
public:
    SavingMetaKernels()
        : library_(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__),
          autograd_(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__) {
        add("native_layer_norm", &layer_norm);
        add("native_layer_norm_backward", &layer_norm_backward);
        add("native_group_norm", &group_norm);
        add("native_group_norm_backward", &group_norm_backward);
        add("relu", &relu);
        add("relu_", &relu_);
        add("mse_loss_backward", &mse_loss_backward);
        add("where", &where_out, "self_out");
        add("_scaled_dot_product_flash_attention_for_cpu", &flash_attention);
        add("_scaled_dot_product_flash_attention_for_cpu_backward", &flash_attention_backward);
        // Above autograd, where the choice is made.
        autograd_.impl("scaled_dot_product_attention", &attention);
    }

private:
    template <class Function>
    void add(const std::string& name, Function* function, const std::string& overload = "") {
        const auto op = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
        if (op && !op->hasKernelForDispatchKey(c10::DispatchKey::Meta)) {
            library_.impl((overload.empty() ? name : name + "." + overload).c_str(), function);
        }
    }

    torch::Library library_;
    torch::Library autograd_;
};
}  // namespace

void add_saving_meta_kernels() {
    static const NoDestructor<SavingMetaKernels> kernels;
}
}  // namespace pipescope
