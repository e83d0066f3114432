#include "profiler/profile/layer_tape_json.h"

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
constexpr int kNumRoles = 8;
constexpr std::array<std::pair<const char*, std::vector<std::int32_t> LayerTape::*>, 4> kLists{
    {{"inputs", &LayerTape::inputs},
     {"outputs", &LayerTape::outputs},
     {"output_gradients", &LayerTape::output_gradients},
     {"input_gradients", &LayerTape::input_gradients}}};

/// A variant of a layer's tape, with the nested variants that it must not contain.
struct Variant {
    const char* key;
    std::vector<LayerTape> LayerTape::*tapes;
    std::vector<const char*> refused;
};
const std::array<Variant, 3> kVariants{{{"gathered", &LayerTape::gathered, {"gathered", "all_gradients", "halves"}},
                                        {"all_gradients", &LayerTape::all_gradients, {"all_gradients"}},
                                        {"halves", &LayerTape::halves, {"gathered", "all_gradients", "halves"}}}};

TapeBlock::Role parse_role(const Json& json, const std::string& path) {
    for (int k = 0; k < kNumRoles; ++k) {
        if (const auto role = static_cast<TapeBlock::Role>(k); json == to_string(role)) {
            return role;
        }
    }
    wrong_type(path, json, "own, input, output, passed, output_gradient, input_gradient, passed_gradient or skip");
}

TapeBlock parse_block(const Json& json, const std::string& path) {
    if (!json.is_array() || json.size() != 2 || !json[1].is_number_integer()) {
        wrong_type(path, json, "a pair of a role and whole bytes, such as [\"own\", 4096]");
    }
    if (json[1].is_number_unsigned() && json[1].get<std::uint64_t>() > std::uint64_t{kMostProfileBytes}) {
        wrong_type(path + "[1]", json[1], "bytes up to 2^50");
    }
    return {parse_role(json[0], path + "[0]"), json[1].get<Bytes>()};
}

std::optional<std::vector<std::int32_t>> parse_events(const Json& tape, const char* phase, const std::string& path) {
    if (!tape.contains(phase)) {
        return std::nullopt;
    }
    const Json& json = tape[phase];
    const std::string where = path + "." + phase;
    if (!json.is_array()) {
        wrong_type(where, json, "an array of block numbers");
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    std::vector<std::int32_t> events;
    events.reserve(json.size());
    for (std::size_t k = 0; k < json.size(); ++k) {
        if (!json[k].is_number_integer() || json[k] > kMost || json[k] < -kMost) {
            wrong_type(where + "[" + std::to_string(k) + "]", json[k], "the number of a block, or minus it");
        }
        events.push_back(json[k].get<std::int32_t>());
    }
    return events;
}

std::map<std::string, LayerTape::Skip> parse_skips(const Json& tape, const char* key, const std::string& path) {
    std::map<std::string, LayerTape::Skip> skips;
    if (!tape.contains(key)) {
        return skips;
    }
    const std::string where = path + "." + key;
    if (!tape[key].is_object()) {
        wrong_type(where, tape[key], "an object of skips");
    }
    for (const auto& [name, blocks] : tape[key].items()) {
        if (!blocks.is_array() || blocks.size() != 2) {
            wrong_type(where + "." + name, blocks, "the block of the skip and that of its gradient, such as [3, 5]");
        }
        const std::vector<std::int32_t> numbers = *parse_events(tape[key], name.c_str(), where);
        skips[name] = {numbers[0], numbers[1]};
    }
    return skips;
}

/// `whole`: for a split backward, the tape of the whole one, whose forwards it shares.
LayerTape parse_tape(const Json& json, const std::string& path, const LayerTape* whole = nullptr) {
    if (!json.is_object()) {
        wrong_type(path, json, "an object with blocks, forward and backward, or null");
    }
    for (const char* required : {"blocks", "forward", "backward"}) {
        const bool has_default = whole != nullptr && required == std::string_view("forward");
        if (!json.contains(required) && !has_default) {
            throw ProfileError(path + "." + required +
                               " is missing; a tape has blocks, forward and backward; record the tapes again");
        }
    }
    LayerTape tape;
    tape.blocks = read_array(json["blocks"], path + ".blocks", "an array of pairs of role and bytes", parse_block);
    const bool shares_forwards = !json.contains("forward");
    tape.forward = shares_forwards ? whole->forward : *parse_events(json, "forward", path);
    tape.backward = *parse_events(json, "backward", path);
    tape.recompute = parse_events(json, "recompute", path).value_or(shares_forwards ? whole->recompute : tape.forward);
    if (whole != nullptr) {
        tape.backward_weight = parse_events(json, "backward_weight", path).value_or(std::vector<std::int32_t>{});
    } else if (json.contains("backward_weight")) {
        wrong_type(path + ".backward_weight", json["backward_weight"], "left out, except in halves");
    }
    for (const auto& [key, list] : kLists) {
        tape.*list = parse_events(json, key, path).value_or(std::vector<std::int32_t>{});
    }
    tape.stash = parse_skips(json, "stash", path);
    tape.pop = parse_skips(json, "pop", path);
    for (const auto& [key, variant, refused] : kVariants) {
        if (!json.contains(key)) {
            continue;
        }
        const std::string where = path + "." + key;
        for (const char* inner : refused) {
            if (json[key].is_object() && json[key].contains(inner)) {
                wrong_type(where + "." + inner, json[key][inner], "left out");
            }
        }
        if (variant != &LayerTape::halves) {
            tape.*variant = {parse_tape(json[key], where)};
        }
    }
    const auto checkpointed = parse_events(json, "checkpointed_forward", path);
    tape.checkpointed_forward = checkpointed      ? *checkpointed
                                : shares_forwards ? whole->checkpointed_forward
                                                  : forward_that_keeps_nothing(tape);
    if (json.contains("halves")) {
        tape.halves = {parse_tape(json["halves"], path + ".halves", &tape)};
    }
    return tape;
}
/// `whole`: as in parse_tape().
Json to_json(const LayerTape& tape, const LayerTape* whole = nullptr) {
    if (tape.empty()) {
        return nullptr;
    }
    Json json = Json::object();
    for (const auto& [key, variant, refused] : kVariants) {
        if (!(tape.*variant).empty()) {
            json[key] = to_json((tape.*variant).front(), variant == &LayerTape::halves ? &tape : nullptr);
        }
    }
    json["blocks"] = Json::array();
    for (const TapeBlock& block : tape.blocks) {
        json["blocks"].push_back({to_string(block.role), block.bytes});
    }
    const bool shares_forwards = whole != nullptr && whole->forward == tape.forward &&
                                 whole->checkpointed_forward == tape.checkpointed_forward &&
                                 whole->recompute == tape.recompute;
    if (!shares_forwards) {
        json["forward"] = tape.forward;
        json["checkpointed_forward"] = tape.checkpointed_forward;
        if (tape.recompute != tape.forward) {
            json["recompute"] = tape.recompute;
        }
    }
    json["backward"] = tape.backward;
    if (whole != nullptr) {
        json["backward_weight"] = tape.backward_weight;
    }
    for (const auto& [key, list] : kLists) {
        if (!(tape.*list).empty()) {
            json[key] = tape.*list;
        }
    }
    for (const auto& [key, skips] : {std::pair("stash", &tape.stash), std::pair("pop", &tape.pop)}) {
        for (const auto& [name, skip] : *skips) {
            json[key][name] = {skip.value, skip.gradient};
        }
    }
    return json;
}
}  // namespace

std::vector<LayerTape> parse_tapes(const Json& json, const std::string& path) {
    return read_array(json, path, "an array with one tape, or null, for each entry of samples",
                      [](const Json& tape, const std::string& where) {
                          return tape.is_null() ? LayerTape{} : parse_tape(tape, where);
                      });
}

Json to_json(const std::vector<LayerTape>& tapes) {
    Json json = Json::array();
    for (const LayerTape& tape : tapes) {
        json.push_back(to_json(tape));
    }
    return json;
}
}  // namespace pipescope
