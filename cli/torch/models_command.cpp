#include "answers/reports.h"
#include "answers/text_table.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/torch/python_models.h"
#include "cli/torch/torch_program.h"
#include "models/zoo.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
struct ModelsFlags {
    std::vector<std::string> models;
    bool json = false;
};

struct NamedSize {
    std::string name;
    ModelSize size;
};

std::vector<NamedSize> sizes_of(const std::vector<std::string>& models, PythonModels* python) {
    std::vector<NamedSize> sizes;
    sizes.reserve(models.size());
    for (const std::string& model : models) {
        const CommandModel made = command_model(model, {.on_meta = true}, python);
        ModelSize size = model_size(made.spec);
        for (const SharedParameter& each : made.shared) {
            size.parameters -= static_cast<std::int64_t>(each.keys.size() - 1) * each.elements;
        }
        sizes.push_back({model, size});
    }
    return sizes;
}

std::string options_text(const std::vector<ZooEntry>& entries) {
    std::string text;
    for (const ZooEntry& entry : entries) {
        text += fmt::format("\n{}: {}\n", entry.name, entry.description);
        for (const auto& [option, meaning] : entry.options) {
            text += fmt::format("  {:<12} {}\n", option, meaning);
        }
    }
    return text;
}

ExitCode models_command(const ModelsFlags& flags, PythonModels* python, const std::vector<std::string>& arguments) {
    for (const std::string& model : flags.models) {
        enter_python(model, "", python, arguments);
    }
    const std::vector<ZooEntry> entries = zoo();
    std::vector<std::string> names = flags.models;
    if (names.empty()) {
        for (const ZooEntry& entry : entries) {
            names.push_back(entry.name);
        }
    }
    const std::vector<NamedSize> sizes = sizes_of(names, python);
    if (flags.json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const NamedSize& model : sizes) {
            list.push_back(
                {{"name", model.name}, {"layers", model.size.layers}, {"parameters", model.size.parameters}});
        }
        std::cout << dump({{"models", std::move(list)}});
        return ExitCode::success;
    }
    TextTable table({{"model", Align::left}, {"layers"}, {"parameters"}});
    for (const NamedSize& model : sizes) {
        table.add_row({model.name, std::to_string(model.size.layers), std::to_string(model.size.parameters)});
    }
    std::cout << table.str() << (flags.models.empty() ? options_text(entries) : "");
    return ExitCode::success;
}
}  // namespace

void add_models_command(Program& program, PythonModels* python) {
    const auto flags = std::make_shared<ModelsFlags>();
    CLI::App* command = program.add_command("models", "List the built-in models, or show the size of a model",
                                            "Examples:\n"
                                            "  pipescope models\n"
                                            "  pipescope models transformer:layers=12,width=512 unet:B=48,C=160\n"
                                            "  pipescope models ./libmine.so:width=64 net.pt:input=3x32x32\n"
                                            "Models are built on torch's meta device, so no size needs memory.");
    command->add_option(
        "MODEL", flags->models,
        "Built-in model with options, a .so or .pt file, a function in Python such as model.py:make, or "
        "emulated:PROFILE; default: all built-in models");
    add_json_flag(*command, flags->json);
    program.set_action(command,
                       [flags, python, &program] { return models_command(*flags, python, program.arguments()); });
}
}  // namespace pipescope
