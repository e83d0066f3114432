#include "cli/torch/unsplit_layers.h"

#include "base/printable.h"
#include "base/quantities.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

// Further names are only counted: the JSON has all.
constexpr std::size_t kMostNames = 4;

/// "a, b and 3 more"
std::string listed(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t k = 0; k < std::min(names.size(), kMostNames); ++k) {
        text += (k == 0 ? "" : ", ") + names[k];
    }
    return names.size() > kMostNames ? fmt::format("{} and {} more", text, names.size() - kMostNames) : text;
}

std::string line(const std::vector<UnsplitLayer>& layers, bool in_part) {
    std::vector<std::string> names;
    std::set<std::string> nodes;
    for (const UnsplitLayer& layer : layers) {
        if (layer.in_part == in_part) {
            names.push_back(printable(layer.name));
            nodes.insert(layer.nodes.begin(), layer.nodes.end());
        }
    }
    if (names.empty()) {
        return "";
    }
    return fmt::format("{} {}: {} (because of {})\n", in_part ? "split in part" : "not split",
                       counted(names.size(), "layer", "layers"), listed(names), listed({nodes.begin(), nodes.end()}));
}
}  // namespace

std::string unsplit_json(const std::vector<UnsplitLayer>& layers) {
    Json array = Json::array();
    for (const UnsplitLayer& layer : layers) {
        array.push_back(
            {{"layer", layer.id.value()}, {"name", layer.name}, {"in_part", layer.in_part}, {"nodes", layer.nodes}});
    }
    return array.dump();
}

std::vector<UnsplitLayer> parse_unsplit(std::string_view json) {
    std::vector<UnsplitLayer> layers;
    for (const Json& each : Json::parse(json)) {
        layers.push_back(
            {LayerId{each.at("layer").get<std::int64_t>()}, each.at("name"), each.at("in_part"), each.at("nodes")});
    }
    return layers;
}

std::string unsplit_text(const std::vector<UnsplitLayer>& layers) {
    return line(layers, false) + line(layers, true);
}
}  // namespace pipescope
