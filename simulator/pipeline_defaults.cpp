#include "simulator/pipeline_defaults.h"

#include "simulator/pipeline_options.h"

namespace pipescope {
std::string default_optimizer(bool token_input) {
    return token_input ? "adam" : PipelineOptions{}.optimizer;
}

bool measured_on_host(const Profile& profile) {
    return profile.device == "cpu" && !profile.estimated && profile.host_cores > 0;
}
}  // namespace pipescope
