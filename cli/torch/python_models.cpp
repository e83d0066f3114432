#include "cli/torch/python_models.h"

#include "base/error.h"
#include "cli/child_process.h"
#include "models/cast_model.h"
#include "models/model_files.h"
#include "models/zoo.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

/// Says what is missing in one line, instead of a traceback.
constexpr const char* kStart = R"(import sys
try:
    from pipescope._commands import main
except ImportError as error:
    sys.exit(f"pipescope: the model is in Python, and {sys.executable} cannot load pipescope's engine ({error}); install its "
             "wheels and torch there, or name another Python in PIPESCOPE_PYTHON")
main()
)";

std::optional<fs::path> on_path(const std::string& name) {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (const fs::path program = fs::path(folder.empty() ? "." : folder) / name; is_executable(program)) {
            return program;
        }
    }
    return std::nullopt;
}

fs::path python_program(const std::string& model) {
    const char* const named = std::getenv("PIPESCOPE_PYTHON");
    const std::string name = named != nullptr && *named != '\0' ? named : "python3";
    const auto program = name.find('/') == std::string::npos ? on_path(name)
                         : is_executable(name)               ? std::optional<fs::path>(name)
                                                             : std::nullopt;
    if (!program) {
        throw Error(
            fmt::format("model '{}' is a function in Python, and there is no {}; install Python with pipescope's "
                        "wheels, or name it in PIPESCOPE_PYTHON",
                        model, name == "python3" ? "python3 on the PATH" : name));
    }
    return *program;
}
}  // namespace

bool is_python_model(const std::string& model) {
    return python_function(model).has_value();
}

void enter_python(const std::string& model, const std::string& batch_from, PythonModels* python,
                  const std::vector<std::string>& arguments) {
    if (!is_python_model(model)) {
        if (!batch_from.empty() && !model.empty()) {
            throw UsageError(
                fmt::format("--batch-from is {} for {}; it names the data of a model in Python (model.py:make); "
                            "leave it out",
                            batch_from, model));
        }
        return;
    }
    if (python == nullptr) {
        std::vector<std::string> words{"-c", kStart};
        words.insert(words.end(), arguments.begin(), arguments.end());
        execute(python_program(model), words);
    }
}

CommandModel command_model(const std::string& model, const ModelUse& use, PythonModels* python) {
    if (is_python_model(model)) {
        return python->make(model, use);
    }
    CommandModel made{make_model(model)};
    if (!use.dtype.empty()) {
        made.spec = cast_model(std::move(made.spec), scalar_type(use.dtype).value());
    }
    return made;
}
}  // namespace pipescope
