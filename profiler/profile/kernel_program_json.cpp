#include "profiler/profile/kernel_program_json.h"

#include <optional>

namespace pipescope {
using JsonField = std::optional<JsonValue<Json>>;

double read_share(JsonObject<Json>& object, const char* key, double otherwise) {
    const double value = object.amount(key, otherwise);
    if (value > 1) {
        object.at(key).refuse("a share from 0 to 1");
    }
    return value;
}

double read_positive_share(JsonObject<Json>& object, const char* key, double otherwise) {
    const double value = read_share(object, key, otherwise);
    if (!(value > 0)) {
        object.at(key).refuse("above 0 and at most 1");
    }
    return value;
}

bool read_truth(JsonObject<Json>& object, const char* key, bool otherwise) {
    const JsonField found = object.find(key);
    return found ? found->truth() : otherwise;
}

const std::vector<std::string>& kernel_program_keys() {
    static const std::vector<std::string> keys{"name",
                                               "fused",
                                               "attention",
                                               "work_factor",
                                               "work_factor_on",
                                               "product_share",
                                               "product_share_on",
                                               "product_depth",
                                               "forward_tensors",
                                               "backward_tensors",
                                               "loss_bytes",
                                               "launch_ns",
                                               "host_waits"};
    return keys;
}

KernelProgram read_kernel_program(JsonObject<Json>& object) {
    KernelProgram program;
    program.name = object.at("name").filled_text("a text that is not empty");
    program.fused = read_truth(object, "fused", program.fused);
    if (const JsonField kernels = object.find("attention")) {
        program.attention = kernels->list("a list of kernels", [](const JsonValue<Json>& each) {
            return std::string(each.filled_text("the name of a kernel"));
        });
    }
    program.product_share = read_positive_share(object, "product_share", program.product_share);
    if (const JsonField shares = object.find("product_share_on")) {
        JsonObject<Json> devices = shares->object("an object of device types and shares");
        devices.for_each([&](const std::string& device, const JsonValue<Json>& /*value*/) {
            program.product_share_on[device] = read_positive_share(devices, device.c_str(), 1);
        });
    }
    program.work_factor = object.amount("work_factor", program.work_factor);
    if (!(program.work_factor > 0)) {
        object.at("work_factor").refuse("above 0");
    }
    if (const JsonField factors = object.find("work_factor_on")) {
        JsonObject<Json> devices = factors->object("an object of device types and factors");
        devices.for_each([&](const std::string& device, const JsonValue<Json>& each) {
            const double factor = each.amount();
            if (!(factor > 0)) {
                each.refuse("above 0");
            }
            program.work_factor_on[device] = factor;
        });
    }
    program.product_depth = object.amount("product_depth", program.product_depth);
    program.forward_tensors = object.amount("forward_tensors", program.forward_tensors);
    program.backward_tensors = object.amount("backward_tensors", program.backward_tensors);
    program.loss_bytes = object.amount("loss_bytes", program.loss_bytes);
    program.launch_ns = object.amount("launch_ns", program.launch_ns);
    program.host_waits = read_truth(object, "host_waits", program.host_waits);
    return program;
}

void write_kernel_program(const KernelProgram& program, Json& json) {
    const KernelProgram usual;
    const auto put = [&](const char* key, const auto& value, const auto& otherwise) {
        if (value != otherwise) {
            json[key] = value;
        }
    };
    json["name"] = program.name;
    put("fused", program.fused, usual.fused);
    put("attention", program.attention, usual.attention);
    put("work_factor", program.work_factor, usual.work_factor);
    put("work_factor_on", program.work_factor_on, usual.work_factor_on);
    put("product_share", program.product_share, usual.product_share);
    put("product_share_on", program.product_share_on, usual.product_share_on);
    put("product_depth", program.product_depth, usual.product_depth);
    put("forward_tensors", program.forward_tensors, usual.forward_tensors);
    put("backward_tensors", program.backward_tensors, usual.backward_tensors);
    put("loss_bytes", program.loss_bytes, usual.loss_bytes);
    put("launch_ns", program.launch_ns, usual.launch_ns);
    put("host_waits", program.host_waits, usual.host_waits);
}
}  // namespace pipescope
