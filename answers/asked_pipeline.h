#pragma once

#include "hardware/device_catalogue.h"
#include "profiler/profile/profile.h"
#include "simulator/pipeline_defaults.h"
#include "simulator/pipeline_options.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The pipeline that a question is about, as its options describe it. All questions and run share it. The rows of
/// pipeline_rows.h set it.
struct AskedPipeline {
    PipelineOptions options;             ///< as given; the others have their defaults
    std::optional<std::int64_t> chunks;  ///< a schedule's file has its own number
    bool schedule_given = false;         ///< otherwise the default
    bool needs_chunks = false;           ///< the question has --chunks
    bool runs = false;                   ///< the engine runs it, which names fewer schedules
    std::optional<Checkpoint> checkpoint;
    std::optional<std::string> optimizer;  ///< the default depends on the model
    std::optional<int> cores;
    std::string dtype;
    std::string device_types;
    std::string device_catalogue;
    std::optional<Bytes> headroom;  ///< otherwise each type's own
    // Only for the simulator.
    std::optional<int> most_in_flight;
    std::optional<BackwardOrder> backward_order;
    std::string recompute;  ///< as given; on a cluster it says what is recomputed, otherwise when

    GivenOptions given() const { return {optimizer.has_value(), cores.has_value(), !device_types.empty()}; }
};

/// The options as given, with the default optimizer. What a schedule's file determines comes from it (follow_file()).
/// Throws UsageError unless batch, chunks and replicas fit each other.
PipelineOptions pipeline_options(const AskedPipeline& asked);

/// The types of --device-types, from --device-catalogue or the built-in catalogue, with the headroom of --headroom.
/// Empty if none are named. Throws UsageError for an unknown or repeated name, and for a catalogue or headroom without
/// names.
std::vector<DeviceType> named_device_types(const AskedPipeline& asked);
/// "assumed: ..", one line each, after an empty line. Empty if there are none.
std::string assumptions_text(const std::vector<Assumption>& assumptions);
/// Maps options to values.
nlohmann::ordered_json assumptions_json(const std::vector<Assumption>& assumptions);

/// Input of the simulator for balance and simulate.
struct EstimatedPipeline {
    CheckedProfile profile;
    PipelineOptions options;
    std::vector<Assumption> assumptions;
    std::string profile_command;  ///< profiles the model again, including the micro-batches of `options`
};
/// The profile in the requested dtype and for the requested device type (at most one), and the options with all
/// assumptions for up to `lanes` lanes. `file` is the profile's file, for messages. Throws UsageError, also for a batch
/// that cannot be cut.
EstimatedPipeline estimated_pipeline(const AskedPipeline& asked, PipelineOptions options, const CheckedProfile& profile,
                                     const std::string& file, int lanes);

/// Converts the profile to the dtype of --dtype. Times follow only if they are estimated for a device type; bytes never
/// do. `file` is the profile's file. Throws UsageError for a dtype of another size, and for any other dtype without
/// device types.
CheckedProfile in_dtype(const CheckedProfile& profile, const AskedPipeline& asked, const std::string& file);
/// The options as given. Throws UsageError as pipeline_options(), and for options that only the simulator has.
PipelineOptions simulated_pipeline_options(const AskedPipeline& asked);
/// As estimated_pipeline(). With a device type, each lane has a separate device.
EstimatedPipeline simulated_pipeline(const AskedPipeline& asked, const PipelineOptions& options,
                                     const CheckedProfile& profile, const std::string& file, int lanes);
}  // namespace pipescope
