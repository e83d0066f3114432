#include "cluster/model_optimizer.h"

#include "base/error.h"
#include "base/parse_name.h"
#include "base/printable.h"

#include <algorithm>

namespace pipescope {
std::string to_string(ModelOptimizer optimizer) {
    switch (optimizer) {
        case ModelOptimizer::adam: return "adam";
        case ModelOptimizer::bf16_adam: return "bf16-adam";
        case ModelOptimizer::adam8bit: return "adam8bit";
        case ModelOptimizer::adafactor: return "adafactor";
        case ModelOptimizer::muon: return "muon";
        case ModelOptimizer::momentum: return "momentum";
        case ModelOptimizer::sgd: return "sgd";
    }
    return "unknown";
}

ModelOptimizer parse_model_optimizer(std::string_view name) {
    using enum ModelOptimizer;
    return name == "adamw"
               ? adam
               : parse_name<ModelOptimizer>(
                     name, {adam, bf16_adam, adam8bit, adafactor, muon, momentum, sgd},
                     option_name("optimizer") + " is '" + printable(std::string(name)) + "' with a gpt: model",
                     "leave it out for adam, which is also named adamw");
}

double moment_bytes(ModelOptimizer optimizer, double element_bytes, bool in_block) {
    const double whole = std::max(4.0, element_bytes);  // float32 at least
    constexpr double kBfloat16 = 2;
    constexpr double kBlock = 256;  // numbers that share a scale
    switch (optimizer) {
        case ModelOptimizer::adam: return 2 * whole;
        case ModelOptimizer::bf16_adam: return 2 * kBfloat16;
        case ModelOptimizer::adam8bit: return 2 * (1 + 4 / kBlock);
        case ModelOptimizer::muon: return in_block ? whole : 2 * whole;
        case ModelOptimizer::momentum: return whole;
        case ModelOptimizer::adafactor:
        case ModelOptimizer::sgd: return 0;
    }
    return 0;
}

double newton_schulz_flops(double rows, double columns) {
    const double n = std::min(rows, columns);
    const double m = std::max(rows, columns);
    constexpr double kSteps = 5;
    return kSteps * 2 * (2 * n * n * m + n * n * n);
}
}  // namespace pipescope
