#pragma once

#include "cluster/cluster.h"
#include "cluster/language_model.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// How a model lies on a cluster: tensor-parallel ranks next to each other, then data-parallel ones, then the pipeline.
struct Layout {
    int pipeline = 1;    ///< lanes of one pipeline
    int data = 1;        ///< replicas of it
    int tensor = 1;      ///< devices that split each matrix
    int interleave = 1;  ///< partitions a lane
    std::int64_t micro_batch_size = 1;
    std::int64_t batch = 1;                 ///< samples of a step, over all replicas
    std::optional<Schedule> schedule = {};  ///< empty: interleaved with several partitions a lane, else 1f1b
    Recompute recompute = Recompute::none;
    bool sequence_parallel = false;  ///< tensor-parallel ranks split norms and dropouts by tokens
    int zero = 0;                    ///< replicas split the optimizer's state (1), gradients (2), parameters (3)
    std::string dtype = "bfloat16";  ///< of parameters and activations
    int gradient_bytes = 4;          ///< of a parameter's gradient, as it is summed and kept
    Sends sends = Sends::blocking;   ///< as in Megatron-LM; in DeepSpeed they are serial

    int devices() const { return pipeline * data * tensor; }
    std::int64_t micro_batches() const { return batch / (micro_batch_size * data); }
    friend bool operator==(const Layout&, const Layout&) = default;
};

/// "p8 d4 t8 v2 b1", for messages and tables.
std::string to_string(const Layout& layout);

/// Throws UsageError for the first count that no group of nodes could run: fewer devices than the layout needs, a batch
/// that the replicas' micro-batches do not divide, a ZeRO stage that is none.
void check_layout(const Layout& layout, const NodeGroup& group);
/// Like the above, for the parts of a language model: ranks that do not divide its heads or widths, more partitions
/// than blocks.
void check_layout(const LanguageModel& model, const Layout& layout, const NodeGroup& group);

/// One rank's costs of the model's layers (embedding, blocks, output layer) at the layout's micro-batch size, estimated
/// for the group's device by operator. Times include the collectives of tensor parallelism and of ZeRO 3, and what is
/// recomputed. The output layer's include the loss. Bytes are those of the rank.
/// Preconditions: check_layout() passes. Throws UsageError if the device has no rate for the dtype.
Profile language_model_profile(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                               const Layout& layout);

/// The parts of a block's times that are not its own operators, in ns for a micro-batch.
struct BlockExtras {
    double recompute = 0;    ///< operators that repeat the forward
    double collectives = 0;  ///< sums over tensor-parallel ranks, those of a recompute included; gathered parameters
};
/// Preconditions as of language_model_profile().
BlockExtras block_extras(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout);

/// The pipeline of one replica on that profile: its cuts, links and memory limit. Blocks are dealt out evenly if their
/// number allows it; otherwise cuts give the smallest largest partition.
/// Preconditions: check_layout() passes; `profile` is that of the layout.
PipelineOptions layout_options(const Profile& profile, const Cluster& cluster, const NodeGroup& group,
                               const Layout& layout);

/// A step of one replica on the virtual clock, with what follows the pipeline.
struct LayoutStep {
    Layout layout;
    std::string device;       ///< the type's name
    Profile profile;          ///< that was simulated
    Simulation simulation;    ///< of one tensor-parallel rank's pipeline, to the end of its last all_reduce
    double tied_ns = 0;       ///< both ends sum the gradients of the tied embedding
    double optimizer_ns = 0;  ///< of the slowest lane
    double model_flops = 0;   ///< of the whole step, without recompute
    double recomputed_flops = 0;
    double recompute_share = 0;   ///< of the lanes' work: operators that repeat a forward
    double collective_share = 0;  ///< of the lanes' work: sums over tensor-parallel ranks, gathered parameters
    double tokens = 0;            ///< of the whole step; 0: not a language model

    double step_ns() const { return static_cast<double>(simulation.step_time.count()) + tied_ns + optimizer_ns; }
    /// 10^12 operations of the model per second and device.
    double tflops_per_device() const;
    /// Likewise with those that are recomputed, as Megatron-LM's papers count.
    double hardware_tflops_per_device() const;
    double tokens_per_second() const { return tokens / step_ns() * 1e9; }
};

/// Simulates a step. Approximated: tensor-parallel ranks and replicas run in lock step; a collective is a ring, and
/// waits for nothing else; gradients are summed once a lane has ended, so only the drain hides them; the embedding of
/// positions, biases and norms have no parameters; nothing fails. Throws as check_layout() and simulate() do.
LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                           const Layout& layout, const SimulationDetail& detail = {.noise = false});
/// Like the above, for a profiled model, which no tensor parallelism can split: on_device(). `options` gives balance,
/// checkpoint and optimizer; cuts are found if its balance has one partition and the layout has more.
LayoutStep simulate_layout(const Profile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const NodeGroup& group, const Layout& layout,
                           const SimulationDetail& detail = {.noise = false});
/// The profile with times for the group's device, if it lists operations and is of another; otherwise as it is.
Profile on_device(const Profile& profile, const NodeGroup& group);
}  // namespace pipescope
