#pragma once

#include <string>
#include <string_view>

namespace pipescope {
/// What updates the parameters of a language model, and what it keeps of each.
enum class ModelOptimizer {
    adam,       ///< two moments in float32, or in float64 for float64 parameters; AdamW too
    bf16_adam,  ///< two moments in bfloat16 (DeepSeek-V3, arXiv 2412.19437, section 3.3.2)
    adam8bit,   ///< two moments of a byte, with a float32 scale for each 256 (arXiv 2110.02861)
    adafactor,  ///< a number for each row and column of a matrix, which is not counted (arXiv 1804.04235)
    muon,       ///< a momentum in float32 for blocks (Jordan, 2024; arXiv 2502.16982); other weights as with adam
    momentum,   ///< a momentum in float32
    sgd,        ///< nothing
};
std::string to_string(ModelOptimizer optimizer);
/// Takes "adamw" for adam. Throws UsageError that lists the names.
ModelOptimizer parse_model_optimizer(std::string_view name);

/// Bytes that the optimizer keeps of each trained parameter of `element_bytes`, without a copy of the parameter.
/// `in_block`: of a block, not of the embedding or the output layer.
double moment_bytes(ModelOptimizer optimizer, double element_bytes, bool in_block);

/// Operations of Muon's update of a matrix: five Newton-Schulz steps, each with a product of the matrix and its
/// transpose, the square of that, and a product with the matrix. A multiply-add counts as two. Source: arXiv
/// 2502.16982, section 2.1.
double newton_schulz_flops(double rows, double columns);
}  // namespace pipescope
