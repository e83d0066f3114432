#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// An option of a model, with its default and valid range.
struct ModelOption {
    enum class Kind { whole, fraction };

    std::string name;
    double value = 0;
    double lowest = 1;
    double highest = 1'000'000;
    std::string meaning;
    Kind kind = Kind::whole;
};

/// The options of one model: defaults, overridden by the command line.
class ModelOptions {
public:
    /// `given` is "B=5,C=64" or empty. Throws UsageError for an unknown or repeated option, a value that is not a
    /// number, and a number out of range.
    ModelOptions(std::string model, std::vector<ModelOption> defaults, std::string_view given);

    const std::string& model() const noexcept { return model_; }
    std::int64_t whole(std::string_view name) const;
    double fraction(std::string_view name) const;

private:
    void overlay(std::string_view item);
    std::string names() const;

    std::string model_;
    std::vector<ModelOption> options_;
    std::vector<std::string> given_;
};

/// A number as shown in --help and messages: "64", "0.1".
std::string number_text(double value);
}  // namespace pipescope
