#include "base/printable.h"
#include "profiler/profile/kernel_program_json.h"
#include "profiler/profile/layer_tape_json.h"
#include "profiler/profile/profile_file.h"
#include "profiler/profile/profile_kind.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

namespace pipescope {
namespace {
constexpr std::string_view kProfileFormat = "pipescope.profile";
constexpr std::int64_t kVersion = 1;

using Value = JsonValue<Json>;
using Object = JsonObject<Json>;

// read(value, into) converts one value.

void read(const Value& value, double& into) {
    into = value.number();
}
void read(const Value& value, std::string& into) {
    into = value.text();
}
void read(const Value& value, bool& into) {
    into = value.truth();
}
/// Counts may have a fraction of 0, as other programs write them.
void read(const Value& value, std::int64_t& into) {
    const double number = value.number();
    if (number != std::floor(number)) {
        value.refuse("a whole number");
    }
    if (std::abs(number) > 9007199254740992.0) {
        value.refuse("a whole number up to 2^53");
    }
    into = static_cast<std::int64_t>(number);
}
void read(const Value& value, int& into) {
    std::int64_t wide = 0;
    read(value, wide);
    if (!std::in_range<int>(wide)) {
        value.fail(" is " + std::to_string(wide) + "; it counts threads or lanes; correct it, or profile again");
    }
    into = static_cast<int>(wide);
}
void read(const Value& value, DeviceWork& into);
void read(const Value& value, Operators& into);
void read(const Value& value, BatchLoss& into);

template <class Element>
void read_list(const Value& value, std::string_view wanted, std::vector<Element>& into) {
    into = value.list(wanted, [](const Value& each) {
        Element element{};
        read(each, element);
        return element;
    });
}

std::vector<double> numbers_of(const Value& value, std::size_t count, std::string_view wanted) {
    std::vector<double> numbers = value.list(wanted, [&](const Value& each) { return each.amount(); });
    if (numbers.size() != count) {
        value.refuse(wanted);
    }
    return numbers;
}

/// {"product": [batch, m, n, k]}, {"attention": [heads, queries, keys, width, value width, pairs]}, the same as
/// "attention_backward", or {"cross_entropy": logits}.
void read_shape(const Value& value, DeviceWork& into) {
    Object object = value.object("an object with the operator's shape");
    object.allow({"product", "attention", "attention_backward", "cross_entropy"}, "profile");
    if (const auto found = object.find("product")) {
        const std::vector<double> n = numbers_of(*found, 4, "batch, m, n and k");
        into.shape = ProductShape{n[0], n[1], n[2], n[3]};
    }
    for (const char* key : {"attention", "attention_backward"}) {
        if (const auto found = object.find(key)) {
            const std::vector<double> n = numbers_of(*found, 6, "heads, queries, keys, both widths and share of pairs");
            const bool is_backward = std::string_view(key) != "attention";
            into.shape = AttentionShape{n[0], n[1], n[2], n[3], n[4], n[5], is_backward};
        }
    }
    if (const auto found = object.find("cross_entropy")) {
        into.shape = CrossEntropyShape{found->amount()};
    }
}

void read(const Value& value, DeviceWork& into) {
    if (!value.json().is_array() || value.json().size() < 3 || value.json().size() > 4) {
        value.refuse("kernels, flops, bytes and perhaps a shape, such as [1, 131072, 4096]");
    }
    into = {value.element(1).number(), value.element(2).number(), value.element(0).number()};
    if (value.json().size() == 4) {
        read_shape(value.element(3), into);
    }
}
void read(const Value& value, PerSize& into) {
    read_list(value, "an array with one number for each entry of samples", into);
}
void read(const Value& value, std::vector<std::int64_t>& into) {
    read_list(value, "an array of sizes in samples", into);
}
void read(const Value& value, std::vector<std::string>& into) {
    read_list(value, "an array of words", into);
}
void read(const Value& value, Operators& into) {
    read_list(value, "an array of operators", into);
}
void read(const Value& value, std::vector<Operators>& into) {
    read_list(value, "an array with the operators for each entry of samples", into);
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
    field("forward_chains", layer.forward_chains);
    field("backward_chains", layer.backward_chains);
    field("keeps_input", layer.keeps_input);
    field("keeps_output", layer.keeps_output);
    field("aliases_input", layer.aliases_input);
    rare("passes_gradient", layer.passes_gradient);
}

void visit_launches(auto& times, auto&& field) {
    field("host_ns", times.host_ns);
    field("paced_ns", times.paced_ns);
    field("sends_ns", times.sends_ns);
    field("receives_ns", times.receives_ns);
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
    field("loss_chains", profile.loss_chains);
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

/// Leaves `into` as it is without that field. Arrays of a number for each size may be empty only if they must be there:
/// check_profile() says then what is wrong.
template <class Field>
void read_field(Object& object, const std::string& key, Field& into, const std::set<std::string>& needed) {
    if (const auto value = object.find(key)) {
        read(*value, into);
        if (value->json().empty() && std::is_same_v<Field, PerSize> && !needed.contains(key)) {
            value->fail(" is []; an array holds one number for each size, or lane; fill it, or leave it out");
        }
    }
}

void require(Object& object, const std::set<std::string>& needed) {
    for (const std::string& key : needed) {
        object.at(key);
    }
}

void read(const Value& value, BatchLoss& into) {
    Object object = value.object();
    const std::set<std::string> needed{"ns", "samples"};
    require(object, needed);
    visit_batch_loss(into, [&](const char* key, auto& field) { read_field(object, key, field, needed); });
}

LayerProfile parse_layer(const Value& value, std::size_t samples) {
    Object object = value.object();
    LayerProfile layer;
    layer.name = object.at("name").text();
    const std::set<std::string> needed{"backward_ns", "forward_ns", "output_bytes"};
    require(object, needed);
    layer.saved_bytes = layer.transient_bytes = layer.flops = PerSize(samples, 0);
    const auto read_each = [&](const char* key, auto& field) { read_field(object, key, field, needed); };
    visit_layer(layer, read_each, read_each);
    if (!object.contains("gradient_bytes")) {
        layer.gradient_bytes = layer.parameter_bytes;
    }
    if (layer.recompute_ns.empty()) {
        layer.recompute_ns = layer.forward_ns;
    }
    if (const auto stash = object.find("stash")) {
        stash->object("an object of skip names and their bytes")
            .for_each([&](const std::string& skip, const Value& bytes) { read(bytes, layer.stash[skip]); });
    }
    if (const auto pop = object.find("pop")) {
        read_list(*pop, "an array of skip names", layer.pop);
    }
    if (const auto without = object.find("without_gradient")) {
        std::vector<std::string> names;
        read_list(*without, "an array of skip names", names);
        layer.without_gradient.insert(names.begin(), names.end());
    }
    if (const auto shared = object.find("shared")) {
        shared->object("an object of names and the bytes of these parameters")
            .for_each([&](const std::string& name, const Value& bytes) {
                Object of_name = bytes.object();
                read(of_name.at("parameter_bytes"), layer.shared[name].parameter_bytes);
                read(of_name.at("gradient_bytes"), layer.shared[name].gradient_bytes);
            });
    }
    if (const auto launches = object.find("launches")) {
        launches->object("an object of passes and how they are launched")
            .for_each([&](const std::string& pass, const Value& times) {
                Object of_pass = times.object();
                visit_launches(layer.launches[pass], [&](const char* key, double& ns) { read(of_pass.at(key), ns); });
            });
    }
    if (const auto tape = object.find("tape")) {
        layer.tape = parse_tapes(*tape);
    }
    layer.unknown = object.others();
    return layer;
}

MachineLoad parse_load_object(const Value& value) {
    Object object = value.object();
    MachineLoad load;
    load.others = object.at("others").number();
    load.stolen = object.at("stolen").number();
    if (const auto pressure = object.find("pressure"); pressure && !pressure->json().is_null()) {
        load.pressure = pressure->number();
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

void check_format(Object& object) {
    if (const Value format = object.at("format"); format.json() != kProfileFormat) {
        format.refuse("\"" + std::string(kProfileFormat) + "\": the file is something else");
    }
    std::int64_t version = 0;
    read(object.at("version"), version);
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

Json to_json(const DeviceWork& work) {
    Json json{to_number(work.kernels), to_number(work.flops), to_number(work.bytes_moved)};
    if (const auto* product = std::get_if<ProductShape>(&work.shape)) {
        json.push_back({{"product", to_array({product->batch, product->m, product->n, product->k})}});
    } else if (const auto* attention = std::get_if<AttentionShape>(&work.shape)) {
        json.push_back({{attention->is_backward ? "attention_backward" : "attention",
                         to_array({attention->heads, attention->queries, attention->keys, attention->width,
                                   attention->value_width, attention->pairs})}});
    } else if (const auto* entropy = std::get_if<CrossEntropyShape>(&work.shape)) {
        json.push_back({{"cross_entropy", to_number(entropy->logits)}});
    }
    return json;
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
                here.push_back(to_json(each));
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
    if (!layer.without_gradient.empty()) {
        json["without_gradient"] = layer.without_gradient;
    }
    for (const auto& [name, bytes] : layer.shared) {
        json["shared"][name] = {{"parameter_bytes", bytes.parameter_bytes}, {"gradient_bytes", bytes.gradient_bytes}};
    }
    for (const auto& [pass, times] : layer.launches) {
        visit_launches(times, FieldWriter(json["launches"][pass]));
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
    const Json document = parse_json(text, kProfileJson);
    Object object = Value(document, "", kProfileJson).object();
    check_format(object);
    Profile profile;
    const std::set<std::string> needed{"samples"};
    require(object, needed);
    // Sizes come first: an absent array of bytes or times is as long as they are.
    read_field(object, "samples", profile.samples, needed);
    profile.input_bytes = profile.loss_ns = PerSize(profile.samples.size(), 0);
    const auto read_each = [&](const char* key, auto& field) { read_field(object, key, field, needed); };
    visit_profile(profile, read_each, read_each);
    if (const auto program = object.find("program")) {
        Object kernels = program->object();
        kernels.allow(kernel_program_keys(), "profile");
        profile.program = read_kernel_program(kernels);
    }
    if (const auto load = object.find("load")) {
        profile.load = parse_load_object(*load);
    }
    profile.layers = object.at("layers").list(
        "an array of layers", [&](const Value& layer) { return parse_layer(layer, profile.samples.size()); });
    profile.unknown = object.others();
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
    if (profile.program) {
        write_kernel_program(*profile.program, json["program"]);
    }
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
    const Json document = parse_json(json, kProfileJson);
    return parse_load_object(Value(document, "load", kProfileJson));
}
}  // namespace pipescope
