#include "simulator/pipeline_defaults.h"

#include "base/error.h"

#include <algorithm>

namespace pipescope {
std::vector<Assumption> assume(PipelineOptions& options, const Profile& profile, int lanes, const GivenOptions& given) {
    Hardware& hardware = options.hardware;
    std::vector<Assumption> assumptions;
    if (!given.optimizer) {
        assumptions.push_back(assume_optimizer(options, profile.token_input));
    }
    const bool from_host = measured_on_host(profile) || (given.cores && profile.device == kHost);
    const bool is_linked = hardware.processes == 1 && hardware.link != Link{};  // otherwise it links the processes
    if (from_host && hardware.devices.empty() && !given.device_types && !is_linked) {
        hardware.devices.assign(static_cast<std::size_t>(lanes), kHost);
        assumptions.push_back(
            {"devices", kHost,
             measured_on_host(profile) ? "as in the profile and in run" : "as in the profile, since --cores is given"});
    }
    const std::vector<std::string>& devices = hardware.devices;
    const bool any_on_host = std::ranges::find(devices, kHost) != devices.end();
    if (given.cores && !any_on_host) {
        throw UsageError(option_name("cores") + " is " + std::to_string(hardware.host_cores) +
                         ", and no lane is on cpu; only lanes on cpu share cores; " +
                         (given.device_types ? "leave out " + option_name("device-types")
                                             : "name cpu in " + option_name("devices") + ", such as cpu,cpu") +
                         ", or leave out " + option_name("cores"));
    }
    if (any_on_host && !given.cores && profile.host_cores > 0) {
        hardware.host_cores = profile.host_cores;
        assumptions.push_back({"cores", std::to_string(hardware.host_cores), "as in the profile"});
    }
    return assumptions;
}

Assumption assume_optimizer(PipelineOptions& options, bool token_input) {
    options.optimizer = token_input ? "adam" : PipelineOptions{}.optimizer;
    return {"optimizer", options.optimizer,
            token_input ? "as for a language model, since the input is token numbers"
                        : "which keeps no state besides parameters and gradients"};
}

bool measured_on_host(const Profile& profile) {
    return profile.device == kHost && !profile.estimated && profile.host_cores > 0;
}
}  // namespace pipescope
