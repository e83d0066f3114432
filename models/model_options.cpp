#include "models/model_options.h"

#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>

namespace pipescope {
namespace {
std::optional<double> parse_number(std::string_view text) {
    const auto value = number_in<double>(text);
    return value && std::isfinite(*value) ? value : std::nullopt;
}

bool accepts(const ModelOption& option, double value) {
    const bool is_whole = std::floor(value) == value;
    return value >= option.lowest && value <= option.highest &&
           (option.kind == ModelOption::Kind::fraction || is_whole);
}

const ModelOption& find(const std::vector<ModelOption>& options, std::string_view name) {
    const auto found =
        std::find_if(options.begin(), options.end(), [&](const auto& option) { return option.name == name; });
    if (found == options.end()) {
        throw std::logic_error("a model asks for an option it does not declare: " + std::string(name));
    }
    return *found;
}
}  // namespace

std::string number_text(double value) {
    std::array<char, 32> text{};
    const auto written = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 12);
    return {text.data(), written.ptr};
}

ModelOptions::ModelOptions(std::string model, std::vector<ModelOption> defaults, std::string_view given)
    : model_(std::move(model)), options_(std::move(defaults)) {
    while (!given.empty()) {
        const std::size_t comma = given.find(',');
        overlay(given.substr(0, comma));
        if (comma == std::string_view::npos) {
            break;
        }
        given.remove_prefix(comma + 1);
        if (given.empty()) {
            throw UsageError("the options of " + model_ + " end with a comma; an option must follow; remove the comma");
        }
    }
}

std::int64_t ModelOptions::whole(std::string_view name) const {
    return static_cast<std::int64_t>(find(options_, name).value);
}

double ModelOptions::fraction(std::string_view name) const {
    return find(options_, name).value;
}

void ModelOptions::overlay(std::string_view item) {
    const std::size_t equals = item.find('=');
    const std::string name(item.substr(0, equals));
    const auto option =
        std::find_if(options_.begin(), options_.end(), [&](const ModelOption& each) { return each.name == name; });
    if (option == options_.end()) {
        const ModelOption& example = options_.front();
        throw UsageError("'" + name + "' is not an option of " + model_ + "; its options are " + names() +
                         "; write them as " + model_ + ":" + example.name + "=" + number_text(example.value) +
                         (name == "dtype" ? "; for another dtype use 'pipescope profile --dtype'" : ""));
    }
    if (std::find(given_.begin(), given_.end(), name) != given_.end()) {
        throw UsageError("option " + name + " of " + model_ + " is given twice; each may be given once; remove one");
    }
    given_.push_back(name);
    const std::string_view text = equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
    const std::optional<double> value = parse_number(text);
    if (!value || !accepts(*option, *value)) {
        throw UsageError("option " + name + " of " + model_ + " is '" + std::string(text) + "'; it must be a " +
                         (option->kind == ModelOption::Kind::whole ? "whole number" : "number") + " from " +
                         number_text(option->lowest) + " to " + number_text(option->highest) + "; write it as " +
                         model_ + ":" + name + "=" + number_text(option->value));
    }
    option->value = *value;
}

std::string ModelOptions::names() const {
    return joined_text(options_, ", ", &ModelOption::name);
}
}  // namespace pipescope
