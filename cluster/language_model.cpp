#include "cluster/language_model.h"

#include "schedule/error.h"
#include "schedule/nearest_name.h"
#include "schedule/parse_name.h"
#include "schedule/printable.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

namespace pipescope {
namespace {
constexpr std::string_view kPrefix = "gpt:";
constexpr std::int64_t kMost = 1'000'000'000;
constexpr const char* kExample = "write it as gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200";

std::int64_t whole(const std::string& key, const std::string& value) {
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (fault != std::errc{} || end != value.data() + value.size() || number < 1 || number > kMost) {
        throw UsageError("model " + key + " is '" + printable(value) +
                         "'; it must be a whole number in digits, from 1 to 1000000000; " + kExample);
    }
    return number;
}

bool truth(const std::string& key, const std::string& value) {
    if (value != "true" && value != "false") {
        throw UsageError("model " + key + " is '" + printable(value) + "'; it must be true or false; correct it");
    }
    return value == "true";
}

std::map<std::string, std::string> values_of(std::string_view text) {
    static const std::vector<std::string> known = {"layers", "hidden", "heads", "kv_heads", "sequence", "vocabulary",
                                                   "mlp",    "gated",  "tied",  "dropout",  "attention"};
    std::map<std::string, std::string> values;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view entry = text.substr(0, comma);
        text.remove_prefix(std::min(text.size(), comma + 1));
        const std::size_t equals = entry.find('=');
        if (equals == std::string_view::npos) {
            throw UsageError("model has '" + printable(entry) + "'; each entry is a key, = and a value; " + kExample);
        }
        const std::string key(entry.substr(0, equals));
        if (std::find(known.begin(), known.end(), key) == known.end()) {
            const std::optional<std::string> nearest = nearest_name(key, known);
            std::string all;
            for (const std::string& each : known) {
                all += (all.empty() ? "" : ", ") + each;
            }
            throw UsageError("model key '" + printable(key) + "' is unknown; " +
                             (nearest ? "the nearest is " + *nearest : "the keys are " + all) + "; " + kExample);
        }
        if (!values.emplace(key, entry.substr(equals + 1)).second) {
            throw UsageError("model key " + key + " appears twice; a key has one value; leave one out");
        }
    }
    return values;
}

void check_divides(const char* part, std::int64_t divisor, const char* whole, std::int64_t number) {
    if (number % divisor != 0) {
        throw UsageError("model " + std::string(part) + " is " + std::to_string(divisor) + ", which does not divide " +
                         whole + ", " + std::to_string(number) + "; heads are equally wide; correct one of them");
    }
}
}  // namespace

std::string to_string(Attention attention) {
    return attention == Attention::flash ? "flash" : "standard";
}

bool is_language_model(std::string_view text) {
    const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
    const std::string_view name = kPrefix.substr(0, kPrefix.size() - 1);  // "gpt" alone misses its keys
    return std::ranges::equal(text, name, same) || std::ranges::equal(text.substr(0, kPrefix.size()), kPrefix, same);
}

LanguageModel parse_language_model(std::string_view text) {
    if (!is_language_model(text)) {
        throw UsageError("model is '" + printable(text) + "', which does not begin with gpt:; " + kExample);
    }
    const std::map<std::string, std::string> values = values_of(text.substr(std::min(text.size(), kPrefix.size())));
    const auto number = [&](const std::string& key, std::optional<std::int64_t> otherwise = {}) {
        const auto found = values.find(key);
        if (found == values.end() && !otherwise) {
            throw UsageError("model has no " + key + ", which it needs; " + kExample);
        }
        return found == values.end() ? *otherwise : whole(key, found->second);
    };
    const auto flag = [&](const std::string& key, bool otherwise) {
        const auto found = values.find(key);
        return found == values.end() ? otherwise : truth(key, found->second);
    };
    LanguageModel model;
    model.gated = flag("gated", false);
    model.layers = number("layers");
    model.hidden = number("hidden");
    model.heads = number("heads");
    model.kv_heads = number("kv_heads", model.heads);
    model.sequence = number("sequence");
    model.vocabulary = number("vocabulary");
    model.mlp = number("mlp", model.gated ? (8 * model.hidden + 767) / 768 * 256 : 4 * model.hidden);
    model.tied = flag("tied", !model.gated);
    model.dropout = flag("dropout", !model.gated);
    model.attention = model.gated ? Attention::flash : Attention::standard;
    if (const auto found = values.find("attention"); found != values.end()) {
        model.attention = parse_name<Attention>(found->second, {Attention::standard, Attention::flash},
                                                "model attention is '" + printable(found->second) + "'", "correct it");
    }
    check_divides("heads", model.heads, "hidden", model.hidden);
    check_divides("kv_heads", model.kv_heads, "heads", model.heads);
    return model;
}

std::string to_string(const LanguageModel& model) {
    const auto truth_text = [](bool value) { return std::string(value ? "true" : "false"); };
    return std::string(kPrefix) + "layers=" + std::to_string(model.layers) + ",hidden=" + std::to_string(model.hidden) +
           ",heads=" + std::to_string(model.heads) + ",kv_heads=" + std::to_string(model.kv_heads) +
           ",sequence=" + std::to_string(model.sequence) + ",vocabulary=" + std::to_string(model.vocabulary) +
           ",mlp=" + std::to_string(model.mlp) + ",gated=" + truth_text(model.gated) +
           ",tied=" + truth_text(model.tied) + ",dropout=" + truth_text(model.dropout) +
           ",attention=" + to_string(model.attention);
}

double block_weights(const LanguageModel& model) {
    const auto h = static_cast<double>(model.hidden);
    return h * (2 * h + 2 * model.kv_width()) + (model.gated ? 3 : 2) * h * static_cast<double>(model.mlp);
}

double rank_kv_width(const LanguageModel& model, int tensor) {
    return std::max(model.kv_width() / tensor, model.head_width());
}

double rank_block_weights(const LanguageModel& model, int tensor) {
    const auto h = static_cast<double>(model.hidden);
    return h * (2 * h / tensor + 2 * rank_kv_width(model, tensor)) +
           (model.gated ? 3 : 2) * h * static_cast<double>(model.mlp) / tensor;
}

double embedding_weights(const LanguageModel& model) {
    return static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
}

double parameters_of(const LanguageModel& model) {
    return static_cast<double>(model.layers) * block_weights(model) + (model.tied ? 1 : 2) * embedding_weights(model);
}

double block_flops(const LanguageModel& model, double samples) {
    const auto s = static_cast<double>(model.sequence);
    const double attention = 4 * s * s * static_cast<double>(model.hidden);  // all pairs, also if half are skipped
    return samples * (2 * s * block_weights(model) + attention);
}

double output_flops(const LanguageModel& model, double samples) {
    return 2 * samples * static_cast<double>(model.sequence) * embedding_weights(model);
}

double step_flops(const LanguageModel& model, double samples) {
    return 3 * (static_cast<double>(model.layers) * block_flops(model, samples) + output_flops(model, samples));
}

std::string to_string(Recompute recompute) {
    switch (recompute) {
        case Recompute::none: return "none";
        case Recompute::selective: return "selective";
        case Recompute::full: return "full";
    }
    return "unknown";
}

Recompute parse_recompute(std::string_view name) {
    return parse_name<Recompute>(name, {Recompute::none, Recompute::selective, Recompute::full},
                                 "--recompute is '" + printable(name) + "' with --cluster", "leave it out for none");
}

BlockActivations block_activations(const LanguageModel& model, double samples, int tensor, bool sequence_parallel,
                                   double element_bytes) {
    const double t = tensor;
    const double tokens = samples * static_cast<double>(model.sequence);
    const double e = element_bytes;
    const double mask = model.dropout ? 1 : 0;  // bytes an element
    const auto h = static_cast<double>(model.hidden);
    const double split = sequence_parallel ? t : 1;  // norms, dropouts and inputs of matrices
    BlockActivations bytes;
    bytes.input = tokens * h * e / split;
    // The second norm's input, the inputs of both matrices that follow a norm, and both dropouts' masks.
    const double replicated = (3 * e + 2 * mask) * h;
    // Queries, keys, values, the projection's input; the activation's inputs and the second matrix's input.
    const double own = e * (2 * h / t + 2 * rank_kv_width(model, tensor)) +
                       e * (model.gated ? 3 : 2) * static_cast<double>(model.mlp) / t;
    bytes.rest = tokens * (replicated / split + own);
    if (model.attention == Attention::standard) {
        const double scores = tokens * static_cast<double>(model.sequence) * static_cast<double>(model.heads) / t;
        bytes.core = scores * (e + (model.dropout ? e + mask : 0));  // softmax; the dropout's output and mask
    } else {
        constexpr double kStatistic = 4;  // a float32 for each query and head
        bytes.rest += tokens * static_cast<double>(model.heads) * kStatistic / t;
    }
    return bytes;
}
}  // namespace pipescope
