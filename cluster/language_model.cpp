#include "cluster/language_model.h"

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/number_text.h"
#include "base/parse_name.h"
#include "base/printable.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace pipescope {
namespace {
constexpr std::string_view kPrefix = "gpt:";
constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostBlocks = 100'000;
constexpr const char* kExample = "write it as gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200";

std::int64_t whole(const std::string& key, const std::string& value, std::int64_t least) {
    const std::int64_t most = key == "layers" ? kMostBlocks : kMost;
    const auto number = number_in<std::int64_t>(value);
    if (!number || *number < least || *number > most) {
        throw UsageError("model " + key + " is '" + printable(value) + "'; it must be a whole number in digits, from " +
                         std::to_string(least) + " to " + std::to_string(most) + "; " + kExample);
    }
    return *number;
}

bool truth(const std::string& key, const std::string& value) {
    if (value != "true" && value != "false") {
        throw UsageError("model " + key + " is '" + printable(value) + "'; it must be true or false; correct it");
    }
    return value == "true";
}

std::map<std::string, std::string> values_of(std::string_view text) {
    static const std::vector<std::string> known = {
        "layers",     "hidden", "heads",         "kv_heads",       "head_width",  "sequence",
        "vocabulary", "mlp",    "gated",         "tied",           "dropout",     "attention",
        "experts",    "top_k",  "expert_hidden", "shared_experts", "dense_layers"};
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
            throw UsageError(
                "model key '" + printable(key) + "' is unknown; " +
                (nearest ? "the nearest is " + *nearest : "the keys are " + joined_text(known, ", ", std::identity())) +
                "; " + kExample);
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
void check_experts(const LanguageModel& model, const std::map<std::string, std::string>& values) {
    if (model.experts == 0) {
        for (const char* key : {"top_k", "expert_hidden", "shared_experts", "dense_layers"}) {
            if (values.contains(key)) {
                throw UsageError("model has " + std::string(key) + " without experts; it says how experts are; add " +
                                 "experts=8, or leave it out");
            }
        }
        return;
    }
    if (model.top_k > model.experts) {
        throw UsageError("model top_k is " + std::to_string(model.top_k) + " of " + std::to_string(model.experts) +
                         " experts; a token goes to different ones; correct one of them");
    }
    if (model.dense_layers >= model.layers) {
        throw UsageError("model dense_layers is " + std::to_string(model.dense_layers) + " of " +
                         std::to_string(model.layers) + " layers; at least one has the experts; correct one of them");
    }
}
}  // namespace

std::string to_string(Attention attention) {
    return attention == Attention::flash ? "flash" : "standard";
}

bool is_language_model(std::string_view text) {
    const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
    const std::string_view name = kPrefix.substr(0, kPrefix.size() - 1);  // "gpt" alone lacks its keys
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
        // A default of 0 means that the key may be 0.
        return found == values.end() ? *otherwise : whole(key, found->second, otherwise == 0 ? 0 : 1);
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
    if (values.contains("head_width")) {
        model.head = number("head_width");
    } else {
        check_divides("heads", model.heads, "hidden", model.hidden);
    }
    check_divides("kv_heads", model.kv_heads, "heads", model.heads);
    if (values.contains("experts")) {
        model.experts = number("experts");
        model.top_k = number("top_k");
        model.expert_hidden = number("expert_hidden", model.mlp);
        model.shared_experts = number("shared_experts", 0);
        model.dense_layers = number("dense_layers", 0);
    }
    check_experts(model, values);
    return model;
}

std::string to_string(const LanguageModel& model) {
    const auto truth_text = [](bool value) { return std::string(value ? "true" : "false"); };
    std::string text = std::string(kPrefix) + "layers=" + std::to_string(model.layers) +
                       ",hidden=" + std::to_string(model.hidden) + ",heads=" + std::to_string(model.heads) +
                       ",kv_heads=" + std::to_string(model.kv_heads) + ",sequence=" + std::to_string(model.sequence) +
                       ",vocabulary=" + std::to_string(model.vocabulary) + ",mlp=" + std::to_string(model.mlp) +
                       ",gated=" + truth_text(model.gated) + ",tied=" + truth_text(model.tied) +
                       ",dropout=" + truth_text(model.dropout) + ",attention=" + to_string(model.attention);
    const auto add_if = [&](bool is_used, const char* key, std::int64_t number) {
        text += is_used ? "," + std::string(key) + "=" + std::to_string(number) : "";
    };
    add_if(model.head > 0, "head_width", model.head);
    add_if(model.experts > 0, "experts", model.experts);
    add_if(model.experts > 0, "top_k", model.top_k);
    add_if(model.experts > 0, "expert_hidden", model.expert_hidden);
    add_if(model.shared_experts > 0, "shared_experts", model.shared_experts);
    add_if(model.dense_layers > 0, "dense_layers", model.dense_layers);
    return text;
}

std::vector<BlockKind> block_kinds(const LanguageModel& model) {
    std::vector<BlockKind> kinds;
    if (model.kind_of(0) == BlockKind::dense) {
        kinds.push_back(BlockKind::dense);
    }
    if (model.experts > 0) {
        kinds.push_back(BlockKind::experts);
    }
    return kinds;
}

namespace {
/// Number of matrices in a feed-forward layer.
double matrices_of(const LanguageModel& model) {
    return model.gated ? 3 : 2;
}

double expert_weights(const LanguageModel& model) {
    return matrices_of(model) * static_cast<double>(model.hidden) * static_cast<double>(model.expert_hidden);
}

/// Weights of a block with that many experts.
double weights_with(const LanguageModel& model, BlockKind kind, std::int64_t experts) {
    const RankWeights whole = rank_block_weights(model, kind, 1, 1);
    return whole.usual + (kind == BlockKind::experts ? static_cast<double>(experts) * expert_weights(model) : 0);
}

template <class Of>
double sum_of_blocks(const LanguageModel& model, Of of) {
    const auto dense = static_cast<double>(model.experts > 0 ? model.dense_layers : model.layers);
    double sum = 0;
    for (const BlockKind kind : block_kinds(model)) {
        sum += (kind == BlockKind::dense ? dense : static_cast<double>(model.layers) - dense) * of(kind);
    }
    return sum;
}
}  // namespace

double block_weights(const LanguageModel& model, BlockKind kind) {
    return weights_with(model, kind, model.experts);
}

double active_block_weights(const LanguageModel& model, BlockKind kind) {
    return weights_with(model, kind, model.top_k);
}

double rank_kv_width(const LanguageModel& model, int tensor) {
    return std::max(model.kv_width() / tensor, model.head_width());
}

RankWeights rank_block_weights(const LanguageModel& model, BlockKind kind, int tensor, int expert) {
    const auto h = static_cast<double>(model.hidden);
    RankWeights weights;
    weights.usual = h * (2 * model.attention_width() / tensor + 2 * rank_kv_width(model, tensor)) +
                    matrices_of(model) * h * model.shared_width(kind) / tensor;
    if (kind == BlockKind::experts) {
        weights.usual += h * static_cast<double>(model.experts);  // the router
        weights.experts = static_cast<double>(model.experts) / expert * expert_weights(model);
    }
    return weights;
}

double embedding_weights(const LanguageModel& model) {
    return static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
}

double parameters_of(const LanguageModel& model) {
    return sum_of_blocks(model, [&](BlockKind kind) { return block_weights(model, kind); }) +
           (model.tied ? 1 : 2) * embedding_weights(model);
}

double active_parameters_of(const LanguageModel& model) {
    return sum_of_blocks(model, [&](BlockKind kind) { return active_block_weights(model, kind); }) +
           (model.tied ? 1 : 2) * embedding_weights(model);
}

double block_flops(const LanguageModel& model, BlockKind kind, double samples) {
    const auto s = static_cast<double>(model.sequence);
    const double attention = 4 * s * s * model.attention_width();  // for all pairs of tokens, even if half are skipped
    return samples * (2 * s * active_block_weights(model, kind) + attention);
}

double blocks_flops(const LanguageModel& model, double samples) {
    return sum_of_blocks(model, [&](BlockKind kind) { return block_flops(model, kind, samples); });
}

double output_flops(const LanguageModel& model, double samples) {
    return 2 * samples * static_cast<double>(model.sequence) * embedding_weights(model);
}

double step_flops(const LanguageModel& model, double samples) {
    return 3 * (blocks_flops(model, samples) + output_flops(model, samples));
}

double causal_step_flops(const LanguageModel& model, double samples) {
    const auto s = static_cast<double>(model.sequence);
    const double skipped = 2 * s * s * model.attention_width() * samples;  // in one block's forward
    return step_flops(model, samples) - 3 * static_cast<double>(model.layers) * skipped;
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
    return parse_name<Recompute>(
        name, {Recompute::none, Recompute::selective, Recompute::full},
        option_name("recompute") + " is '" + printable(name) + "' with " + option_name("cluster"),
        "leave it out for none");
}

BlockActivations block_activations(const LanguageModel& model, BlockKind kind, double samples, int tensor,
                                   bool sequence_parallel, double element_bytes) {
    const double t = tensor;
    const double tokens = samples * static_cast<double>(model.sequence);
    const double e = element_bytes;
    const double mask = model.dropout ? 1 : 0;  // bytes per element
    const auto h = static_cast<double>(model.hidden);
    const double split = sequence_parallel ? t : 1;  // norms, dropouts and inputs of matrices
    BlockActivations bytes;
    bytes.input = tokens * h * e / split;
    // The second norm's input, the inputs of both matrices that follow a norm, and both dropouts' masks.
    const double replicated = (3 * e + 2 * mask) * h;
    // Queries, keys, values and the projection's input; the activation's inputs and the second matrix's input.
    const double own = e * (2 * model.attention_width() / t + 2 * rank_kv_width(model, tensor)) +
                       e * matrices_of(model) * model.shared_width(kind) / t;
    bytes.rest = tokens * (replicated / split + own);
    if (kind == BlockKind::experts) {
        constexpr double kProbability = 4;
        const double copy = e * (h + matrices_of(model) * static_cast<double>(model.expert_hidden));
        bytes.rest += tokens / split *
                      (kProbability * static_cast<double>(model.experts) + static_cast<double>(model.top_k) * copy);
    }
    if (model.attention == Attention::standard) {
        const double scores = tokens * static_cast<double>(model.sequence) * static_cast<double>(model.heads) / t;
        bytes.core = scores * (e + (model.dropout ? e + mask : 0));  // softmax; the dropout's output and mask
    } else {
        constexpr double kStatistic = 4;  // one float32 for each query and head
        bytes.rest += tokens * static_cast<double>(model.heads) * kStatistic / t;
    }
    return bytes;
}
}  // namespace pipescope
