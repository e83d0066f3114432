#pragma once

#include "engine/layer.h"

#include <optional>
#include <string>
#include <string_view>

namespace pipescope {
/// MODEL of the command line where it names a file: "./libmine.so:width=64" is that file and its options.
struct ModelFile {
    std::string path;
    std::string options;  ///< behind the colon; empty where none is
};
/// Nothing, if the text names no file that ends in the suffix (".so", ".pt"). The first colon behind the suffix parts
/// them, so that folders may have colons in their names.
std::optional<ModelFile> model_file(std::string_view model, std::string_view suffix);

/// The model that a shared library exports (models/user_model.h). The library stays loaded as long as the process.
/// Throws UserModelError for a file that is none, exports no model, was built for another PipeScope or another torch,
/// or whose model is incomplete; what the library throws passes on with the file's name, a UsageError as a UsageError.
ModelSpec plugin_model(const ModelFile& file);

/// A TorchScript file (torch.jit.script or trace of a torch.nn.Sequential, then save()). Its layers are the children
/// that its forward calls one after the other, with the weights of the file. The options say what the file does not:
///     input=3x224x224    one sample's shape; required
///     tokens=1000        the input is token numbers below that, not floating-point
///     loss=mse           against a made-up target: mse (default), bce (with logits), cross_entropy (classes in
///                        dimension 1), next_token (classes last; needs tokens)
/// Throws UsageError for the options, UserModelError for the file.
ModelSpec script_model(const ModelFile& file);
}  // namespace pipescope
