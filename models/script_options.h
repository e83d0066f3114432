#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
enum class ScriptLoss { mse, bce, cross_entropy, next_token };

/// What a TorchScript file does not say about itself: the options behind its name on the command line.
struct ScriptOptions {
    std::vector<std::int64_t> input;  ///< shape of one sample; "224" and "3x224x224" are one and three dimensions
    std::int64_t tokens = 0;          ///< 0: the input is floating-point; else token numbers below this
    ScriptLoss loss = ScriptLoss::mse;
};
/// Reads "input=3x224x224,loss=cross_entropy" for the file `path`, which messages name. Throws UsageError for an
/// unknown or repeated option, a value it cannot take, and a missing input.
ScriptOptions parse_script_options(const std::string& path, std::string_view text);
}  // namespace pipescope
