#pragma once

#include "cli/torch/lane_optimizers.h"
#include "engine/engine_options.h"
#include "engine/layer.h"
#include "profiler/profile/shared_parameter.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pipescope {
/// How a command is going to use a MODEL.
struct ModelUse {
    bool trains = false;                      ///< false: it measures or counts, and gets copies of the layers
    bool on_meta = false;                     ///< layers and batches are to lie on the meta device
    std::string dtype = {};                   ///< cast the model to it; empty: it stays as it is made
    std::string batch_from = {};              ///< --batch-from; empty: not given
    std::uint64_t seed = 0;                   ///< of the initial weights
    std::vector<std::int64_t> samples = {2};  ///< of its micro-batches
};

/// A MODEL with what the engine has to know besides.
struct CommandModel {
    ModelSpec spec;
    MiniBatchSplit split = {};                                 ///< GPipeOptions::split
    std::function<double(const Tensors& target)> weight = {};  ///< GPipeOptions::weight
    std::function<void()> on_exception = {};                   ///< GPipeOptions::on_exception
    std::vector<SharedParameter> shared = {};                  ///< GPipeOptions::shared, with their sizes
    bool makes_meta_batches = false;                           ///< MetaProfileOptions::makes_meta_batches
    /// The model's own optimizer, unless empty; its learning rate, and the optimizer, or the number, for
    /// optimizer_state_factor().
    MakeOptimizer make_optimizer = {};
    std::string optimizer = {};
    double learning_rate = 0;
};

/// The models that are functions in Python, in a process that runs Python.
///
/// The commands are the same code in both programs: pipescope-torch, without Python, becomes a Python process for such
/// a MODEL, which runs the commands with these models. So there is one table of options, and one answer.
class PythonModels {
public:
    PythonModels() = default;
    virtual ~PythonModels() = default;
    PythonModels(const PythonModels&) = delete;
    PythonModels& operator=(const PythonModels&) = delete;

    /// Throws UsageError for a file or function that is not there, or that makes no model that can be cut.
    virtual CommandModel make(const std::string& model, const ModelUse& use) = 0;
    /// Called while an exception is handled. Throws it again: an exception of Python as an Error, once its traceback is
    /// printed, all others unchanged. Does not return.
    virtual void rethrow() = 0;
};

/// True for a MODEL that is a function in Python.
bool is_python_model(const std::string& model);
/// Refuses --batch-from for other models. If the MODEL is in Python and `python` is null, becomes the Python process
/// with these arguments. Throws Error if there is none.
void enter_python(const std::string& model, const std::string& batch_from, PythonModels* python,
                  const std::vector<std::string>& arguments);
/// Any MODEL. Precondition: enter_python(), for one in Python.
CommandModel command_model(const std::string& model, const ModelUse& use, PythonModels* python);
}  // namespace pipescope
