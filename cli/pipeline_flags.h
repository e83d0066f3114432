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
/// The flags of a pipeline as typed. Shared by balance, simulate, plan and run.
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
    std::string optimizer;  ///< empty: depends on the model
    bool master_weights = false;
    int replicas = 1;
    std::string dtype;
    std::string device_types;
    std::string device_catalogue;
};

// Add groups of options to a command. `flags` must outlive the parsing.
void add_balance_option(CLI::App& command, PipelineFlags& flags);  ///< --balance, required
void add_batch_options(CLI::App& command, PipelineFlags& flags);   ///< -m --chunks and --batch, required; --checkpoint
void add_mini_batch_option(CLI::App& command, PipelineFlags& flags);  ///< --batch alone, required
void add_algorithm_option(CLI::App& command, std::string& algorithm);
void add_hardware_options(CLI::App& command, PipelineFlags& flags);  ///< --devices, --cores, links, --speed, ..
void add_schedule_options(CLI::App& command, PipelineFlags& flags,
                          const std::string& schedules);  ///< --schedule, one of those in the text; --placement
/// --optimizer, --master-weights and --dtype: memory of parameters besides their values.
void add_parameter_options(CLI::App& command, PipelineFlags& flags);
void add_replicas_option(CLI::App& command, PipelineFlags& flags);  ///< --replicas, one number
/// --device-types and --device-catalogue. `help` describes the purpose of the types.
void add_device_type_options(CLI::App& command, PipelineFlags& flags, const std::string& help);
/// --json, with the same help text everywhere.
void add_json_flag(CLI::App& command, bool& json);
void add_force_flag(CLI::App& command, bool& force);
CLI::Option* add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& of);

/// Converts the flags to options. Throws UsageError that names the flag. An empty balance remains {1}, because
/// `balance` has none yet.
PipelineOptions pipeline_options(const PipelineFlags& flags);

/// The types of --device-types, from --device-catalogue or the built-in catalogue; empty if none are named. Throws
/// UsageError for an unknown or repeated name, and for a catalogue without names.
std::vector<DeviceType> named_device_types(const PipelineFlags& flags);
/// An option that was not given, and its assumed value.
struct Assumption {
    std::string option;  ///< without the dashes
    std::string value;
    std::string because;
};
/// "assumed: ..", one line each, after an empty line. Empty if there are none.
std::string assumptions_text(const std::vector<Assumption>& assumptions);
/// Maps options to values.
nlohmann::ordered_json assumptions_json(const std::vector<Assumption>& assumptions);

/// Fills in options that the flags leave open and the profile determines, for up to `lanes` lanes, so that each command
/// describes the same pipeline as `run`. This is the optimizer. If the profile was measured on the host's cores, it is
/// also these cores and lanes on `cpu`, unless the flags name devices, device types or a link. If the flags give cores,
/// a profile of the host is enough for lanes on `cpu`. Throws UsageError if the flags give cores and no lane is on
/// `cpu`.
std::vector<Assumption> assume(PipelineOptions& options, const PipelineFlags& flags, const Profile& profile, int lanes);

/// Input of the simulator for balance and simulate.
struct EstimatedPipeline {
    Profile profile;
    PipelineOptions options;
    std::vector<Assumption> assumptions;
};
/// The profile in the dtype and on the device type of the flags (at most one), and the options with all assumptions for
/// up to `lanes` lanes. `file` is the profile's, for messages. Throws UsageError.
EstimatedPipeline estimated_pipeline(const PipelineFlags& flags, PipelineOptions options, Profile profile,
                                     const std::string& file, int lanes);

/// Changes that a new profile of the same model must bring.
struct ProfileChange {
    std::vector<std::int64_t> sizes;  ///< micro-batch sizes beside those of the old one
    std::string dtype;                ///< empty: that of the old one
};
/// The "pipescope profile MODEL" command that profiles the model again, ready for a shell: with the device and the
/// micro-batch sizes of the profile. It replaces `file`, the profile's own, or writes a new file for another dtype.
std::string profile_command_of(const Profile& profile, const std::string& file, const ProfileChange& change);

/// Converts the profile to the dtype of --dtype. Times follow if they are estimated for a device type; bytes cannot.
/// `file` is the profile's. Throws UsageError for a dtype of another size, and for any other dtype without device
/// types.
Profile in_dtype(Profile profile, const PipelineFlags& flags, const std::string& file);

/// Parses "1,2,4" as whole numbers of at least `least`.
std::vector<std::int64_t> parse_whole_numbers(const std::string& text, const std::string& option, std::int64_t least);
}  // namespace pipescope
