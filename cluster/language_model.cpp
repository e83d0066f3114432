#include "cluster/language_model.h"

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/number_text.h"
#include "base/parse_name.h"
#include "base/printable.h"
#include "cluster/hugging_face_config.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace pipescope {
namespace {
constexpr std::string_view kPrefix = "gpt:";
constexpr std::string_view kFilePrefix = "hf:";
constexpr std::int64_t kMost = 1'000'000'000;
constexpr std::int64_t kMostBlocks = 100'000;
constexpr const char* kExample = "write it as gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200";
constexpr const char* kFileExample = "write it as hf:folder/config.json,sequence=4096";

/// A part that a model may have; by default it has none.
template <class Number>
struct Part {
    const char* key;
    Number LanguageModel::*member;
};
using Model = LanguageModel;
constexpr Part<std::int64_t> kNumbers[] = {
    {"expert_every", &Model::expert_every},
    {"kv_rank", &Model::kv_rank},
    {"q_rank", &Model::q_rank},
    {"rope_width", &Model::rope_width},
    {"value_width", &Model::value_width},
    {"window", &Model::window},
    {"full_layers", &Model::full_layers},
    {"full_every", &Model::full_every},
    {"state", &Model::state},
    {"state_heads", &Model::state_heads},
    {"state_head_width", &Model::state_head_width},
    {"state_groups", &Model::state_groups},
    {"convolution", &Model::convolution},
    {"attention_every", &Model::attention_every},
    {"mtp", &Model::mtp},
    {"block_norms", &Model::block_norms},
    {"positions", &Model::positions},
    {"frozen", &Model::frozen},
    {"lora", &Model::lora},
    {"bfloat16_blocks", &Model::whole_blocks},
};
constexpr Part<bool> kFlags[] = {
    {"qk_norm", &Model::qk_norm},         {"embedding_norm", &Model::embedding_norm},
    {"qkv_bias", &Model::qkv_bias},       {"out_bias", &Model::out_bias},
    {"mlp_bias", &Model::mlp_bias},       {"router_bias", &Model::router_bias},
    {"output_bias", &Model::output_bias}, {"sinks", &Model::sinks},
    {"shared_gate", &Model::shared_gate},
};
constexpr Part<double> kFactors[] = {{"imbalance", &Model::imbalance}, {"capacity", &Model::capacity}};

/// `example`: what the message shows as the remedy.
std::int64_t whole(const std::string& key, const std::string& value, std::int64_t least, const char* example) {
    const std::int64_t most = key == "layers" ? kMostBlocks : kMost;
    const auto number = number_in<std::int64_t>(value);
    if (!number || *number < least || *number > most) {
        throw UsageError("model " + key + " is '" + printable(value) + "'; it must be a whole number in digits, from " +
                         std::to_string(least) + " to " + std::to_string(most) + "; " + example);
    }
    return *number;
}

bool truth(const std::string& key, const std::string& value) {
    if (value != "true" && value != "false") {
        throw UsageError("model " + key + " is '" + printable(value) + "'; it must be true or false; correct it");
    }
    return value == "true";
}

double factor(const std::string& key, const std::string& value) {
    const auto number = number_in<double>(value);
    constexpr double kMostFactor = 1000;
    if (!number || !(*number >= 1) || *number > kMostFactor) {
        throw UsageError("model " + key + " is '" + printable(value) +
                         "'; it is a multiple of the mean tokens of an expert, from 1 to 1000; correct it");
    }
    return *number;
}

const std::vector<std::string>& known_keys() {
    static const std::vector<std::string> known = [] {
        std::vector<std::string> keys = {"layers",         "hidden",      "heads",   "kv_heads", "head_width",
                                         "sequence",       "vocabulary",  "mlp",     "gated",    "tied",
                                         "dropout",        "attention",   "experts", "top_k",    "expert_hidden",
                                         "shared_experts", "dense_layers"};
        const auto add = [&](const auto& parts) {
            for (const auto& part : parts) {
                keys.emplace_back(part.key);
            }
        };
        add(kFactors);
        add(kNumbers);
        keys.emplace_back("norm");
        add(kFlags);
        return keys;
    }();
    return known;
}

LanguageModelKeys values_of(std::string_view text, const char* example) {
    LanguageModelKeys values;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view entry = text.substr(0, comma);
        text.remove_prefix(std::min(text.size(), comma + 1));
        const std::size_t equals = entry.find('=');
        if (equals == std::string_view::npos) {
            throw UsageError("model has '" + printable(entry) + "'; each entry is a key, = and a value; " + example);
        }
        const std::string key(entry.substr(0, equals));
        if (std::find(known_keys().begin(), known_keys().end(), key) == known_keys().end()) {
            const std::optional<std::string> nearest = nearest_name(key, known_keys());
            throw UsageError("model key '" + printable(key) + "' is unknown; " +
                             (nearest ? "the nearest is " + *nearest
                                      : "the keys are " + joined_text(known_keys(), ", ", std::identity())) +
                             "; " + example);
        }
        if (!values.emplace(key, entry.substr(equals + 1)).second) {
            throw UsageError("model key " + key + " appears twice; a key has one value; leave one out");
        }
    }
    return values;
}

/// True if the text is the prefix, or its name alone, in any case.
bool has_prefix(std::string_view text, std::string_view prefix) {
    const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
    return std::ranges::equal(text, prefix.substr(0, prefix.size() - 1), same) ||
           std::ranges::equal(text.substr(0, prefix.size()), prefix, same);
}
/// "hf:PATH,key=value" in its parts. A path has no comma.
struct FileText {
    std::string path;
    std::string_view keys;
};
FileText file_text(std::string_view text) {
    text.remove_prefix(std::min(text.size(), kFilePrefix.size()));
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma == 0) {
        throw UsageError(
            "model hf: has no path; it names a Hugging Face config.json or its folder; write it as "
            "hf:folder/config.json");
    }
    return {std::string(text.substr(0, comma)), text.substr(std::min(text.size(), comma + 1))};
}

void check_divides(const char* part, std::int64_t divisor, const char* whole, std::int64_t number) {
    if (number % divisor != 0) {
        throw UsageError("model " + std::string(part) + " is " + std::to_string(divisor) + ", which does not divide " +
                         whole + ", " + std::to_string(number) + "; heads are equally wide; correct one of them");
    }
}
/// Refuses keys that say how a part is that the model does not have. `remedy` adds the part.
void check_part(bool has_part, const char* part, const LanguageModelKeys& values,
                std::initializer_list<const char*> keys, const char* remedy) {
    for (const char* key : keys) {
        if (!has_part && values.contains(key)) {
            throw UsageError("model has " + std::string(key) + " without " + part + "; it says how they are; add " +
                             remedy + ", or leave it out");
        }
    }
}
void check_experts(const LanguageModel& model, const LanguageModelKeys& values) {
    check_part(model.experts > 0, "experts", values,
               {"top_k", "expert_hidden", "shared_experts", "dense_layers", "expert_every", "imbalance", "capacity",
                "router_bias", "shared_gate"},
               "experts=8");
    if (model.experts == 0) {
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
    if (std::ranges::none_of(block_kinds(model), &BlockKind::has_experts)) {
        throw UsageError("model expert_every is " + std::to_string(model.expert_every) + " of " +
                         std::to_string(model.layers) + " layers; at least one has the experts; correct one of them");
    }
    const double most = static_cast<double>(model.experts) / static_cast<double>(model.top_k);
    if (model.imbalance > most) {
        throw UsageError("model imbalance is " + shortest(model.imbalance) + "; with all tokens on the same " +
                         std::to_string(model.top_k) + " of " + std::to_string(model.experts) + " experts it is " +
                         shortest(most) + "; use less");
    }
    if (model.shared_gate && model.shared_experts == 0) {
        throw UsageError("model has shared_gate without shared_experts, which it scales; leave it out");
    }
}
void check_latent(const LanguageModel& model, const LanguageModelKeys& values) {
    check_part(model.is_latent(), "latent keys and values", values, {"q_rank", "rope_width", "value_width"},
               "kv_rank=512");
    if (!model.is_latent()) {
        return;
    }
    if (model.head == 0) {
        throw UsageError(
            "model has kv_rank without head_width; latent attention gives heads a width of their own; add "
            "head_width=192, the width of a query with its rope_width");
    }
    if (model.kv_heads != model.heads) {
        throw UsageError("model kv_heads is " + std::to_string(model.kv_heads) + " with kv_rank; latent attention " +
                         "makes keys and values for each of the " + std::to_string(model.heads) +
                         " heads; leave it out");
    }
    if (model.rope_width >= model.head) {
        throw UsageError("model rope_width is " + std::to_string(model.rope_width) + ", which is not a part of " +
                         "head_width, " + std::to_string(model.head) + "; correct one of them");
    }
}
void check_windows_and_states(const LanguageModel& model, const LanguageModelKeys& values) {
    check_part(model.window > 0, "sliding windows", values, {"full_layers", "full_every"}, "window=4096");
    check_part(model.state > 0, "state-space layers", values,
               {"state_heads", "state_head_width", "state_groups", "convolution", "attention_every"}, "state=128");
    if (model.state > 0 && model.state_heads % model.state_groups != 0) {
        throw UsageError("model state_groups is " + std::to_string(model.state_groups) + ", which does not divide " +
                         "state_heads, " + std::to_string(model.state_heads) +
                         "; groups are equal; correct one of "
                         "them");
    }
}
void check_what_trains(const LanguageModel& model) {
    if (model.frozen > model.layers) {
        throw UsageError("model frozen is " + std::to_string(model.frozen) + " of " + std::to_string(model.layers) +
                         " layers; it counts blocks from the start; correct one of them");
    }
    if (model.whole_blocks > model.layers / 2) {
        throw UsageError("model bfloat16_blocks is " + std::to_string(model.whole_blocks) + " of " +
                         std::to_string(model.layers) +
                         " layers; it counts blocks at the start, and as many at the end; use half of the layers at "
                         "most, or --dtype bfloat16");
    }
    if (model.lora > model.hidden) {
        throw UsageError("model lora is " + std::to_string(model.lora) + ", wider than hidden, " +
                         std::to_string(model.hidden) + "; it is the rank of small matrices; write it as lora=16");
    }
    if (model.mtp > 0 && model.frozen == model.layers) {
        throw UsageError("model frozen is " + std::to_string(model.frozen) +
                         ", all layers, with mtp, whose blocks are like the last one and train; freeze fewer");
    }
    if (model.frozen > 0 && model.lora > 0) {
        throw UsageError("model has frozen and lora, which freezes all blocks; leave one of them out");
    }
}
void check_small_parts(const LanguageModel& model, const LanguageModelKeys& values) {
    if (model.norm == Norm::unsaid) {
        check_part(false, "norm", values, {"block_norms", "qk_norm", "embedding_norm"}, "norm=rms");
    }
    if (model.positions > 0 && model.sequence > model.positions) {
        throw UsageError(
            "model sequence is " + std::to_string(model.sequence) + ", beyond its " + std::to_string(model.positions) +
            " learned positions; each token of a sample has one; use a shorter sequence or more positions");
    }
    if (model.mlp_bias && model.mlp == 0) {
        throw UsageError("model has mlp_bias with mlp=0, so that it biases nothing; leave it out");
    }
}
}  // namespace

std::string to_string(Norm norm) {
    switch (norm) {
        case Norm::unsaid: return "unsaid";
        case Norm::rms: return "rms";
        case Norm::layer: return "layer";
    }
    return "unknown";
}

std::string to_string(Attention attention) {
    return attention == Attention::flash ? "flash" : "standard";
}

bool is_language_model(std::string_view text) {
    return has_prefix(text, kPrefix) || has_prefix(text, kFilePrefix);
}

namespace {
LanguageModel model_of(const LanguageModelKeys& values, const char* example) {
    const auto number = [&](const std::string& key, std::optional<std::int64_t> otherwise = {}) {
        const auto found = values.find(key);
        if (found == values.end() && !otherwise) {
            throw UsageError("model has no " + key + ", which it needs; " + example);
        }
        // A default of 0 means that the key may be 0.
        return found == values.end() ? *otherwise : whole(key, found->second, otherwise == 0 ? 0 : 1, example);
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
    for (const auto& [key, member] : kNumbers) {
        model.*member = number(key, model.*member);
    }
    for (const auto& [key, member] : kFlags) {
        model.*member = flag(key, false);
    }
    for (const auto& [key, member] : kFactors) {
        if (const auto found = values.find(key); found != values.end()) {
            model.*member = factor(key, found->second);
        }
    }
    const std::int64_t usual_mlp = model.gated ? (8 * model.hidden + 767) / 768 * 256 : 4 * model.hidden;
    const auto mlp = values.find("mlp");
    model.mlp = mlp == values.end() ? usual_mlp : whole("mlp", mlp->second, model.state > 0 ? 0 : 1, example);
    model.tied = flag("tied", !model.gated);
    model.dropout = flag("dropout", !model.gated);
    model.attention = model.gated ? Attention::flash : Attention::standard;
    if (const auto found = values.find("attention"); found != values.end()) {
        model.attention = parse_name<Attention>(found->second, {Attention::standard, Attention::flash},
                                                "model attention is '" + printable(found->second) + "'", "correct it");
    }
    if (const auto found = values.find("norm"); found != values.end()) {
        model.norm = parse_name<Norm>(found->second, {Norm::rms, Norm::layer},
                                      "model norm is '" + printable(found->second) + "'", "correct it");
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
    if (model.state > 0) {
        model.state_heads = number("state_heads");
        model.state_head_width = number("state_head_width");
    }
    check_experts(model, values);
    check_latent(model, values);
    check_windows_and_states(model, values);
    check_small_parts(model, values);
    check_what_trains(model);
    return model;
}
}  // namespace

ReadModel read_language_model(std::string_view text) {
    if (!is_language_model(text)) {
        throw UsageError("model is '" + printable(text) + "', which begins with neither gpt: nor hf:; " + kExample);
    }
    if (has_prefix(text, kPrefix)) {
        return {model_of(values_of(text.substr(std::min(text.size(), kPrefix.size())), kExample), kExample), {}};
    }
    const FileText file = file_text(text);
    LanguageModelKeys values = values_of(file.keys, kFileExample);
    HuggingFaceConfig config = load_hugging_face_config(file.path);
    values.merge(config.keys);  // keeps the values of the text
    try {
        return {model_of(values, kFileExample), std::move(config.warnings)};
    } catch (const UsageError& fault) {
        throw UsageError(file.path + ": " + fault.what());
    }
}

LanguageModel parse_language_model(std::string_view text) {
    return read_language_model(text).model;
}

std::string to_string(const LanguageModel& model) {
    const auto truth_text = [](bool value) { return std::string(value ? "true" : "false"); };
    std::string text = std::string(kPrefix) + "layers=" + std::to_string(model.layers) +
                       ",hidden=" + std::to_string(model.hidden) + ",heads=" + std::to_string(model.heads) +
                       ",kv_heads=" + std::to_string(model.kv_heads) + ",sequence=" + std::to_string(model.sequence) +
                       ",vocabulary=" + std::to_string(model.vocabulary) + ",mlp=" + std::to_string(model.mlp) +
                       ",gated=" + truth_text(model.gated) + ",tied=" + truth_text(model.tied) +
                       ",dropout=" + truth_text(model.dropout) + ",attention=" + to_string(model.attention);
    const auto add_if = [&](bool is_used, const std::string& key, const std::string& value) {
        text += is_used ? "," + key + "=" + value : "";
    };
    const auto add_number_if = [&](bool is_used, const char* key, std::int64_t number) {
        add_if(is_used, key, std::to_string(number));
    };
    add_number_if(model.head > 0, "head_width", model.head);
    add_number_if(model.experts > 0, "experts", model.experts);
    add_number_if(model.experts > 0, "top_k", model.top_k);
    add_number_if(model.experts > 0, "expert_hidden", model.expert_hidden);
    add_number_if(model.shared_experts > 0, "shared_experts", model.shared_experts);
    add_number_if(model.dense_layers > 0, "dense_layers", model.dense_layers);
    const LanguageModel usual;
    for (const auto& [key, member] : kFactors) {
        add_if(model.*member != usual.*member, key, shortest(model.*member));
    }
    for (const auto& [key, member] : kNumbers) {
        add_number_if(model.*member != usual.*member, key, model.*member);
    }
    add_if(model.norm != Norm::unsaid, "norm", to_string(model.norm));
    for (const auto& [key, member] : kFlags) {
        add_if(model.*member, key, "true");
    }
    return text;
}

std::vector<BlockCount> block_counts(const LanguageModel& model) {
    if (model.experts == 0 && model.window == 0 && model.state == 0 && model.frozen == 0 && model.whole_blocks == 0) {
        return {{BlockKind::dense, model.layers}};
    }
    std::map<BlockKind, std::int64_t> counts;
    for (std::int64_t block = 0; block < model.layers; ++block) {
        ++counts[model.kind_of(block)];
    }
    std::vector<BlockCount> all;
    for (const auto& [kind, blocks] : counts) {
        all.push_back({kind, blocks});
    }
    return all;
}

std::vector<BlockKind> block_kinds(const LanguageModel& model) {
    std::vector<BlockKind> kinds;
    for (const BlockCount& each : block_counts(model)) {
        kinds.push_back(each.kind);
    }
    return kinds;
}

BlockKind mtp_kind(const LanguageModel& model) {
    BlockKind kind = model.kind_of(model.layers - 1);
    kind.is_frozen = false;
    return kind;
}

namespace {
/// Number of matrices in a feed-forward layer.
double matrices_of(const LanguageModel& model) {
    return model.gated ? 3 : 2;
}

/// Weights of a norm over that many elements.
double norm_weights(const LanguageModel& model, double width) {
    switch (model.norm) {
        case Norm::unsaid: return 0;
        case Norm::rms: return width;
        case Norm::layer: return 2 * width;
    }
    return 0;
}

/// Biases of a feed-forward layer of that width on one of `tensor` ranks; each rank has the output's whole.
double mlp_biases(const LanguageModel& model, double width, int tensor) {
    return model.mlp_bias && width > 0 ? (matrices_of(model) - 1) * width / tensor + static_cast<double>(model.hidden)
                                       : 0;
}

double expert_matrix_weights(const LanguageModel& model) {
    return matrices_of(model) * static_cast<double>(model.hidden) * static_cast<double>(model.expert_hidden);
}
/// Weights of all of a block's experts on one device.
double rank_experts_weights(const LanguageModel& model, ExpertSplit split) {
    const double each = expert_matrix_weights(model) / split.tensor +
                        mlp_biases(model, static_cast<double>(model.expert_hidden), split.tensor);
    return static_cast<double>(model.experts) / split.devices * each;
}

/// Numbers of B and C together, for all groups of a state-space layer on one rank. A rank has at least one group.
double rank_state_inputs(const LanguageModel& model, int tensor) {
    return 2 * static_cast<double>(model.state) * std::max(static_cast<double>(model.state_groups) / tensor, 1.0);
}

/// Weights of a block's attention, or of its state-space layer, that are not in matrices.
double rank_mixer_vectors(const LanguageModel& model, BlockKind kind, int tensor) {
    const double t = tensor;
    if (kind.has_state) {
        const double channels = model.state_width() / t;
        const double convolved = channels + rank_state_inputs(model, tensor);
        // The convolution and its bias; decay, skip and step bias of each head; the norm before the projection.
        return convolved * (static_cast<double>(model.convolution) + 1) +
               3 * static_cast<double>(model.state_heads) / t + norm_weights(model, channels);
    }
    double weights = 0;
    if (model.is_latent()) {
        const auto latent = static_cast<double>(model.kv_rank);
        const auto queries = static_cast<double>(model.q_rank);
        weights += norm_weights(model, latent) + norm_weights(model, queries);
        weights += model.qkv_bias ? queries + latent + static_cast<double>(model.rope_width) : 0;
    } else {
        weights += model.qkv_bias ? model.attention_width() / t + rank_key_value_width(model, tensor) : 0;
    }
    weights += model.qk_norm ? 2 * norm_weights(model, model.head_width()) : 0;
    weights += model.out_bias ? static_cast<double>(model.hidden) : 0;
    weights += model.sinks ? static_cast<double>(model.heads) / t : 0;
    return weights;
}

/// Weights of a block that are not in matrices, without those of experts.
double rank_block_vectors(const LanguageModel& model, BlockKind kind, int tensor) {
    const auto h = static_cast<double>(model.hidden);
    double weights = static_cast<double>(model.block_norms) * norm_weights(model, h) +
                     rank_mixer_vectors(model, kind, tensor) + mlp_biases(model, model.shared_width(kind), tensor);
    if (kind.has_experts) {
        weights += model.router_bias ? static_cast<double>(model.experts) : 0;
        weights += model.shared_gate ? h : 0;
    }
    return weights;
}

/// Weights of a block's matrices on one rank, without those of experts.
double rank_block_matrices(const LanguageModel& model, BlockKind kind, int tensor) {
    const auto h = static_cast<double>(model.hidden);
    double weights = 0;
    for (const WeightMatrix& matrix : rank_mixer_matrices(model, kind, tensor)) {
        weights += matrix.inputs * matrix.outputs;
    }
    weights += matrices_of(model) * h * model.shared_width(kind) / tensor;
    return weights + (kind.has_experts ? h * static_cast<double>(model.experts) : 0);  // the router
}

template <class Of>
double sum_of_blocks(const LanguageModel& model, Of of) {
    double sum = 0;
    for (const auto& [kind, blocks] : block_counts(model)) {
        sum += static_cast<double>(blocks) * of(kind);
    }
    return sum;
}

double ends_weights(const LanguageModel& model) {
    return rank_first_weights(model, 1) + rank_last_weights(model, 1) + (model.tied ? 0 : embedding_weights(model));
}
}  // namespace

double block_weights(const LanguageModel& model, BlockKind kind) {
    return rank_block_weights(model, kind, 1, {}).all();
}

double rank_key_value_width(const LanguageModel& model, int tensor) {
    return model.is_latent() ? (model.attention_width() + model.attended_width()) / tensor
                             : 2 * std::max(model.kv_width() / tensor, model.head_width());
}

std::vector<WeightMatrix> rank_mixer_matrices(const LanguageModel& model, BlockKind kind, int tensor) {
    const double t = tensor;
    const auto h = static_cast<double>(model.hidden);
    if (kind.has_state) {
        const double channels = model.state_width() / t;
        const double inputs =
            2 * channels + rank_state_inputs(model, tensor) + static_cast<double>(model.state_heads) / t;
        return {{h, inputs}, {channels, h}};
    }
    const WeightMatrix projection{model.attended_width() / t, h};
    if (!model.is_latent()) {
        return {{h, model.attention_width() / t + rank_key_value_width(model, tensor)}, projection};
    }
    const auto latent = static_cast<double>(model.kv_rank);
    const auto queries = static_cast<double>(model.q_rank);
    const auto rope = static_cast<double>(model.rope_width);
    std::vector<WeightMatrix> matrices;
    if (queries > 0) {
        matrices = {{h, queries}, {queries, model.attention_width() / t}};
    } else {
        matrices = {{h, model.attention_width() / t}};
    }
    const double unroped = (model.head_width() - rope) * static_cast<double>(model.heads);
    matrices.push_back({h, latent + rope});
    matrices.push_back({latent, (unroped + model.attended_width()) / t});
    matrices.push_back(projection);
    return matrices;
}

std::vector<WeightMatrix> rank_single_matrices(const LanguageModel& model, BlockKind kind, int tensor) {
    std::vector<WeightMatrix> matrices = rank_mixer_matrices(model, kind, tensor);
    const auto h = static_cast<double>(model.hidden);
    if (!kind.has_state && !model.is_latent()) {
        const double values = rank_key_value_width(model, tensor) / 2;
        matrices.front() = {h, model.attention_width() / tensor};
        matrices.insert(matrices.begin() + 1, {{h, values}, {h, values}});
    }
    if (const double width = model.shared_width(kind) / tensor; width > 0) {
        matrices.insert(matrices.end(), model.gated ? 2 : 1, {h, width});
        matrices.push_back({width, h});
    }
    return matrices;
}

std::vector<WeightMatrix> rank_expert_matrices(const LanguageModel& model, int tensor) {
    const auto h = static_cast<double>(model.hidden);
    const double width = static_cast<double>(model.expert_hidden) / tensor;
    std::vector<WeightMatrix> matrices(model.gated ? 2 : 1, {h, width});
    matrices.push_back({width, h});
    return matrices;
}

namespace {
/// Weights of the two matrices of LoRA beside each of these.
double lora_weights(const LanguageModel& model, const std::vector<WeightMatrix>& matrices) {
    double weights = 0;
    for (const WeightMatrix& each : matrices) {
        weights += static_cast<double>(model.lora) * (each.inputs + each.outputs);
    }
    return weights;
}
RankWeights rank_lora_weights(const LanguageModel& model, BlockKind kind, int tensor, ExpertSplit split) {
    const double experts = kind.has_experts ? static_cast<double>(model.experts) / split.devices : 0;
    return {lora_weights(model, rank_single_matrices(model, kind, tensor)),
            experts * lora_weights(model, rank_expert_matrices(model, split.tensor))};
}
}  // namespace

RankWeights rank_block_weights(const LanguageModel& model, BlockKind kind, int tensor, ExpertSplit split) {
    RankWeights weights;
    weights.usual = rank_block_matrices(model, kind, tensor) + rank_block_vectors(model, kind, tensor);
    if (kind.has_experts) {
        weights.experts = rank_experts_weights(model, split);
    }
    return model.lora > 0 ? weights += rank_lora_weights(model, kind, tensor, split) : weights;
}

RankWeights rank_trained_block_weights(const LanguageModel& model, BlockKind kind, int tensor, ExpertSplit split) {
    return kind.is_frozen   ? RankWeights{}
           : model.lora > 0 ? rank_lora_weights(model, kind, tensor, split)
                            : rank_block_weights(model, kind, tensor, split);
}

double active_block_weights(const LanguageModel& model, BlockKind kind) {
    const RankWeights all = rank_block_weights(model, kind, 1, {});
    return all.usual +
           (kind.has_experts ? static_cast<double>(model.top_k) * all.experts / static_cast<double>(model.experts) : 0);
}

double embedding_weights(const LanguageModel& model) {
    return static_cast<double>(model.vocabulary) * static_cast<double>(model.hidden);
}

double rank_first_weights(const LanguageModel& model, int tensor) {
    const auto h = static_cast<double>(model.hidden);
    return embedding_weights(model) / tensor + static_cast<double>(model.positions) * h +
           (model.embedding_norm ? norm_weights(model, h) : 0);
}

double rank_last_weights(const LanguageModel& model, int tensor) {
    return norm_weights(model, static_cast<double>(model.hidden)) +
           (model.output_bias ? static_cast<double>(model.vocabulary) / tensor : 0);
}

RankWeights rank_mtp_weights(const LanguageModel& model, int tensor, ExpertSplit split) {
    if (model.mtp == 0) {
        return {};
    }
    const auto modules = static_cast<double>(model.mtp);
    const auto h = static_cast<double>(model.hidden);
    const RankWeights block = rank_block_weights(model, mtp_kind(model), tensor, split);
    // Norms of the hidden state, of the token's embedding and of the output; a matrix joins the first two.
    return {modules * (block.usual + 2 * h * h / tensor + 3 * norm_weights(model, h)), modules * block.experts};
}

RankWeights rank_trained_mtp_weights(const LanguageModel& model, int tensor, ExpertSplit split) {
    if (model.lora == 0 || model.mtp == 0) {
        return rank_mtp_weights(model, tensor, split);
    }
    const auto modules = static_cast<double>(model.mtp);
    const RankWeights block = rank_trained_block_weights(model, mtp_kind(model), tensor, split);
    return {modules * block.usual, modules * block.experts};
}

double trained_parameters_of(const LanguageModel& model) {
    const double first = model.trains_embedding() ? rank_first_weights(model, 1) : 0;
    const double last = model.trains_output()
                            ? rank_last_weights(model, 1) + (model.tied ? 0 : embedding_weights(model))
                        : model.lora == 0 ? rank_last_weights(model, 1)
                                          : 0;
    return sum_of_blocks(model, [&](BlockKind kind) { return rank_trained_block_weights(model, kind, 1, {}).all(); }) +
           first + last;
}

double parameters_of(const LanguageModel& model) {
    return sum_of_blocks(model, [&](BlockKind kind) { return block_weights(model, kind); }) + ends_weights(model);
}

double active_parameters_of(const LanguageModel& model) {
    return sum_of_blocks(model, [&](BlockKind kind) { return active_block_weights(model, kind); }) +
           ends_weights(model);
}

double attention_pairs(const LanguageModel& model, BlockKind kind) {
    const auto s = static_cast<double>(model.sequence);
    const auto w = static_cast<double>(model.window);
    return kind.has_window ? 2 * s * w - w * w : s * s;
}

double attention_flops(const LanguageModel& model, BlockKind kind, double samples) {
    if (kind.has_state) {
        // Chunks of tokens (arXiv 2405.21060, section 6): scores and their product with the inputs, half of whose pairs
        // are causal; then the chunk's state is built and read.
        const auto s = static_cast<double>(model.sequence);
        const double chunk = std::min(s, kStateChunk);
        const auto n = static_cast<double>(model.state);
        const double inside = chunk * (n * static_cast<double>(model.state_groups) + model.state_width());
        return samples * s * (inside + 4 * n * model.state_width());
    }
    return 2 * attention_pairs(model, kind) * (model.attention_width() + model.attended_width()) * samples;
}

namespace {
/// Operations of a block's frozen or trained matrices in a forward, and of those of LoRA, for one sample.
struct MatrixFlops {
    double usual = 0;
    double lora = 0;
};
MatrixFlops matrix_flops(const LanguageModel& model, BlockKind kind) {
    const double each = 2 * static_cast<double>(model.sequence);
    const double experts = kind.has_experts ? static_cast<double>(model.top_k) : 0;
    return {each * (rank_block_matrices(model, kind, 1) + experts * expert_matrix_weights(model)),
            each * (lora_weights(model, rank_single_matrices(model, kind, 1)) +
                    experts * lora_weights(model, rank_expert_matrices(model, 1)))};
}
/// Operations of a block's forward and backward.
double block_step_flops(const LanguageModel& model, BlockKind kind, double samples) {
    if (kind.is_frozen) {
        return block_flops(model, kind, samples);
    }
    const MatrixFlops matrices = matrix_flops(model, kind);
    const double passes = model.lora > 0 ? 2 : 3;  // the gradients of frozen matrices are not computed
    return samples * (passes * matrices.usual + 3 * (matrices.lora + attention_flops(model, kind, 1)));
}
}  // namespace

double block_flops(const LanguageModel& model, BlockKind kind, double samples) {
    const MatrixFlops matrices = matrix_flops(model, kind);
    return samples * (matrices.usual + matrices.lora + attention_flops(model, kind, 1));
}

double blocks_flops(const LanguageModel& model, double samples) {
    return sum_of_blocks(model, [&](BlockKind kind) { return block_flops(model, kind, samples); });
}

double output_flops(const LanguageModel& model, double samples) {
    return 2 * samples * static_cast<double>(model.sequence) * embedding_weights(model);
}

double mtp_flops(const LanguageModel& model, double samples) {
    if (model.mtp == 0) {
        return 0;
    }
    const auto h = static_cast<double>(model.hidden);
    const double joins = 2 * samples * static_cast<double>(model.sequence) * 2 * h * h;
    return static_cast<double>(model.mtp) *
           (block_flops(model, mtp_kind(model), samples) + joins + output_flops(model, samples));
}

double step_flops(const LanguageModel& model, double samples) {
    const double output = (model.trains_output() ? 3 : 2) * output_flops(model, samples);
    const double blocks = sum_of_blocks(model, [&](BlockKind kind) { return block_step_flops(model, kind, samples); });
    const auto modules = static_cast<double>(model.mtp);
    const double joins = mtp_flops(model, samples) -
                         modules * (block_flops(model, mtp_kind(model), samples) + output_flops(model, samples));
    return blocks + output + (model.lora > 0 ? 2 : 3) * joins +
           modules * (block_step_flops(model, mtp_kind(model), samples) + output);
}

double causal_step_flops(const LanguageModel& model, double samples) {
    double flops = step_flops(model, samples);
    const auto skip = [&](BlockKind kind, std::int64_t blocks) {
        const double passes = kind.is_frozen ? 1 : 3;
        flops -=
            kind.has_state ? 0 : passes * static_cast<double>(blocks) * (attention_flops(model, kind, samples) / 2);
    };
    for (const auto& [kind, blocks] : block_counts(model)) {
        skip(kind, blocks);
    }
    skip(mtp_kind(model), model.mtp);
    return flops;
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

double computed_copies(const LanguageModel& model) {
    const double most = model.capacity > 0 ? std::min(model.imbalance, model.capacity) : model.imbalance;
    return static_cast<double>(model.top_k) * most;
}

namespace {
/// Numbers per token that a block's attention or state-space layer keeps on one rank.
double rank_mixer_kept(const LanguageModel& model, BlockKind kind, int tensor) {
    const double t = tensor;
    if (kind.has_state) {
        // Before and after the convolution, the gate, the steps, the scan's output, and the projection's input.
        const double channels = model.state_width() / t;
        return 2 * (channels + rank_state_inputs(model, tensor)) + 3 * channels +
               static_cast<double>(model.state_heads) / t;
    }
    // Queries, keys, values and the projection's input. Norms of queries and keys keep their inputs too.
    const double keys = model.is_latent() ? model.attention_width() / t : rank_key_value_width(model, tensor) / 2;
    return model.attention_width() / t + rank_key_value_width(model, tensor) + model.attended_width() / t +
           (model.qk_norm ? model.attention_width() / t + keys : 0);
}
/// Numbers per token of latent vectors, before and after their norms.
double latents_kept(const LanguageModel& model, BlockKind kind) {
    return model.is_latent() && !kind.has_state ? 2 * static_cast<double>(model.q_rank + model.kv_rank) : 0;
}
}  // namespace

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
    // The second norm's input, the inputs of both matrices that follow a norm, and both dropouts' masks. Further norms
    // keep their inputs. One norm for attention and feed-forward layer has one output, and no second input.
    const double tensors = model.block_norms < 2 ? 1 : 3 + static_cast<double>(model.block_norms - 2);
    const double replicated = (tensors * e + 2 * mask) * h;
    // What the block's attention keeps; the activation's inputs and the second matrix's input.
    const double own = e * rank_mixer_kept(model, kind, tensor) + e * matrices_of(model) * model.shared_width(kind) / t;
    bytes.rest = tokens * (replicated / split + own + e * latents_kept(model, kind) / split);
    if (kind.has_experts) {
        constexpr double kProbability = 4;
        const double copy = e * (h + matrices_of(model) * static_cast<double>(model.expert_hidden));
        bytes.rest +=
            tokens / split * (kProbability * static_cast<double>(model.experts) + computed_copies(model) * copy);
    }
    if (model.lora > 0) {  // the tensor between the two matrices
        const double each = e * static_cast<double>(model.lora);
        bytes.rest += tokens * each * static_cast<double>(rank_single_matrices(model, kind, tensor).size());
        bytes.rest += kind.has_experts ? tokens / split * computed_copies(model) * each *
                                             static_cast<double>(rank_expert_matrices(model, 1).size())
                                       : 0;
    }
    if (kind.has_state) {
        return bytes;
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
