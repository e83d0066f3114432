#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
enum class ScriptLoss { mse, bce, cross_entropy, next_token };

/// Facts that a TorchScript file lacks: the options after its name on the command line.
struct ScriptOptions {
    std::vector<std::int64_t> input;  ///< shape of one sample: "224" has one dimension, "3x224x224" three
    std::int64_t tokens = 0;          ///< 0: floating-point input; otherwise token numbers below this
    ScriptLoss loss = ScriptLoss::mse;
};
/// Parses "input=3x224x224,loss=cross_entropy" for the file `path`, which messages name. Throws UsageError for an
/// unknown or repeated option, an invalid value, and a missing input.
ScriptOptions parse_script_options(const std::string& path, std::string_view text);
}  // namespace pipescope
