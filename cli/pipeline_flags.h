#pragma once

#include "balance/device_catalogue.h"
#include "balance/profile.h"
#include "simulator/number_ranges.h"
#include "simulator/simulation.h"

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The flags that describe a pipeline, as typed. Shared by balance, simulate, plan and run.
struct PipelineFlags {
    std::string balance;
    std::int64_t chunks = 1;
    std::int64_t batch = 1;
    std::string checkpoint = "except_last";
    std::string schedule = "gpipe";
    std::string placement;
    std::string devices;
    std::string link_bandwidth;
    std::string link_latency;
    std::string link_sharing = "none";
    std::string speed;
    std::string memory_limit;
    std::optional<int> cores;
    std::string optimizer;  ///< empty: by the model
    bool master_weights = false;
    int replicas = 1;
    std::string dtype;
    std::string device_types;
    std::string device_catalogue;
};

// Each adds one group of options to a command; `flags` must outlive the parsing.
void add_balance_option(CLI::App& command, PipelineFlags& flags);  ///< --balance, required
void add_batch_options(CLI::App& command, PipelineFlags& flags);   ///< -m --chunks and --batch, required; --checkpoint
void add_mini_batch_option(CLI::App& command, PipelineFlags& flags);  ///< --batch alone, required
void add_algorithm_option(CLI::App& command, std::string& algorithm);
void add_hardware_options(CLI::App& command, PipelineFlags& flags);  ///< --devices, --cores, links, --speed, ..
void add_schedule_options(CLI::App& command, PipelineFlags& flags,
                          const std::string& schedules);  ///< --schedule, one of those the text lists; --placement
/// --optimizer, --master-weights and --dtype: what a parameter takes beside itself.
void add_parameter_options(CLI::App& command, PipelineFlags& flags);
void add_replicas_option(CLI::App& command, PipelineFlags& flags);  ///< --replicas, one number
/// --device-types and --device-catalogue; `help` says what the types are for.
void add_device_type_options(CLI::App& command, PipelineFlags& flags, const std::string& help);
/// --json, with the same words everywhere.
void add_json_flag(CLI::App& command, bool& json);
void add_force_flag(CLI::App& command, bool& force);
CLI::Option* add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& of);

/// The flags as options. Throws UsageError that names the flag. An empty balance stays {1}: `balance` has none yet.
PipelineOptions pipeline_options(const PipelineFlags& flags);

/// The types of --device-types, out of --device-catalogue or the built-in one; none if none are named. Throws
/// UsageError for a name that is not there or is there twice, and for a catalogue without names.
std::vector<DeviceType> named_device_types(const PipelineFlags& flags);
/// Something that was not said, and what was taken instead.
struct Assumption {
    std::string option;  ///< without its dashes
    std::string value;
    std::string because;
};
/// "assumed: ..", a line for each, behind an empty line. Nothing for none.
std::string assumptions_text(const std::vector<Assumption>& assumptions);
/// Option to value.
nlohmann::ordered_json assumptions_json(const std::vector<Assumption>& assumptions);

/// Adam for a model that takes token numbers, else sgd: what such models are trained with.
std::string default_optimizer(bool token_input);

/// Fills in, of options for up to `lanes` lanes, what the flags leave open and the profile answers, so that every
/// command means the same pipeline as `run`: the optimizer, and where the profile was measured on the host's cores,
/// those cores and lanes on `cpu`, unless the flags name devices, device types or a link.
std::vector<Assumption> assume(PipelineOptions& options, const PipelineFlags& flags, const Profile& profile, int lanes);

/// The options that balance and simulate hand to the simulator.
struct EstimatedPipeline {
    Profile profile;
    PipelineOptions options;
    std::vector<Assumption> assumptions;
};
/// The profile in the dtype and on the device type that the flags name, one at most, and the options with all that is
/// assumed for up to `lanes` lanes. Throws UsageError.
EstimatedPipeline estimated_pipeline(const PipelineFlags& flags, PipelineOptions options, Profile profile, int lanes);

/// "pipescope profile MODEL", as the profile's model and device are: on the meta device if its times were estimated.
std::string profile_command_of(const Profile& profile);

/// The profile in the dtype of --dtype. Times follow where they are estimated for a device type; bytes cannot: throws
/// UsageError for a dtype of another size, and for another one without device types.
Profile in_dtype(Profile profile, const PipelineFlags& flags);

/// "1,2,4" as whole numbers of at least `least`.
std::vector<std::int64_t> parse_whole_numbers(const std::string& text, const std::string& option, std::int64_t least);
}  // namespace pipescope
