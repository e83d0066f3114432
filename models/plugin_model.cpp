// Loads a user's shared library into this process. Two conditions must hold. There must be only one torch: the loader
// ensures it by the library's name, in whatever folder. And the structs passed must have the same layout: this is
// checked before any other code of the library runs.

#include "engine/library_opening.h"
#include "models/model_files.h"
#include "models/user_model.h"

#include <dlfcn.h>
#include <torch/version.h>

#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipescope {
namespace {
constexpr const char* kSymbol = "pipescope_model";
using GetUserModel = const PipescopeUserModel* (*)();

std::string loader_error() {
    const char* const text = dlerror();
    return text == nullptr ? "no reason given" : text;
}

void* load_plugin(const std::string& path) {
    if (!std::filesystem::is_regular_file(path)) {
        throw UserModelError("'" + path + "' is not a file; a model ending in .so is a shared library; check the path");
    }
    // Absolute, because the loader searches a bare name only in system folders.
    const std::string absolute = std::filesystem::absolute(path).string();
    void* const library = open_library(absolute, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        throw UserModelError("'" + path + "' cannot be loaded: " + loader_error() +
                             "; it must be a shared library built against LibTorch " TORCH_VERSION
                             " for this machine; build it with find_package(pipescope)");
    }
    return library;
}

const PipescopeUserModel& exported_model(void* library, const std::string& path) {
    const auto get = reinterpret_cast<GetUserModel>(dlsym(library, kSymbol));
    if (get == nullptr) {
        throw UserModelError("'" + path + "' exports no function " + kSymbol +
                             "; a model's library has one; write PIPESCOPE_USER_MODEL(your_function), from "
                             "models/user_model.h, in it");
    }
    const PipescopeUserModel* const model = get();
    if (model == nullptr) {
        throw UserModelError("'" + path + "' returns no model from " + kSymbol +
                             "; it must not be null; define it by PIPESCOPE_USER_MODEL");
    }
    if (model->abi != kUserModelAbi) {
        throw UserModelError("'" + path + "' was built for version " + std::to_string(model->abi) +
                             " of PipeScope's model interface; this program has version " +
                             std::to_string(kUserModelAbi) + "; build it again with this PipeScope's headers");
    }
    const std::string_view torch = model->torch_version == nullptr ? "an unknown version" : model->torch_version;
    if (torch != TORCH_VERSION) {
        throw UserModelError("'" + path + "' was built against LibTorch " + std::string(torch) +
                             "; this program runs LibTorch " TORCH_VERSION
                             ", and a process can have only one; build it again against that");
    }
    return *model;
}

// Reports missing symbols now, not in the middle of training.
void resolve_all_symbols(const std::string& path) {
    if (open_library(std::filesystem::absolute(path).string(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
        throw UserModelError("'" + path + "' lacks a function: " + loader_error() +
                             "; link it to pipescope::user_model and to its other dependencies");
    }
}

ModelSpec made(const PipescopeUserModel& exported, const ModelFile& file) {
    ModelSpec model;
    try {
        exported.make(file.options, model);
    } catch (const UsageError& error) {
        throw UsageError("'" + file.path + "': " + error.what());
    } catch (const std::exception& error) {
        throw UserModelError("'" + file.path + "' threw while it created its model: " + error.what());
    } catch (...) {
        throw UserModelError(
            "'" + file.path +
            "' threw an exception that is not a std::exception while it created its model; throw one that "
            "says what is wrong");
    }
    return model;
}

void check_complete(const ModelSpec& model, const std::string& path) {
    const auto refuse = [&](const std::string& what) { throw UserModelError("'" + path + "' gives a model " + what); };
    if (model.layers.empty()) {
        refuse("without layers; there must be at least one; fill in ModelSpec::layers");
    }
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
        if (!model.layers[i].make) {
            refuse("whose layer " + std::to_string(i) + " ('" + model.layers[i].name +
                   "') has no factory; set LayerSpec::make");
        }
    }
    if (!model.make_batch) {
        refuse("that makes no data; profile and run need some; set ModelSpec::make_batch");
    }
    if (!model.loss) {
        refuse("without a loss; training needs one; set ModelSpec::loss");
    }
}
}  // namespace

ModelSpec plugin_model(const ModelFile& file) {
    void* const library = load_plugin(file.path);
    const PipescopeUserModel& exported = exported_model(library, file.path);
    resolve_all_symbols(file.path);
    ModelSpec model = made(exported, file);
    check_complete(model, file.path);
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
        if (model.layers[i].name.empty()) {
            model.layers[i].name = std::to_string(i);
        }
    }
    return model;
}
}  // namespace pipescope
