#include "profiler/profile/layer_tape_json.h"

#include "profiler/profile/profile.h"

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

using Value = JsonValue<Json>;
using Object = JsonObject<Json>;

TapeBlock::Role parse_role(const Value& value) {
    for (int k = 0; k < kNumRoles; ++k) {
        if (const auto role = static_cast<TapeBlock::Role>(k); value.json() == to_string(role)) {
            return role;
        }
    }
    value.refuse("own, input, output, passed, output_gradient, input_gradient, passed_gradient or skip");
}

TapeBlock parse_block(const Value& value) {
    const Json& json = value.json();
    if (!json.is_array() || json.size() != 2 || !json[1].is_number_integer()) {
        value.refuse("a pair of a role and whole bytes, such as [\"own\", 4096]");
    }
    return {parse_role(value.element(0)),
            value.element(1).integer(std::numeric_limits<Bytes>::min(), kMostProfileBytes, "bytes up to 2^50")};
}

std::vector<std::int32_t> parse_blocks(const Value& value) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    return value.list("an array of block numbers", [](const Value& block) {
        return static_cast<std::int32_t>(block.integer(-kMost, kMost, "the number of a block, or minus it"));
    });
}

std::optional<std::vector<std::int32_t>> parse_events(Object& tape, const char* phase) {
    const std::optional<Value> events = tape.find(phase);
    return events ? std::optional(parse_blocks(*events)) : std::nullopt;
}

std::map<std::string, LayerTape::Skip> parse_skips(Object& tape, const char* key) {
    std::map<std::string, LayerTape::Skip> skips;
    if (const std::optional<Value> found = tape.find(key)) {
        found->object("an object of skips").for_each([&](const std::string& name, const Value& blocks) {
            if (!blocks.json().is_array() || blocks.json().size() != 2) {
                blocks.refuse("the block of the skip and that of its gradient, such as [3, 5]");
            }
            const std::vector<std::int32_t> numbers = parse_blocks(blocks);
            skips[name] = {numbers[0], numbers[1]};
        });
    }
    return skips;
}

/// `whole`: for a split backward, the tape of the whole one, whose forwards it shares.
LayerTape parse_tape(const Value& value, const LayerTape* whole = nullptr) {
    constexpr std::string_view kMissing = "a tape has blocks, forward and backward; record the tapes again";
    Object object = value.object("an object with blocks, forward and backward, or null");
    const bool shares_forwards = whole != nullptr && !object.contains("forward");
    LayerTape tape;
    tape.blocks = object.at("blocks", kMissing).list("an array of pairs of role and bytes", parse_block);
    tape.forward = shares_forwards ? whole->forward : parse_blocks(object.at("forward", kMissing));
    tape.backward = parse_blocks(object.at("backward", kMissing));
    tape.recompute = parse_events(object, "recompute").value_or(shares_forwards ? whole->recompute : tape.forward);
    if (whole != nullptr) {
        tape.backward_weight = parse_events(object, "backward_weight").value_or(std::vector<std::int32_t>{});
    } else if (const std::optional<Value> weights = object.find("backward_weight")) {
        weights->refuse("left out, except in halves");
    }
    for (const auto& [key, list] : kLists) {
        tape.*list = parse_events(object, key).value_or(std::vector<std::int32_t>{});
    }
    tape.stash = parse_skips(object, "stash");
    tape.pop = parse_skips(object, "pop");
    for (const auto& [key, variant, refused] : kVariants) {
        const std::optional<Value> found = object.find(key);
        if (!found) {
            continue;
        }
        for (const char* inner : refused) {
            if (!found->json().is_object()) {
                break;
            }
            if (const std::optional<Value> nested = found->object().find(inner)) {
                nested->refuse("left out");
            }
        }
        if (variant != &LayerTape::halves) {
            tape.*variant = {parse_tape(*found)};
        }
    }
    const auto checkpointed = parse_events(object, "checkpointed_forward");
    tape.checkpointed_forward = checkpointed      ? *checkpointed
                                : shares_forwards ? whole->checkpointed_forward
                                                  : forward_that_keeps_nothing(tape);
    if (const std::optional<Value> halves = object.find("halves")) {
        tape.halves = {parse_tape(*halves, &tape)};
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

std::vector<LayerTape> parse_tapes(const JsonValue<Json>& value) {
    return value.list("an array with one tape, or null, for each entry of samples",
                      [](const Value& tape) { return tape.json().is_null() ? LayerTape{} : parse_tape(tape); });
}

Json to_json(const std::vector<LayerTape>& tapes) {
    Json json = Json::array();
    for (const LayerTape& tape : tapes) {
        json.push_back(to_json(tape));
    }
    return json;
}
}  // namespace pipescope
