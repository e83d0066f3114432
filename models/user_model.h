#pragma once

#include "base/error.h"
#include "engine/layer.h"

#include <cstdint>
#include <string>
#include <string_view>

/// User models in a shared library: `pipescope run ./libmine.so:width=64 ..`.
///
/// The library exports one function, `pipescope_model`, which PIPESCOPE_USER_MODEL defines:
///
///     #include <torch/torch.h>
///     #include <pipescope/models/user_model.h>
///
///     pipescope::ModelSpec make(const std::string& options) { .. }   // "width=64", or "" where none were given
///     PIPESCOPE_USER_MODEL(make)
///
/// Link it only to pipescope::user_model (find_package(pipescope)): headers, torch, and stateless functions such as
/// module_layer(). The engine must exist once, in the program that loads the library; a second copy would register its
/// operators twice. Build with the same compiler and torch as PipeScope. Mismatches are detected when the library is
/// loaded, before its code runs.
/// Errors: an exception of `make` ends the command; UsageError means that the options are wrong. docs/user-models.md
/// has all rules.
namespace pipescope {
/// A shared library or TorchScript file that does not provide a model.
class UserModelError : public Error {
public:
    using Error::Error;
};

/// Changes with the layout of a struct below, or of Layer, SkipContext or ModelSpec.
inline constexpr std::uint32_t kUserModelAbi = 2;
}  // namespace pipescope

/// Returned by `pipescope_model`. The first two fields never move. The program reads the rest only if they match its
/// values.
extern "C" struct PipescopeUserModel {
    std::uint32_t abi;          ///< kUserModelAbi at the library's compile time
    const char* torch_version;  ///< TORCH_VERSION at the library's compile time
    /// Fills `model`, or throws.
    void (*make)(const std::string& options, pipescope::ModelSpec& model);
};

/// `function` takes the options after the colon and returns a pipescope::ModelSpec. Use it once per library, at global
/// scope, in a file that includes <torch/torch.h>.
#define PIPESCOPE_USER_MODEL(function)                                                                 \
    extern "C" __attribute__((visibility("default"))) const PipescopeUserModel* pipescope_model() {    \
        static const PipescopeUserModel model{                                                         \
            pipescope::kUserModelAbi, TORCH_VERSION,                                                   \
            [](const std::string& options, pipescope::ModelSpec& made) { made = function(options); }}; \
        return &model;                                                                                 \
    }
