#include "models/model_files.h"

#include "profiler/profile/profile.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace pipescope {
namespace {
bool is_identifier(std::string_view text) {
    const auto fits = [](unsigned char each) { return std::isalnum(each) != 0 || each == '_'; };
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
           std::ranges::all_of(text, fits);
}

/// "package.module". The names of other files have a dot, too.
bool is_module(std::string_view text) {
    constexpr std::array<std::string_view, 5> kFiles{"pt2", "pth", "onnx", "safetensors", "json"};
    const std::size_t last = text.rfind('.');
    if (last == std::string_view::npos || std::ranges::find(kFiles, text.substr(last + 1)) != kFiles.end()) {
        return false;
    }
    for (std::size_t dot = 0; dot != std::string_view::npos; text.remove_prefix(std::min(dot + 1, text.size()))) {
        dot = text.find('.');
        if (!is_identifier(text.substr(0, dot))) {
            return false;
        }
    }
    return true;
}
}  // namespace

std::optional<ModelFile> model_file(std::string_view model, std::string_view suffix) {
    for (std::size_t at = model.find(suffix); at != std::string_view::npos; at = model.find(suffix, at + 1)) {
        const std::size_t end = at + suffix.size();
        if (end == model.size()) {
            return ModelFile{std::string(model), ""};
        }
        if (model[end] == ':') {
            return ModelFile{std::string(model.substr(0, end)), std::string(model.substr(end + 1))};
        }
    }
    return std::nullopt;
}

std::optional<PythonFunction> python_function(std::string_view text) {
    if (text.starts_with(kEmulatedPrefix) || model_file(text, ".so") || model_file(text, ".pt")) {
        return std::nullopt;  // what follows may have any name
    }
    if (auto file = model_file(text, ".py")) {
        return PythonFunction{std::move(file->path), file->options.empty() ? "make" : std::move(file->options)};
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos || !is_module(text.substr(0, colon)) ||
        !is_identifier(text.substr(colon + 1))) {
        return std::nullopt;
    }
    return PythonFunction{std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}
}  // namespace pipescope
