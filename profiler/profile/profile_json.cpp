#include "base/printable.h"
#include "profiler/profile/json_path.h"
#include "profiler/profile/layer_tape_json.h"
#include "profiler/profile/profile_file.h"

#include <cmath>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

namespace pipescope {
namespace {
constexpr std::string_view kProfileFormat = "pipescope.profile";
constexpr std::int64_t kVersion = 1;

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

std::string string_of(const Json& value, const std::string& path) {
    if (!value.is_string()) {
        wrong_type(path, value, "a string");
    }
    return value.get<std::string>();
}

PerSize per_size_of(const Json& value, const std::string& path) {
    return read_array(value, path, "an array with one number for each entry of samples", number_of);
}

DeviceWork work_of(const Json& json, const std::string& path) {
    if (!json.is_array() || json.size() != 3) {
        wrong_type(path, json, "kernels, flops and bytes, such as [1, 131072, 4096]");
    }
    const auto at = [&](std::size_t k) { return number_of(json[k], path + "[" + std::to_string(k) + "]"); };
    return {at(1), at(2), at(0)};
}

Operators operators_of(const Json& json, const std::string& path) {
    return read_array(json, path, "an array of operators", work_of);
}

/// Reads or writes a layer's fields that are in the file as they are in memory, in the file's order. `rare` is for
/// those that are left out if false or zero.
void visit_layer(auto& layer, auto&& field, auto&& rare) {
    field("parameter_bytes", layer.parameter_bytes);
    field("gradient_bytes", layer.gradient_bytes);
    rare("expert_gradient_bytes", layer.expert_gradient_bytes);
    field("buffer_bytes", layer.buffer_bytes);
    rare("statistic_bytes", layer.statistic_bytes);
    field("forward_ns", layer.forward_ns);
    field("recompute_ns", layer.recompute_ns);
    rare("graph_forward_ns", layer.graph_forward_ns);
    field("backward_ns", layer.backward_ns);
    field("backward_weight_ns", layer.backward_weight_ns);
    field("forward_cv", layer.forward_cv);
    field("backward_cv", layer.backward_cv);
    field("output_bytes", layer.output_bytes);
    field("saved_bytes", layer.saved_bytes);
    field("transient_bytes", layer.transient_bytes);
    field("flops", layer.flops);
    field("forward_operators", layer.forward_operators);
    field("backward_operators", layer.backward_operators);
    field("keeps_input", layer.keeps_input);
    field("keeps_output", layer.keeps_output);
    field("aliases_input", layer.aliases_input);
    rare("passes_gradient", layer.passes_gradient);
}

/// Visits each key of a profile.
void visit_profile(auto& profile, auto&& field, auto&& rare) {
    field("model", profile.model);
    field("device", profile.device);
    field("dtype", profile.dtype);
    field("threads", profile.threads);
    field("co_running_lanes", profile.co_running_lanes);
    field("host_cores", profile.host_cores);
    field("co_running_slowdown", profile.co_running_slowdown);
    rare("command_options", profile.command_options);
    rare("step_cv", profile.step_cv);
    rare("lane_cv", profile.lane_cv);
    field("estimated", profile.estimated);
    rare("from_trace", profile.from_trace);
    rare("memory_unknown", profile.memory_unknown);
    rare("token_input", profile.token_input);
    rare("tokens_per_sample", profile.tokens_per_sample);
    field("samples", profile.samples);
    field("input_bytes", profile.input_bytes);
    field("loss_ns", profile.loss_ns);
    field("loss_operators", profile.loss_operators);
    field("loss_batch", profile.loss_batch);
    field("loss_transient_bytes", profile.loss_transient_bytes);
    field("loss_all_gradients_transient_bytes", profile.loss_all_gradients_transient_bytes);
    field("optimizer_ns", profile.optimizer_ns);
    field("launch_ns", profile.launch_ns);
}

void visit_batch_loss(auto& loss, auto&& field) {
    field("samples", loss.samples);
    field("ns", loss.ns);
    field("transient_bytes", loss.transient_bytes);
    field("all_gradients_transient_bytes", loss.all_gradients_transient_bytes);
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
    bool contains(const std::string& key) const { return rest_.contains(key); }

    std::optional<Json> take(const std::string& key) {
        const auto found = rest_.find(key);
        if (found == rest_.end()) {
            return std::nullopt;
        }
        Json value = *found;
        rest_.erase(found);
        return value;
    }
    void expect(const std::string& key) {
        expected_.insert(key);
        if (!contains(key)) {
            throw ProfileError(path_of(key) + " is missing; every profile has it; add it, or profile again");
        }
    }
    Json require(const std::string& key) {
        expect(key);
        return *take(key);
    }

    /// Leaves `into` as it is without that field.
    template <typename Value>
    void read(const std::string& key, Value& into) {
        if (const auto value = take(key)) {
            convert(*value, path_of(key), into);
            if (value->empty() && std::is_same_v<Value, PerSize> && !expected_.contains(key)) {
                throw ProfileError(
                    path_of(key) +
                    " is []; an array holds one number for each size, or lane; fill it, or leave it out");
            }
        }
    }

    std::string unknown() const { return rest_.empty() ? std::string() : rest_.dump(); }

private:
    static void convert(const Json& json, const std::string& path, std::string& into) { into = string_of(json, path); }
    static void convert(const Json& json, const std::string& path, double& into) { into = number_of(json, path); }
    static void convert(const Json& json, const std::string& path, std::int64_t& into) {
        into = whole_number_of(json, path);
    }
    static void convert(const Json& json, const std::string& path, bool& into) {
        if (!json.is_boolean()) {
            wrong_type(path, json, "true or false");
        }
        into = json.get<bool>();
    }
    static void convert(const Json& json, const std::string& path, int& into) {
        const std::int64_t wide = whole_number_of(json, path);
        if (!std::in_range<int>(wide)) {
            throw ProfileError(path + " is " + std::to_string(wide) +
                               "; it counts threads or lanes; correct it, or profile again");
        }
        into = static_cast<int>(wide);
    }
    static void convert(const Json& json, const std::string& path, PerSize& into) { into = per_size_of(json, path); }
    static void convert(const Json& json, const std::string& path, std::vector<std::int64_t>& into) {
        into = read_array(json, path, "an array of sizes in samples", whole_number_of);
    }
    static void convert(const Json& json, const std::string& path, std::vector<std::string>& into) {
        into = read_array(json, path, "an array of words", string_of);
    }
    static void convert(const Json& json, const std::string& path, std::vector<Operators>& into) {
        into = read_array(json, path, "an array with the operators for each entry of samples", operators_of);
    }
    static void convert(const Json& json, const std::string& path, BatchLoss& into) {
        Fields fields(json, path);
        fields.expect("samples");
        fields.expect("ns");
        visit_batch_loss(into, [&](const char* key, auto& value) { fields.read(key, value); });
    }

    std::string path_;
    Json rest_;
    std::set<std::string> expected_;
};

LayerProfile parse_layer(const Json& json, const std::string& path, std::size_t samples) {
    Fields fields(json, path);
    LayerProfile layer;
    layer.name = string_of(fields.require("name"), path + ".name");
    for (const char* key : {"forward_ns", "backward_ns", "output_bytes"}) {
        fields.expect(key);
    }
    const bool has_gradient_bytes = fields.contains("gradient_bytes");
    layer.saved_bytes = layer.transient_bytes = layer.flops = PerSize(samples, 0);
    const auto read = [&](const char* key, auto& value) { fields.read(key, value); };
    visit_layer(layer, read, read);
    if (!has_gradient_bytes) {
        layer.gradient_bytes = layer.parameter_bytes;
    }
    if (layer.recompute_ns.empty()) {
        layer.recompute_ns = layer.forward_ns;
    }
    if (const auto stash = fields.take("stash")) {
        if (!stash->is_object()) {
            wrong_type(fields.path_of("stash"), *stash, "an object of skip names and their bytes");
        }
        for (const auto& [skip, bytes] : stash->items()) {
            layer.stash[skip] = per_size_of(bytes, fields.path_of("stash") + "." + printable(skip));
        }
    }
    if (const auto pop = fields.take("pop")) {
        layer.pop = read_array(*pop, fields.path_of("pop"), "an array of skip names", string_of);
    }
    if (const auto tape = fields.take("tape")) {
        layer.tape = parse_tapes(*tape, fields.path_of("tape"));
    }
    layer.unknown = fields.unknown();
    return layer;
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

/// Appends fields to a JSON object, without those that are empty.
class FieldWriter {
public:
    explicit FieldWriter(Json& json) : json_(json) {}

    void operator()(const char* key, const auto& value) const { json_[key] = value; }
    void operator()(const char* key, double value) const { json_[key] = to_number(value); }
    void operator()(const char* key, const PerSize& values) const {
        if (!values.empty()) {
            json_[key] = to_array(values);
        }
    }
    void operator()(const char* key, const std::vector<Operators>& by_size) const {
        for (const Operators& operators : by_size) {
            Json here = Json::array();
            for (const DeviceWork& each : operators) {
                here.push_back({to_number(each.kernels), to_number(each.flops), to_number(each.bytes_moved)});
            }
            json_[key].push_back(std::move(here));
        }
    }
    void operator()(const char* key, const BatchLoss& loss) const {
        if (!loss.samples.empty()) {
            visit_batch_loss(loss, FieldWriter(json_[key]));
        }
    }
    void rare(const char* key, const auto& value) const {
        if (value != std::remove_cvref_t<decltype(value)>{}) {
            (*this)(key, value);
        }
    }

private:
    Json& json_;
};

void add_unknown(Json& json, const std::string& unknown) {
    if (!unknown.empty()) {
        json.update(Json::parse(unknown));
    }
}

Json to_json(const LayerProfile& layer) {
    Json json;
    json["name"] = layer.name;
    const FieldWriter write(json);
    visit_layer(layer, write, [&](const char* key, const auto& value) { write.rare(key, value); });
    for (const auto& [skip, bytes] : layer.stash) {
        json["stash"][skip] = to_array(bytes);
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

CheckedProfile parse_profile(std::string_view text) {
    Fields fields(parse_json_with_path(text), "");
    check_format(fields);
    Profile profile;
    fields.expect("samples");
    // Sizes come first: an absent array of bytes or times is as long as they are.
    fields.read("samples", profile.samples);
    profile.input_bytes = profile.loss_ns = PerSize(profile.samples.size(), 0);
    const auto read = [&](const char* key, auto& value) { fields.read(key, value); };
    visit_profile(profile, read, read);
    if (const auto load = fields.take("load")) {
        profile.load = parse_load_object(*load);
    }
    profile.layers = read_array(
        fields.require("layers"), "layers", "an array of layers",
        [&](const Json& layer, const std::string& path) { return parse_layer(layer, path, profile.samples.size()); });
    profile.unknown = fields.unknown();
    CheckedProfile checked(std::move(profile));
    check_weight_parts(checked);
    return checked;
}

std::string to_json(const Profile& profile) {
    Json json;
    json["format"] = kProfileFormat;
    json["version"] = kVersion;
    const FieldWriter write(json);
    visit_profile(profile, write, [&](const char* key, const auto& value) { write.rare(key, value); });
    if (profile.load) {
        json["load"] = load_object(*profile.load);
    }
    add_unknown(json, profile.unknown);
    // One line per field and per layer: readable, and a diff shows which layer changed.
    std::string text = "{\n";
    for (const auto& [key, value] : json.items()) {
        text += "  " + dumped(Json(key)) + ": " + dumped(value) + ",\n";
    }
    text += "  \"layers\": [";
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        text += (l == 0 ? "\n    " : ",\n    ") + dumped(to_json(profile.layers[l]));
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
