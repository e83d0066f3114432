#include "balance/json_path.h"
#include "balance/layer_tape_json.h"
#include "balance/profile_file.h"
#include "schedule/printable.h"

#include <cmath>
#include <limits>
#include <optional>

namespace pipescope {
namespace {
constexpr std::string_view kProfileFormat = "pipescope.profile";
constexpr std::int64_t kVersion = 1;

[[noreturn]] void wrong_type(const std::string& path, const Json& value, const std::string& wanted) {
    std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > 40) {
        shown = shown.substr(0, 40) + "..";
    }
    throw ProfileError(path + " is " + shown + "; it must be " + wanted + "; correct it, or profile again");
}

double number_of(const Json& value, const std::string& path) {
    if (!value.is_number()) {
        wrong_type(path, value, "a number");
    }
    return value.get<double>();
}

std::int64_t whole_number_of(const Json& value, const std::string& path) {
    const double number = number_of(value, path);
    if (number != std::floor(number)) {
        wrong_type(path, value, "a whole number");
    }
    if (std::abs(number) > 9007199254740992.0) {
        wrong_type(path, value, "a whole number up to 2^53");
    }
    return static_cast<std::int64_t>(number);
}

/// A JSON object being read. Each field is taken once; the remaining ones are unknown and kept.
class Fields {
public:
    Fields(const Json& object, std::string path) : path_(std::move(path)) {
        if (!object.is_object()) {
            wrong_type(path_.empty() ? "$" : path_, object, "an object");
        }
        rest_ = object;
    }

    std::string path_of(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

    std::optional<Json> take(const std::string& key) {
        const auto found = rest_.find(key);
        if (found == rest_.end()) {
            return std::nullopt;
        }
        Json value = *found;
        rest_.erase(found);
        return value;
    }
    Json require(const std::string& key) {
        std::optional<Json> value = take(key);
        if (!value) {
            throw ProfileError(path_of(key) + " is missing; every profile has it; add it, or profile again");
        }
        return *std::move(value);
    }

    void read(const std::string& key, std::string& into) {
        if (const auto value = take(key)) {
            if (!value->is_string()) {
                wrong_type(path_of(key), *value, "a string");
            }
            into = value->get<std::string>();
        }
    }
    void read(const std::string& key, bool& into) {
        if (const auto value = take(key)) {
            if (!value->is_boolean()) {
                wrong_type(path_of(key), *value, "true or false");
            }
            into = value->get<bool>();
        }
    }
    void read(const std::string& key, double& into) {
        if (const auto value = take(key)) {
            into = number_of(*value, path_of(key));
        }
    }
    void read(const std::string& key, std::int64_t& into) {
        if (const auto value = take(key)) {
            into = whole_number_of(*value, path_of(key));
        }
    }
    void read(const std::string& key, int& into) {
        std::int64_t wide = into;
        read(key, wide);
        if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
            throw ProfileError(path_of(key) + " is " + std::to_string(wide) +
                               "; it counts threads or lanes; correct it, or profile again");
        }
        into = static_cast<int>(wide);
    }
    void read(const std::string& key, PerSize& into) {
        if (const auto value = take(key)) {
            into = per_size(*value, path_of(key));
            if (into.empty()) {
                throw ProfileError(
                    path_of(key) +
                    " is []; an array holds one number for each size, or lane; fill it, or leave it out");
            }
        }
    }
    static PerSize per_size(const Json& value, const std::string& path) {
        if (!value.is_array()) {
            wrong_type(path, value, "an array with one number for each entry of samples");
        }
        PerSize numbers;
        for (std::size_t k = 0; k < value.size(); ++k) {
            numbers.push_back(number_of(value[k], path + "[" + std::to_string(k) + "]"));
        }
        return numbers;
    }

    std::string unknown() const { return rest_.empty() ? std::string() : rest_.dump(); }

private:
    std::string path_;
    Json rest_;
};

DeviceWork parse_work(const Json& json, const std::string& path) {
    if (!json.is_array() || json.size() != 3) {
        wrong_type(path, json, "kernels, flops and bytes, such as [1, 131072, 4096]");
    }
    const auto at = [&](std::size_t k) { return number_of(json[k], path + "[" + std::to_string(k) + "]"); };
    return {at(1), at(2), at(0)};
}

std::vector<Operators> parse_operators(const Json& json, const std::string& path) {
    if (!json.is_array()) {
        wrong_type(path, json, "an array with the operators for each entry of samples");
    }
    std::vector<Operators> by_size;
    for (std::size_t k = 0; k < json.size(); ++k) {
        const std::string here = path + "[" + std::to_string(k) + "]";
        if (!json[k].is_array()) {
            wrong_type(here, json[k], "an array of operators");
        }
        Operators& operators = by_size.emplace_back();
        for (std::size_t each = 0; each < json[k].size(); ++each) {
            operators.push_back(parse_work(json[k][each], here + "[" + std::to_string(each) + "]"));
        }
    }
    return by_size;
}

LayerProfile parse_layer(const Json& json, const std::string& path, std::size_t samples) {
    Fields fields(json, path);
    LayerProfile layer;
    const Json name = fields.require("name");
    if (!name.is_string()) {
        wrong_type(path + ".name", name, "a string");
    }
    layer.name = name.get<std::string>();
    const auto require_per_size = [&](const char* key) {
        return Fields::per_size(fields.require(key), fields.path_of(key));
    };
    layer.forward_ns = require_per_size("forward_ns");
    layer.backward_ns = require_per_size("backward_ns");
    layer.output_bytes = require_per_size("output_bytes");
    fields.read("parameter_bytes", layer.parameter_bytes);
    layer.gradient_bytes = layer.parameter_bytes;
    fields.read("gradient_bytes", layer.gradient_bytes);
    fields.read("buffer_bytes", layer.buffer_bytes);
    fields.read("statistic_bytes", layer.statistic_bytes);
    layer.recompute_ns = layer.forward_ns;
    fields.read("recompute_ns", layer.recompute_ns);
    fields.read("backward_weight_ns", layer.backward_weight_ns);
    fields.read("forward_cv", layer.forward_cv);
    fields.read("backward_cv", layer.backward_cv);
    layer.saved_bytes = layer.transient_bytes = layer.flops = PerSize(samples, 0);
    fields.read("saved_bytes", layer.saved_bytes);
    fields.read("transient_bytes", layer.transient_bytes);
    fields.read("flops", layer.flops);
    if (const auto operators = fields.take("forward_operators")) {
        layer.forward_operators = parse_operators(*operators, fields.path_of("forward_operators"));
    }
    if (const auto operators = fields.take("backward_operators")) {
        layer.backward_operators = parse_operators(*operators, fields.path_of("backward_operators"));
    }
    fields.read("keeps_input", layer.keeps_input);
    fields.read("keeps_output", layer.keeps_output);
    fields.read("aliases_input", layer.aliases_input);
    fields.read("passes_gradient", layer.passes_gradient);
    if (const auto stash = fields.take("stash")) {
        if (!stash->is_object()) {
            wrong_type(fields.path_of("stash"), *stash, "an object of skip names and their bytes");
        }
        for (const auto& [skip, bytes] : stash->items()) {
            layer.stash[skip] = Fields::per_size(bytes, fields.path_of("stash") + "." + printable(skip));
        }
    }
    if (const auto pop = fields.take("pop")) {
        if (!pop->is_array()) {
            wrong_type(fields.path_of("pop"), *pop, "an array of skip names");
        }
        for (std::size_t k = 0; k < pop->size(); ++k) {
            if (!(*pop)[k].is_string()) {
                wrong_type(fields.path_of("pop") + "[" + std::to_string(k) + "]", (*pop)[k], "a string");
            }
            layer.pop.push_back((*pop)[k].get<std::string>());
        }
    }
    if (const auto tape = fields.take("tape")) {
        layer.tape = parse_tapes(*tape, fields.path_of("tape"));
    }
    layer.unknown = fields.unknown();
    return layer;
}

std::vector<std::int64_t> parse_sizes(const Json& json, const std::string& path) {
    if (!json.is_array()) {
        wrong_type(path, json, "an array of sizes in samples");
    }
    std::vector<std::int64_t> sizes;
    for (std::size_t k = 0; k < json.size(); ++k) {
        sizes.push_back(whole_number_of(json[k], path + "[" + std::to_string(k) + "]"));
    }
    return sizes;
}

BatchLoss parse_batch_loss(const Json& json) {
    Fields fields(json, "loss_batch");
    BatchLoss loss;
    loss.samples = parse_sizes(fields.require("samples"), fields.path_of("samples"));
    loss.ns = Fields::per_size(fields.require("ns"), fields.path_of("ns"));
    fields.read("transient_bytes", loss.transient_bytes);
    fields.read("all_gradients_transient_bytes", loss.all_gradients_transient_bytes);
    return loss;
}

MachineLoad parse_load_object(const Json& json) {
    Fields fields(json, "load");
    MachineLoad load;
    load.others = number_of(fields.require("others"), fields.path_of("others"));
    load.stolen = number_of(fields.require("stolen"), fields.path_of("stolen"));
    if (const auto pressure = fields.take("pressure")) {
        load.pressure = number_of(*pressure, fields.path_of("pressure"));
    }
    check_load(load, "load");
    return load;
}

Json load_object(const MachineLoad& load) {
    Json json{{"others", load.others}, {"stolen", load.stolen}};
    if (load.pressure) {
        json["pressure"] = *load.pressure;
    }
    return json;
}

void check_format(Fields& fields) {
    if (const Json format = fields.require("format"); format != kProfileFormat) {
        wrong_type("format", format, "\"" + std::string(kProfileFormat) + "\": the file is something else");
    }
    const std::int64_t version = whole_number_of(fields.require("version"), "version");
    if (version != kVersion) {
        throw ProfileError("version is " + std::to_string(version) + "; this pipescope reads version " +
                           std::to_string(kVersion) + (version > kVersion ? "; update pipescope" : "; correct it") +
                           ", or profile again");
    }
}

/// Whole numbers without a fraction, so that files contain 12 and not 12.0.
Json to_number(double value) {
    if (value == std::floor(value) && std::abs(value) <= 9007199254740992.0) {
        return static_cast<std::int64_t>(value);
    }
    return value;
}

Json to_array(const PerSize& values) {
    Json array = Json::array();
    for (const double value : values) {
        array.push_back(to_number(value));
    }
    return array;
}

void add_array(Json& json, const char* key, const PerSize& values) {
    if (!values.empty()) {
        json[key] = to_array(values);
    }
}

void add_operators(Json& json, const char* key, const std::vector<Operators>& by_size) {
    if (by_size.empty()) {
        return;
    }
    Json& array = json[key] = Json::array();
    for (const Operators& operators : by_size) {
        Json& here = array.emplace_back(Json::array());
        for (const DeviceWork& each : operators) {
            here.push_back({to_number(each.kernels), to_number(each.flops), to_number(each.bytes_moved)});
        }
    }
}

void add_unknown(Json& json, const std::string& unknown) {
    if (!unknown.empty()) {
        json.update(Json::parse(unknown));
    }
}

Json to_json(const LayerProfile& layer) {
    Json json;
    json["name"] = layer.name;
    json["parameter_bytes"] = layer.parameter_bytes;
    json["gradient_bytes"] = layer.gradient_bytes;
    json["buffer_bytes"] = layer.buffer_bytes;
    if (layer.statistic_bytes > 0) {
        json["statistic_bytes"] = layer.statistic_bytes;
    }
    add_array(json, "forward_ns", layer.forward_ns);
    add_array(json, "recompute_ns", layer.recompute_ns);
    add_array(json, "backward_ns", layer.backward_ns);
    add_array(json, "backward_weight_ns", layer.backward_weight_ns);
    json["forward_cv"] = to_number(layer.forward_cv);
    json["backward_cv"] = to_number(layer.backward_cv);
    add_array(json, "output_bytes", layer.output_bytes);
    add_array(json, "saved_bytes", layer.saved_bytes);
    add_array(json, "transient_bytes", layer.transient_bytes);
    add_array(json, "flops", layer.flops);
    add_operators(json, "forward_operators", layer.forward_operators);
    add_operators(json, "backward_operators", layer.backward_operators);
    json["keeps_input"] = layer.keeps_input;
    json["keeps_output"] = layer.keeps_output;
    json["aliases_input"] = layer.aliases_input;
    if (layer.passes_gradient) {
        json["passes_gradient"] = true;
    }
    if (!layer.stash.empty()) {
        for (const auto& [skip, bytes] : layer.stash) {
            json["stash"][skip] = to_array(bytes);
        }
    }
    if (!layer.pop.empty()) {
        json["pop"] = layer.pop;
    }
    if (!layer.tape.empty()) {
        json["tape"] = to_json(layer.tape);
    }
    add_unknown(json, layer.unknown);
    return json;
}

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}
}  // namespace

namespace {
/// The weights' part of a backward cannot take longer than the whole.
void check_weight_parts(const Profile& profile) {
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        const LayerProfile& layer = profile.layers[l];
        for (std::size_t k = 0; k < layer.backward_weight_ns.size(); ++k) {
            if (layer.backward_weight_ns[k] > layer.backward_ns[k]) {
                const std::string path = "layers[" + std::to_string(l) + "].";
                const std::string entry = "[" + std::to_string(k) + "]";
                throw ProfileError(path + "backward_weight_ns" + entry + " is " +
                                   shortest(layer.backward_weight_ns[k]) + " in layer '" + printable(layer.name) +
                                   "', whose backward_ns" + entry + " is " + shortest(layer.backward_ns[k]) +
                                   "; the former is a part of the latter; correct one of them, or profile again");
            }
        }
    }
}
}  // namespace

Profile parse_profile(std::string_view text) {
    Fields fields(parse_json_with_path(text), "");
    check_format(fields);
    Profile profile;
    profile.samples = parse_sizes(fields.require("samples"), "samples");
    fields.read("model", profile.model);
    fields.read("device", profile.device);
    fields.read("dtype", profile.dtype);
    fields.read("threads", profile.threads);
    fields.read("co_running_lanes", profile.co_running_lanes);
    fields.read("host_cores", profile.host_cores);
    fields.read("co_running_slowdown", profile.co_running_slowdown);
    fields.read("step_cv", profile.step_cv);
    fields.read("lane_cv", profile.lane_cv);
    fields.read("estimated", profile.estimated);
    fields.read("token_input", profile.token_input);
    profile.input_bytes = profile.loss_ns = PerSize(profile.samples.size(), 0);
    fields.read("input_bytes", profile.input_bytes);
    fields.read("loss_ns", profile.loss_ns);
    if (const auto operators = fields.take("loss_operators")) {
        profile.loss_operators = parse_operators(*operators, "loss_operators");
    }
    if (const auto loss = fields.take("loss_batch")) {
        profile.loss_batch = parse_batch_loss(*loss);
    }
    fields.read("loss_transient_bytes", profile.loss_transient_bytes);
    fields.read("loss_all_gradients_transient_bytes", profile.loss_all_gradients_transient_bytes);
    fields.read("optimizer_ns", profile.optimizer_ns);
    fields.read("launch_ns", profile.launch_ns);
    if (const auto load = fields.take("load")) {
        profile.load = parse_load_object(*load);
    }
    const Json layers = fields.require("layers");
    if (!layers.is_array()) {
        wrong_type("layers", layers, "an array of layers");
    }
    for (std::size_t l = 0; l < layers.size(); ++l) {
        profile.layers.push_back(parse_layer(layers[l], "layers[" + std::to_string(l) + "]", profile.samples.size()));
    }
    profile.unknown = fields.unknown();
    check_profile(profile);
    check_weight_parts(profile);
    return profile;
}

std::string to_json(const Profile& profile) {
    Json json;
    json["format"] = kProfileFormat;
    json["version"] = kVersion;
    json["model"] = profile.model;
    json["device"] = profile.device;
    json["dtype"] = profile.dtype;
    json["threads"] = profile.threads;
    json["co_running_lanes"] = profile.co_running_lanes;
    json["host_cores"] = profile.host_cores;
    add_array(json, "co_running_slowdown", profile.co_running_slowdown);
    if (profile.step_cv > 0) {
        json["step_cv"] = to_number(profile.step_cv);
    }
    if (profile.lane_cv > 0) {
        json["lane_cv"] = to_number(profile.lane_cv);
    }
    json["estimated"] = profile.estimated;
    if (profile.token_input) {
        json["token_input"] = true;
    }
    json["samples"] = profile.samples;
    add_array(json, "input_bytes", profile.input_bytes);
    add_array(json, "loss_ns", profile.loss_ns);
    add_operators(json, "loss_operators", profile.loss_operators);
    if (!profile.loss_batch.samples.empty()) {
        json["loss_batch"] = {{"samples", profile.loss_batch.samples}, {"ns", to_array(profile.loss_batch.ns)}};
        add_array(json["loss_batch"], "transient_bytes", profile.loss_batch.transient_bytes);
        add_array(json["loss_batch"], "all_gradients_transient_bytes",
                  profile.loss_batch.all_gradients_transient_bytes);
    }
    add_array(json, "loss_transient_bytes", profile.loss_transient_bytes);
    add_array(json, "loss_all_gradients_transient_bytes", profile.loss_all_gradients_transient_bytes);
    json["optimizer_ns"] = to_number(profile.optimizer_ns);
    json["launch_ns"] = to_number(profile.launch_ns);
    if (profile.load) {
        json["load"] = load_object(*profile.load);
    }
    add_unknown(json, profile.unknown);
    // One line per field and per layer: readable, and a diff shows which layer changed.
    std::string text = "{\n";
    for (const auto& [key, value] : json.items()) {
        text += "  " + dump(Json(key)) + ": " + dump(value) + ",\n";
    }
    text += "  \"layers\": [";
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        text += (l == 0 ? "\n    " : ",\n    ") + dump(to_json(profile.layers[l]));
    }
    return text + "\n  ]\n}\n";
}

std::string to_json(const MachineLoad& load) {
    return load_object(load).dump();
}

MachineLoad parse_load(std::string_view json) {
    return parse_load_object(parse_json_with_path(json));
}
}  // namespace pipescope
