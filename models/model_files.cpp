#include "models/model_files.h"

namespace pipescope {
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
}  // namespace pipescope
