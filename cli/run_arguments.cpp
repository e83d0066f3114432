#include "cli/run_arguments.h"

#include "answers/profile_again.h"
#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

namespace pipescope {
namespace {
bool is_option(const std::string& word) {
    return word.size() > 1 && word[0] == '-' && (word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])));
}

/// "--steps=4" and "-m4" hold name and value in one word.
std::pair<std::string, std::optional<std::string>> split(const std::string& word) {
    const std::size_t sign = word.find('=');
    if (word.starts_with("--")) {
        return sign == std::string::npos ? std::pair(word, std::optional<std::string>())
                                         : std::pair(word.substr(0, sign), std::optional(word.substr(sign + 1)));
    }
    const std::size_t value = sign == 2 ? 3 : 2;
    return {word.substr(0, 2), word.size() > 2 ? std::optional(word.substr(value)) : std::nullopt};
}
}  // namespace

RunArguments::RunArguments(const std::vector<std::string>& words, const CommandDefinition& run) : run_(&run) {
    for (std::size_t k = 0; k < words.size(); ++k) {
        if (!is_option(words[k])) {
            if (!model_.empty()) {
                throw UsageError(
                    fmt::format("'{}' follows the model '{}'; a run has one model; leave one out", words[k], model_));
            }
            model_ = words[k];
            continue;
        }
        auto [name, value] = split(words[k]);
        const OptionDefinition* definition = find(name);
        if (definition == nullptr) {
            throw UsageError(fmt::format("{} is no option of run; 'pipescope run --help' lists them", name));
        }
        const bool is_flag = definition->value.empty();
        if (!is_flag && !value) {
            if (++k == words.size()) {
                throw UsageError(fmt::format("{} has no value; give one: {} {}", name, name, definition->value));
            }
            value = words[k];
        }
        options_.push_back({definition, std::move(name), std::move(value)});
    }
}

const OptionDefinition* RunArguments::find(const std::string& name) const {
    const auto found = std::ranges::find_if(run_->options, [&](const OptionDefinition& each) {
        return std::ranges::find(each.names, name) != each.names.end();
    });
    return found == run_->options.end() ? nullptr : &*found;
}

bool RunArguments::has(const std::string& option) const {
    const OptionDefinition* definition = find(option);
    return definition != nullptr && std::ranges::find(options_, definition, &Option::definition) != options_.end();
}

RunArguments RunArguments::changed_by(const RunArguments& changes) const {
    if (!changes.model_.empty()) {
        return changes;
    }
    RunArguments changed = *this;
    for (const Option& each : changes.options_) {
        const auto same = std::ranges::find(changed.options_, each.definition, &Option::definition);
        if (same != changed.options_.end()) {
            *same = each;
        } else {
            changed.options_.push_back(each);
        }
    }
    return changed;
}

std::vector<std::string> RunArguments::words() const {
    std::vector<std::string> words{model_};
    for (const Option& each : options_) {
        words.push_back(each.name);
        if (each.value) {
            words.push_back(*each.value);
        }
    }
    return words;
}

std::string RunArguments::command() const {
    return "pipescope run " + shell_words(words());
}
}  // namespace pipescope
