#pragma once

#include "engine/layer.h"
#include "schedule/error.h"

#include <cstdint>
#include <string>
#include <string_view>

/// Models of your own, as a shared library: `pipescope run ./libmine.so:width=64 ..`.
///
/// The library exports one function, `pipescope_model`. PIPESCOPE_USER_MODEL defines it:
///
///     #include <torch/torch.h>
///     #include "models/user_model.h"
///
///     pipescope::ModelSpec make(const std::string& options) { .. }   // "width=64", or "" where none were given
///     PIPESCOPE_USER_MODEL(make)
///
/// Link it to pipescope::user_model only (find_package(pipescope)): that is headers, torch, and module_layer() and its
/// like, which keep no state. The engine lives in the program that loads the library, once; a second copy of it in the
/// library would be a second set of its operators. Build with the compiler and the torch that PipeScope was built with;
/// what cannot match is found when the library is loaded, before anything of it runs.
/// Errors: what `make` throws ends the command; a UsageError says that the options are wrong. docs/user-models.md has
/// all rules.
namespace pipescope {
/// A shared library or a TorchScript file that gives no model.
class UserModelError : public Error {
public:
    using Error::Error;
};

/// Changes whenever a struct below, Layer, SkipContext or ModelSpec changes its layout.
inline constexpr std::uint32_t kUserModelAbi = 1;
}  // namespace pipescope

/// What `pipescope_model` returns. The first two fields keep their place for ever; what follows is read only where
/// they agree with the program's own.
extern "C" struct PipescopeUserModel {
    std::uint32_t abi;          ///< kUserModelAbi as the library was compiled
    const char* torch_version;  ///< TORCH_VERSION as the library was compiled
    /// Fills in `model`, or throws.
    void (*make)(const std::string& options, pipescope::ModelSpec& model);
};

/// `function` is called with the options behind the colon and returns a pipescope::ModelSpec. Once in a library, at
/// global scope, in a file that includes <torch/torch.h>.
#define PIPESCOPE_USER_MODEL(function)                                                                 \
    extern "C" __attribute__((visibility("default"))) const PipescopeUserModel* pipescope_model() {    \
        static const PipescopeUserModel model{                                                         \
            pipescope::kUserModelAbi, TORCH_VERSION,                                                   \
            [](const std::string& options, pipescope::ModelSpec& made) { made = function(options); }}; \
        return &model;                                                                                 \
    }
