#include "models/script_options.h"

#include "base/error.h"
#include "base/number_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
constexpr std::int64_t kLargest = 1'000'000'000;
constexpr std::array<std::pair<std::string_view, ScriptLoss>, 4> kLosses = {
    {{"mse", ScriptLoss::mse},
     {"bce", ScriptLoss::bce},
     {"cross_entropy", ScriptLoss::cross_entropy},
     {"next_token", ScriptLoss::next_token}}};

std::optional<std::int64_t> count_of(std::string_view text) {
    const auto value = number_in<std::int64_t>(text);
    return value && *value >= 1 && *value <= kLargest ? value : std::nullopt;
}

/// Splits at the separators. An empty text gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
        parts.push_back(text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    parts.push_back(text);
    return parts;
}

class Reader {
public:
    explicit Reader(const std::string& path) : path_(path) {}

    ScriptOptions read(std::string_view text) {
        if (!text.empty()) {
            for (const std::string_view item : split(text, ',')) {
                const std::size_t equals = item.find('=');
                const std::string_view value =
                    equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
                set(std::string(item.substr(0, equals)), value);
            }
        }
        if (options_.input.empty()) {
            refuse("is given no input shape", "a TorchScript file does not say what it takes",
                   path_ + ":input=3x224x224 for one sample of that shape");
        }
        if (options_.loss == ScriptLoss::next_token && options_.tokens == 0) {
            refuse("has loss=next_token and no tokens", "that loss predicts tokens",
                   path_ + ":input=128,tokens=1000,loss=next_token");
        }
        return std::move(options_);
    }

private:
    void set(const std::string& name, std::string_view value) {
        if (std::find(given_.begin(), given_.end(), name) != given_.end()) {
            refuse("is given option " + name + " twice", "each may be given once", "one of them");
        }
        given_.push_back(name);
        if (name == "input") {
            set_input(value);
        } else if (name == "tokens") {
            const std::optional<std::int64_t> tokens = count_of(value);
            if (!tokens || *tokens < 2) {
                refuse("is given tokens=" + std::string(value), "it must be a whole number of 2 or more",
                       "tokens=1000");
            }
            options_.tokens = *tokens;
        } else if (name == "loss") {
            set_loss(value);
        } else {
            refuse("is given the option '" + name + "'", "a TorchScript file takes input, tokens and loss",
                   path_ + ":input=3x224x224,loss=cross_entropy");
        }
    }

    void set_input(std::string_view value) {
        for (const std::string_view part : split(value, 'x')) {
            const std::optional<std::int64_t> side = count_of(part);
            if (!side) {
                refuse("is given input=" + std::string(value), "a shape is whole numbers from 1 with x between them",
                       "input=3x224x224, without the batch");
            }
            options_.input.push_back(*side);
        }
    }

    void set_loss(std::string_view value) {
        const auto* const found =
            std::find_if(kLosses.begin(), kLosses.end(), [&](const auto& loss) { return loss.first == value; });
        if (found == kLosses.end()) {
            refuse("is given loss=" + std::string(value), "it must be mse, bce, cross_entropy or next_token",
                   "loss=mse");
        }
        options_.loss = found->second;
    }

    [[noreturn]] void refuse(const std::string& what, const std::string& rule, const std::string& remedy) const {
        throw UsageError("'" + path_ + "' " + what + "; " + rule + "; write " + remedy);
    }

    const std::string& path_;
    ScriptOptions options_;
    std::vector<std::string> given_;
};
}  // namespace

ScriptOptions parse_script_options(const std::string& path, std::string_view text) {
    return Reader(path).read(text);
}
}  // namespace pipescope
