#include "balance/device_catalogue.h"

#include "balance/json_path.h"
#include "balance/printable.h"
#include "schedule/error.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

namespace pipescope {
/// The text of balance/devices.json; a file the build makes of it.
extern const std::string_view kDeviceCatalogueJson;

namespace {
constexpr std::string_view kFormat = "pipescope.devices";

[[noreturn]] void refuse(const std::string& path, const std::string& found, const std::string& rule) {
    throw ProfileError(path + " is " + found + "; " + rule + "; correct the device catalogue");
}

double number(const Json& object, const std::string& path, const char* key, bool required, double otherwise) {
    const auto found = object.find(key);
    if (found == object.end()) {
        if (required) {
            throw ProfileError(path + "." + key + " is missing; every device has it; add it to the device catalogue");
        }
        return otherwise;
    }
    const double value = found->is_number() ? found->get<double>() : -1;
    if (!(value >= 0) || !std::isfinite(value)) {
        refuse(path + "." + key, found->dump(), "it must be a finite number, not negative");
    }
    return value;
}

double efficiency(const Json& object, const std::string& path, const char* key) {
    const double value = number(object, path, key, false, 1);
    if (!(value > 0 && value <= 1)) {
        refuse(path + "." + key, shortest(value), "an efficiency is above 0 and at most 1");
    }
    return value;
}

double rate(const Json& object, const std::string& path, const char* key) {
    const double value = number(object, path, key, true, 0);
    if (value <= 0) {
        refuse(path + "." + key, "0", "a device computes and moves something");
    }
    return value;
}

std::string text(const Json& object, const std::string& path, const char* key, bool required) {
    const auto found = object.find(key);
    if (found == object.end() && !required) {
        return {};
    }
    if (found == object.end() || !found->is_string() || found->get<std::string>().empty()) {
        refuse(path + "." + key, found == object.end() ? "missing" : found->dump(), "it must be a text");
    }
    return found->get<std::string>();
}

DeviceType device_of(const Json& object, const std::string& path) {
    if (!object.is_object()) {
        refuse(path, object.dump(), "it must be an object");
    }
    DeviceType device;
    device.name = text(object, path, "name", true);
    const auto flops = object.find("flops_per_second");
    if (flops == object.end() || !flops->is_object()) {
        refuse(path + ".flops_per_second", flops == object.end() ? "missing" : flops->dump(),
               "it must be an object of dtypes and rates");
    }
    for (const auto& [dtype, value] : flops->items()) {
        device.flops_per_second[dtype] = rate(*flops, path + ".flops_per_second", dtype.c_str());
    }
    if (!device.flops_per_second.contains("float32")) {
        throw ProfileError(path +
                           ".flops_per_second.float32 is missing; every device has it, for what other dtypes "
                           "do not cover; add it to the device catalogue");
    }
    device.memory_bytes = std::llround(std::min(rate(object, path, "memory_bytes"), 9e15));
    device.memory_bytes_per_second = rate(object, path, "memory_bytes_per_second");
    device.link_bytes_per_second = number(object, path, "link_bytes_per_second", false, 0);
    device.link_latency_ns = number(object, path, "link_latency_ns", false, 0);
    device.launch_ns = number(object, path, "launch_ns", false, 0);
    device.compute_efficiency = efficiency(object, path, "compute_efficiency");
    device.memory_efficiency = efficiency(object, path, "memory_efficiency");
    device.link_efficiency = efficiency(object, path, "link_efficiency");
    device.price_per_hour = number(object, path, "price_per_hour", false, 0);
    device.source = text(object, path, "source", false);
    return device;
}

std::string lower(std::string_view name) {
    std::string result(name);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return result;
}

double at(const PerSize& values, std::size_t k) {
    return values.empty() ? 0 : values[k];
}

double input_bytes(const Profile& profile, std::size_t layer, std::size_t k) {
    return layer == 0 ? at(profile.input_bytes, k) : at(profile.layers[layer - 1].output_bytes, k);
}
}  // namespace

std::vector<DeviceType> parse_device_catalogue(std::string_view json) {
    const Json document = parse_json_with_path(json);
    if (!document.is_object() || document.value("format", Json()) != Json(kFormat) ||
        document.value("version", Json()) != Json(1)) {
        throw ProfileError(
            "format is not " + std::string(kFormat) +
            " of version 1; that is what a device catalogue says of itself; see docs/device-catalogue.md");
    }
    const auto list = document.find("devices");
    if (list == document.end() || !list->is_array() || list->empty()) {
        refuse("devices", list == document.end() ? "missing" : list->dump(), "it must be a list of one device or more");
    }
    std::vector<DeviceType> devices;
    std::set<std::string> names;
    for (std::size_t k = 0; k < list->size(); ++k) {
        const std::string path = "devices[" + std::to_string(k) + "]";
        devices.push_back(device_of((*list)[k], path));
        if (!names.insert(lower(devices.back().name)).second) {
            refuse(path + ".name", devices.back().name, "a name appears once");
        }
    }
    return devices;
}

std::vector<DeviceType> device_catalogue() {
    return parse_device_catalogue(kDeviceCatalogueJson);
}

std::vector<DeviceType> load_device_catalogue(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    if (!file) {
        throw ProfileError(path.string() + " cannot be read; a device catalogue is a JSON file; check the path");
    }
    try {
        return parse_device_catalogue(content.str());
    } catch (const ProfileError& error) {
        throw ProfileError(path.string() + ": " + error.what());
    }
}

const DeviceType& find_device(const std::vector<DeviceType>& catalogue, std::string_view name) {
    std::string names;
    for (const DeviceType& device : catalogue) {
        if (lower(device.name) == lower(name)) {
            return device;
        }
        names += (names.empty() ? "" : ", ") + device.name;
    }
    throw UsageError("device type '" + std::string(name) + "' is not in the catalogue; it holds " + names +
                     "; name one of these, or add it to a catalogue of your own");
}

double peak_rate(const DeviceType& device, const std::string& dtype) {
    const auto known = device.flops_per_second.find(dtype);
    if (known != device.flops_per_second.end()) {
        return known->second;
    }
    std::string names;
    for (const auto& [name, rate] : device.flops_per_second) {
        names += (names.empty() ? "" : ", ") + name;
    }
    throw UsageError("dtype is " + dtype + " on " + device.name + ", which has rates for " + names +
                     " only; times are estimated from a rate; choose another device type, or profile in one of these "
                     "dtypes with --device meta --dtype");
}

double estimated_ns(const DeviceType& device, const std::string& dtype, const DeviceWork& work) {
    const double computing = work.flops / (peak_rate(device, dtype) * device.compute_efficiency) * 1e9;
    const double moving = work.bytes_moved / (device.memory_bytes_per_second * device.memory_efficiency) * 1e9;
    return std::max({work.kernels * device.launch_ns, computing, moving});
}

DeviceWork forward_work(const Profile& profile, std::size_t layer, std::size_t k) {
    const LayerProfile& each = profile.layers[layer];
    const double moved = input_bytes(profile, layer, k) + at(each.output_bytes, k) + at(each.saved_bytes, k) +
                         static_cast<double>(each.parameter_bytes);
    return {at(each.flops, k), moved, 1};
}

DeviceWork backward_work(const Profile& profile, std::size_t layer, std::size_t k) {
    const LayerProfile& each = profile.layers[layer];
    const bool wants_one = layer == 0 || each.gradient_bytes == 0;
    const double moved = 2 * (input_bytes(profile, layer, k) + at(each.output_bytes, k)) + at(each.saved_bytes, k) +
                         static_cast<double>(each.parameter_bytes + 2 * each.gradient_bytes);
    return {(wants_one ? 1 : 2) * at(each.flops, k), moved, wants_one ? 1.0 : 2.0};
}

Profile retimed(const Profile& profile, const DeviceType& device) {
    const bool has_flops = std::any_of(profile.layers.begin(), profile.layers.end(), [](const LayerProfile& layer) {
        return std::any_of(layer.flops.begin(), layer.flops.end(), [](double flops) { return flops > 0; });
    });
    if (!has_flops) {
        throw ProfileError("layers hold no flops; times on a " + device.name +
                           " are estimated from them; profile the model again, or with --device meta");
    }
    Profile other = profile;
    other.device = device.name;
    other.estimated = true;
    other.co_running_lanes = 1;
    other.host_cores = 0;
    other.co_running_slowdown.clear();
    other.launch_ns = 0;  // in each layer's time
    const std::size_t sizes = profile.samples.size();
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        LayerProfile& layer = other.layers[l];
        layer.forward_cv = layer.backward_cv = 0;
        for (std::size_t k = 0; k < sizes; ++k) {
            layer.forward_ns[k] = estimated_ns(device, profile.dtype, forward_work(profile, l, k));
            layer.backward_ns[k] = estimated_ns(device, profile.dtype, backward_work(profile, l, k));
        }
        layer.recompute_ns = layer.forward_ns;
    }
    double parameters = 0;
    for (const LayerProfile& layer : profile.layers) {
        parameters += static_cast<double>(layer.gradient_bytes);
    }
    // Plain SGD reads parameters and gradients and writes parameters; the loss goes over the output a few times.
    other.optimizer_ns = estimated_ns(device, profile.dtype, {0, 3 * parameters, 1});
    for (std::size_t k = 0; k < other.loss_batch.samples.size(); ++k) {
        const auto samples = static_cast<double>(other.loss_batch.samples[k]);
        const double output = interpolate(profile.samples, profile.layers.back().output_bytes, samples).value;
        other.loss_batch.ns[k] = estimated_ns(device, profile.dtype, {0, 4 * output, 3});
    }
    other.loss_ns.assign(sizes, 0);
    for (std::size_t k = 0; k < sizes; ++k) {
        const double output = at(profile.layers.back().output_bytes, k);
        other.loss_ns[k] = estimated_ns(device, profile.dtype, {0, 4 * output, 3});
    }
    return other;
}
}  // namespace pipescope
