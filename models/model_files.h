#pragma once

#include "engine/layer.h"

#include <optional>
#include <string>
#include <string_view>

namespace pipescope {
/// A MODEL of the command line that names a file: "./libmine.so:width=64" is a path and its options.
struct ModelFile {
    std::string path;
    std::string options;  ///< after the colon; empty if there are none
};
/// Empty unless the text names a file that ends in the suffix (".so", ".pt"). The first colon after the suffix starts
/// the options, so folders may have colons in their names.
std::optional<ModelFile> model_file(std::string_view model, std::string_view suffix);

/// A function in Python: "model.py:make" or "package.module:make".
struct PythonFunction {
    std::string module;  ///< a path that ends in .py, or a module's name, which has a dot
    std::string name;    ///< "make" if the text is only a path
};
/// Empty unless the text names one.
std::optional<PythonFunction> python_function(std::string_view text);

/// The model exported by a shared library (models/user_model.h). The library stays loaded for the life of the process.
/// Throws UserModelError if the file is not a library, exports no model, was built for another PipeScope or torch, or
/// exports an incomplete model. Rethrows the library's exceptions with the file's name; a UsageError stays a
/// UsageError.
ModelSpec plugin_model(const ModelFile& file);

/// A model from a TorchScript file (torch.jit.script or trace of a torch.nn.Sequential, then save()). Its layers are
/// the children that forward calls in sequence, with the weights in the file. The options add what the file lacks:
///     input=3x224x224    one sample's shape; required
///     tokens=1000        the input is token numbers below this, not floating-point
///     loss=mse           against a made-up target: mse (default), bce (with logits), cross_entropy (classes in
///                        dimension 1), next_token (classes last; needs tokens)
/// Throws UsageError for the options, UserModelError for the file.
ModelSpec script_model(const ModelFile& file);
}  // namespace pipescope
