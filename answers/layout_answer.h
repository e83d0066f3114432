#pragma once

#include "answers/asked_pipeline.h"
#include "answers/option_table.h"
#include "cluster/layout.h"
#include "cluster/step_parts.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The layout of a model on a cluster. Shared by simulate and explain.
struct LayoutQuestion {
    std::string cluster;  ///< file; empty: no layout
    Layout layout;

    bool given() const { return !cluster.empty(); }
};

/// Adds --cluster and the options of the layout. The question must outlive the table.
void add_layout_options(OptionTable& table, LayoutQuestion& question);
/// Adds the options that a plan has for all layouts: --cuts, --gradient-bytes, --gradient-bucket, --sends and others.
/// `layout` must outlive the table.
void add_replica_options(OptionTable& table, Layout& layout);
/// Sets what the layout's program sets, unless its option is given. Call it after the options are taken.
void take_program(const OptionTable& table, Layout& layout);
/// What to place on a cluster: a model "gpt:..", or a profile's file. Python passes a profile that it has read.
/// Threading: one thread at a time; copies share the model.
struct ModelOrProfile {
    ModelOrProfile(std::string name_of, const CheckedProfile* read_profile = nullptr);  // NOLINT: a name is enough

    std::string name;               ///< the model, or the profile's file
    const CheckedProfile* profile;  ///< null: `name` says which

    bool is_model() const;
    /// The model, which is read once, since its file may be a pipe. Precondition: is_model(). Throws UsageError.
    const ReadModel& read_model() const;
    const LanguageModel& model() const { return read_model().model; }
    /// The profile in the dtype of the options. Precondition: `name` is not a model. Throws as load_profile().
    CheckedProfile profile_in_dtype(const AskedPipeline& pipeline) const;

private:
    std::shared_ptr<std::optional<ReadModel>> read_;
};
/// Throws UsageError for a model without a cluster and, for a profile, for options of add_replica_options() that need a
/// model.
void check_model_options(const OptionTable& table, const ModelOrProfile& what, bool with_cluster);
/// The value of --tokens, such as 1e12. Throws UsageError.
double parse_tokens(const std::string& text);
/// The cluster of --cluster, with the devices of --device-catalogue or the built-in catalogue.
Cluster cluster_of(const LayoutQuestion& question, const AskedPipeline& pipeline);
/// Applies --headroom, or else what the program holds besides tensors, and --memory-limit to nodes that are used.
/// Throws UsageError if no memory is left for tensors.
void leave_room(NodeGroup& group, const AskedPipeline& pipeline, const TrainingProgram& how);
/// The step of the layout described by the options.
LayoutStep layout_step(const ModelOrProfile& what, const LayoutQuestion& question, const AskedPipeline& pipeline);
/// A layout's step, with its memory, and how much shorter it would be without each of its limits.
struct LayoutAnswer {
    LayoutStep step;
    std::vector<StepLimit> limits;
    std::vector<std::string> warnings = {};  ///< sentences about options that do not help, and about the model's file
};
/// Simulates the layout described by the options.
LayoutAnswer layout_answer(const ModelOrProfile& what, const LayoutQuestion& question, const AskedPipeline& pipeline);

/// The value of --offload, "25000000000B/s". Precondition: the hosts keep the state.
std::string offload_text(const Layout& layout);
/// The figures of a step, without those that need its timeline.
nlohmann::ordered_json layout_json(const LayoutStep& step);
/// layout_json() and limits_json(), which explains the step's length.
nlohmann::ordered_json to_json(const LayoutAnswer& answer);
std::string to_text(const LayoutAnswer& answer);

// These explain the step's length. Precondition: the step has its timeline.

/// The parts with the bubble by cause, and the limits.
nlohmann::ordered_json limits_json(const LayoutStep& step, const std::vector<StepLimit>& limits);
/// With one decimal, or "unknown".
std::string tflops_text(const LayoutStep& step);
/// Tables of the step's figures, of its parts, and of its limits.
std::string step_text(const LayoutStep& step);
std::string parts_text(const LayoutStep& step);
std::string limits_text(const LayoutStep& step, const std::vector<StepLimit>& limits);
}  // namespace pipescope
