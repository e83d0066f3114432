#pragma once

#include "profiler/profile/profile.h"
#include "simulator/pipeline_options.h"

#include <string>
#include <vector>

namespace pipescope {
// Defaults of a pipeline's options, shared by commands and viewer.

/// An option that was not given, and its assumed value.
struct Assumption {
    std::string option;  ///< without the dashes
    std::string value;
    std::string because;
};

/// Options that the user gave, and that nothing is assumed for. Devices and links show in the options themselves.
struct GivenOptions {
    bool optimizer = false;
    bool cores = false;
    bool device_types = false;
};

/// Fills in options that were not given and that the profile determines, for up to `lanes` lanes, so that commands and
/// viewer describe the same pipeline as `run`. This is the optimizer. If the profile was measured on the host's cores,
/// it is also these cores and lanes on `cpu`, unless devices, device types or a link are given. If cores are given, a
/// profile of the host is enough for lanes on `cpu`. Throws UsageError if cores are given and no lane is on `cpu`.
std::vector<Assumption> assume(PipelineOptions& options, const Profile& profile, int lanes,
                               const GivenOptions& given = {});
/// Sets the optimizer: adam for models whose input is token numbers, as language models are trained; otherwise sgd.
Assumption assume_optimizer(PipelineOptions& options, bool token_input);

/// True if the profile was measured on a host's CPU and records its number of cores. Lanes are then on "cpu" and share
/// these cores, as in `run`.
bool measured_on_host(const Profile& profile);
}  // namespace pipescope
