#pragma once

#include "answers/option_table.h"
#include "hardware/device_catalogue.h"
#include "profiler/profile/profile.h"
#include "simulator/pipeline_defaults.h"
#include "simulator/pipeline_options.h"
#include "simulator/search/balance_algorithm.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The pipeline of a command line. Shared by balance, simulate, plan, advise, run and ablation. Texts are parsed as
/// they are read, so a wrong one is a UsageError of Program::run().
struct PipelineFlags {
    PipelineOptions options;             ///< as given; the rest have their defaults
    std::optional<std::int64_t> chunks;  ///< a schedule's file has its own
    bool schedule_given = false;         ///< otherwise the default
    bool needs_chunks = false;           ///< the command has --chunks
    bool runs = false;                   ///< the command runs the engine, which names fewer schedules
    std::optional<Checkpoint> checkpoint;
    std::optional<std::string> optimizer;  ///< its default depends on the model
    std::optional<int> cores;
    std::string dtype;
    std::string device_types;
    std::string device_catalogue;
    std::optional<Bytes> headroom;  ///< otherwise that of each type

    GivenOptions given() const { return {optimizer.has_value(), cores.has_value(), !device_types.empty()}; }
};

// Add groups of options to a question's table. `flags` must outlive the table.
OptionRow& add_balance_option(OptionTable& table, PipelineFlags& flags);  ///< --balance
/// -m --chunks, which pipeline_options() requires unless the schedule is a file; --batch; --checkpoint
void add_batch_options(OptionTable& table, PipelineFlags& flags);
void add_mini_batch_option(OptionTable& table, PipelineFlags& flags);    ///< --batch alone
void add_checkpoint_option(OptionTable& table, PipelineFlags& flags);    ///< --checkpoint alone
void add_memory_limit_option(OptionTable& table, PipelineFlags& flags);  ///< --memory-limit alone
void add_algorithm_option(OptionTable& table, BalanceAlgorithm& algorithm);
void add_hardware_options(OptionTable& table, PipelineFlags& flags);  ///< --devices, --cores, links, --speed, ..
/// --schedule, one of those in the text, or a file. `help` may describe several lines.
void add_schedule_option(OptionTable& table, PipelineFlags& flags, const std::string& help, bool* all = nullptr);
/// --schedule and --placement. With `all`, --schedule also takes `all`, which sets it.
void add_schedule_options(OptionTable& table, PipelineFlags& flags, const std::string& schedules, bool* all = nullptr);
/// --optimizer, --master-weights and --dtype: memory of parameters besides their values.
void add_parameter_options(OptionTable& table, PipelineFlags& flags);
void add_replicas_option(OptionTable& table, PipelineFlags& flags);  ///< --replicas, one number
void add_update_option(OptionTable& table, PipelineFlags& flags);    ///< --update
/// --device-types, --device-catalogue and --headroom. `help` describes the purpose of the types.
void add_device_type_options(OptionTable& table, PipelineFlags& flags, const std::string& help);
/// --force, with the same help text everywhere.
void add_force_option(OptionTable& table, bool& force);

/// The options as given, with the default optimizer. A schedule's file sets what it says (follow_file()). Throws
/// UsageError unless batch, chunks and replicas fit each other.
PipelineOptions pipeline_options(const PipelineFlags& flags);

/// The types of --device-types, from --device-catalogue or the built-in catalogue, with the headroom of --headroom;
/// empty if none are named. Throws UsageError for an unknown or repeated name, and for a catalogue or headroom without
/// names.
std::vector<DeviceType> named_device_types(const PipelineFlags& flags);
/// "assumed: ..", one line each, after an empty line. Empty if there are none.
std::string assumptions_text(const std::vector<Assumption>& assumptions);
/// Maps options to values.
nlohmann::ordered_json assumptions_json(const std::vector<Assumption>& assumptions);

/// Input of the simulator for balance and simulate.
struct EstimatedPipeline {
    Profile profile;
    PipelineOptions options;
    std::vector<Assumption> assumptions;
    std::string profile_command;  ///< profiles the model again, with the micro-batches of `options` too
};
/// The profile in the dtype and on the device type of the flags (at most one), and the options with all assumptions for
/// up to `lanes` lanes. `file` is the profile's, for messages. Throws UsageError, also for a batch that cannot be cut.
EstimatedPipeline estimated_pipeline(const PipelineFlags& flags, PipelineOptions options, Profile profile,
                                     const std::string& file, int lanes);

/// Changes that a new profile of the same model must bring.
struct ProfileChange {
    std::vector<std::int64_t> sizes;  ///< micro-batch sizes beside those of the old one
    std::string dtype;                ///< empty: that of the old one
};
/// The "pipescope profile MODEL" command that profiles the model again, ready for a shell: with the device, the
/// micro-batch sizes and the further options of the profile. It replaces `file`, the profile's own, or writes a new
/// file for another dtype.
std::string profile_command_of(const Profile& profile, const std::string& file, const ProfileChange& change);

/// Converts the profile to the dtype of --dtype. Times follow if they are estimated for a device type; bytes cannot.
/// `file` is the profile's. Throws UsageError for a dtype of another size, and for any other dtype without device
/// types.
Profile in_dtype(Profile profile, const PipelineFlags& flags, const std::string& file);
/// The text as one word of a shell's command line.
std::string shell_word(const std::string& text);
}  // namespace pipescope
