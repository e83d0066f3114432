#include "models/cast_model.h"

#include <array>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
struct NamedType {
    std::string_view name;
    at::ScalarType type;
};
constexpr std::array kTypes{NamedType{"float64", at::kDouble}, NamedType{"float32", at::kFloat},
                            NamedType{"tf32", at::kFloat}, NamedType{"float16", at::kHalf},
                            NamedType{"bfloat16", at::kBFloat16}};

Tensors cast(const Tensors& tensors, at::ScalarType type) {
    Tensors result;
    for (const at::Tensor& tensor : tensors) {
        result.push_back(tensor.defined() && tensor.is_floating_point() ? tensor.to(type) : tensor);
    }
    return result;
}
}  // namespace

std::optional<at::ScalarType> scalar_type(const std::string& dtype) {
    for (const NamedType& each : kTypes) {
        if (each.name == dtype) {
            return each.type;
        }
    }
    return std::nullopt;
}

std::string dtype_name(at::ScalarType type) {
    for (const NamedType& each : kTypes) {
        if (each.type == type) {
            return std::string(each.name);
        }
    }
    return {};
}

ModelSpec cast_model(ModelSpec model, at::ScalarType type) {
    for (LayerSpec& layer : model.layers) {
        layer.make = [make = std::move(layer.make), type] {
            auto made = make();
            made->to(type);
            return made;
        };
    }
    if (model.make_batch) {
        model.make_batch = [make = std::move(model.make_batch), type](std::int64_t batch, std::uint64_t seed) {
            const Batch made = make(batch, seed);
            return Batch{cast(made.input, type), cast(made.target, type)};
        };
    }
    return model;
}
}  // namespace pipescope
