#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// An option of a model, with its default and the values it may take.
struct ModelOption {
    enum class Kind { whole, fraction };

    std::string name;
    double value = 0;
    double lowest = 1;
    double highest = 1'000'000;
    std::string meaning;
    Kind kind = Kind::whole;
};

/// The options of one model: the defaults, overlaid with what the command line gave.
class ModelOptions {
public:
    /// `given` is "B=5,C=64" or empty. Throws UsageError for an option that does not exist or stands twice, for what is
    /// no number, and for a number out of range.
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

/// A number as --help and messages show it: "64", "0.1".
std::string number_text(double value);
}  // namespace pipescope
