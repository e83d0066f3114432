#pragma once

#include "cli/command_definition.h"

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The arguments of a `run`, as its definition reads them: a model, and options with at most one value each.
class RunArguments {
public:
    /// Throws UsageError for options that `run` lacks, for an option without its value, and for a second model.
    RunArguments(const std::vector<std::string>& words, const CommandDefinition& run);

    /// Empty if the words name none.
    const std::string& model() const { return model_; }
    bool has(const std::string& option) const;  ///< with its dashes, under any of its names
    /// These arguments with the options of `changes` in the place of their own. If `changes` has a model, `changes`
    /// itself: the arguments of another run.
    RunArguments changed_by(const RunArguments& changes) const;

    /// The model, then the options.
    std::vector<std::string> words() const;
    /// "pipescope run MODEL ..", ready for a shell.
    std::string command() const;

private:
    struct Option {
        const OptionDefinition* definition = nullptr;
        std::string name;  ///< as it was written
        std::optional<std::string> value;
    };
    const OptionDefinition* find(const std::string& name) const;

    const CommandDefinition* run_;  // outlives this
    std::string model_;
    std::vector<Option> options_;
};
}  // namespace pipescope
