#pragma once

#include "cluster/language_model.h"
#include "hardware/cluster.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// How tokens get to their experts, and their results back.
enum class TokenDispatch {
    expert,  ///< a copy to each of a token's experts: all_to_all_ns()
    node,    ///< one to each node that holds some of them: node_dispatch_ns()
};
std::string to_string(TokenDispatch dispatch);
/// Throws UsageError that lists the names.
TokenDispatch parse_token_dispatch(std::string_view name);

/// Where a model is cut for equal devices.
enum class Cuts {
    even,      ///< all partitions have the same number of blocks if they divide them, as in Megatron-LM
    quickest,  ///< always as for unlike devices
};
std::string to_string(Cuts cuts);
/// Throws UsageError that lists the names.
Cuts parse_cuts(std::string_view name);

/// How a model lies on a cluster: tensor-parallel ranks next to each other, then context-parallel ones,
/// data-parallel ones, and the pipeline. Experts are dealt out whole among `expert` consecutive devices of a lane, in
/// that order.
struct Layout {
    int pipeline = 1;    ///< lanes of one pipeline
    int data = 1;        ///< replicas of it
    int tensor = 1;      ///< devices that split each matrix
    int context = 1;     ///< devices that split the tokens of each sample
    int expert = 1;      ///< devices of a lane that split its experts
    int interleave = 1;  ///< partitions a lane
    std::int64_t micro_batch_size = 1;
    std::int64_t batch = 1;                 ///< samples of a step, over all replicas
    std::optional<Schedule> schedule = {};  ///< empty: the usual one, schedule_of()
    Recompute recompute = Recompute::none;
    bool sequence_parallel = false;  ///< tensor-parallel ranks split norms and dropouts by tokens
    int zero = 0;                    ///< replicas split the optimizer's state (1), gradients (2), parameters (3)
    std::string dtype = "bfloat16";  ///< of parameters and activations
    int gradient_bytes = 4;          ///< of a parameter's gradient, as it is summed and kept
    /// Replicas sum gradients in parts of about that many bytes, each as soon as the last backward has made it;
    /// messages of ZeRO 2 and 3 overlap with layers. 0: all of a lane's gradients at its end, and no overlap.
    Bytes gradient_bucket = 0;
    Sends sends = Sends::blocking;  ///< as in Megatron-LM; in DeepSpeed they are serial
    TokenDispatch dispatch = TokenDispatch::expert;
    Cuts cuts = Cuts::even;

    /// Devices of one lane.
    std::int64_t stage_devices() const { return static_cast<std::int64_t>(data) * context * tensor; }
    int devices() const { return static_cast<int>(pipeline * stage_devices()); }
    RankGroup tensor_ranks() const { return {tensor, 1, devices()}; }
    RankGroup context_ranks() const { return {context, tensor, devices()}; }
    /// Devices of a lane that hold the same weights. They sum gradients, and ZeRO splits among them.
    RankGroup weight_copies() const { return {data * context, tensor, devices()}; }
    /// Likewise of experts.
    RankGroup expert_ranks() const { return {expert, 1, devices()}; }
    RankGroup expert_copies() const { return {static_cast<int>(stage_devices() / expert), expert, devices()}; }
    /// Number of parts into which these copies split the state that is split from this ZeRO stage on.
    int zero_parts(int stage, const RankGroup& copies) const { return zero >= stage ? copies.ranks : 1; }
    /// The quotient of large numbers whose product would overflow.
    std::int64_t micro_batches() const { return batch / data / micro_batch_size; }
    friend bool operator==(const Layout&, const Layout&) = default;
};

/// Its schedule, or the usual one: interleaved with several partitions a lane, else 1f1b.
Schedule schedule_of(const Layout& layout);
/// Lane of each partition; empty if each lane has one.
std::vector<LaneId> placement_in(const Layout& layout);

/// "p8 d4 t8 v2 b1", for messages and tables; "p8 d4 c2 t8 e8 v2 b1" with samples and experts on several devices; "p8
/// d4 t8 v2 b1 quickest cuts".
std::string to_string(const Layout& layout);

/// Gives the layout of a gpt: model this dtype, unless it is empty, and gradients no fewer bytes than it needs.
void set_dtype(Layout& layout, const std::string& dtype);
/// Gives the layout the dtype of a profile, whose gradients have that size too.
void set_dtype(Layout& layout, const Profile& profile);

/// Consecutive lanes of a pipeline whose devices are of one group.
struct PipelinePart {
    const NodeGroup* group = nullptr;  ///< of the cluster that is passed with it
    int lanes = 1;
};
/// The devices of a pipeline, in the order of its lanes. A pipeline over several types of devices has several parts.
using PipelineParts = std::vector<PipelinePart>;
/// "A100", or "A100:4,V100:4" for several parts.
std::string to_string(const PipelineParts& parts);
/// Parses such a text for a pipeline of that many lanes. Empty: the cluster's only group. Throws UsageError for a type
/// that the cluster does not have, and for one that is left open.
PipelineParts parse_pipeline_parts(const std::string& text, const Cluster& cluster, int lanes);

/// Throws UsageError for the first count that the parts could not run: fewer devices than the layout needs, a batch
/// that the replicas' micro-batches do not divide, a ZeRO stage that is none.
void check_layout(const Layout& layout, const PipelineParts& parts);
/// Like the above, for the parts of a language model: ranks that do not divide its heads, widths, tokens or experts,
/// more partitions than blocks, layers too large for a profile.
void check_layout(const LanguageModel& model, const Layout& layout, const PipelineParts& parts);
/// Like the first, for a profile, whose layers are whole. Over several types it must list operations.
void check_layout(const Profile& profile, const Layout& layout, const PipelineParts& parts);

/// Samples that a batch may have.
inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;
/// Operations of one rank's largest layer for a micro-batch. A profile holds numbers up to 2^53.
double largest_layer_flops(const LanguageModel& model, const Layout& layout);
inline constexpr double kMostLayerFlops = 0x1p53;
/// Throws UsageError if it has more.
void check_layer_flops(const LanguageModel& model, const Layout& layout);
/// Throws UsageError if the layout sends tokens to experts in a way of its own, and the model has none.
void check_dispatch(const LanguageModel& model, const Layout& layout);

/// One rank's costs of the model's layers (embedding, blocks, output layer) at the layout's micro-batch size, estimated
/// for the group's device by operator. Times include the collectives of tensor parallelism, those that take tokens to
/// experts and back, waits for other context-parallel ranks' keys and values, and recompute. Each expert gets as many
/// tokens as every other one. Context parallelism is ring attention: each rank's tokens attend to its own keys and
/// values, then to those of the others, while the next ones arrive. Ranks have tokens from the beginning and from the
/// end of a sample, so causal attention takes equally long on all of them. The backward passes keys and values around
/// the ring again, and their gradients one turn later. Source: NVIDIA, Transformer Engine 2.8, attention with context
/// parallelism, communication p2p. With ZeRO 2 and 3 each backward sums its gradients over the replicas, and with ZeRO
/// 3 each pass gathers its parameters: a layer takes the sum of its own work and these messages, or with
/// gradient_bucket the longer of both. The output layer's times include the loss. Bytes are those of the rank.
/// Preconditions: check_layout() passes. Throws UsageError if the device has no rate for the dtype.
Profile language_model_profile(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                               const Layout& layout);

/// True if the layout, on devices of one type, cuts the model's blocks evenly.
bool has_even_cuts(const LanguageModel& model, const Layout& layout);

/// True if one lane has the first partition and the last one, as with schedules in a V. It then holds a tied embedding
/// once.
bool ends_share_a_lane(const Layout& layout);

/// Time in ns in which each device that holds a part of these weights, of that many bytes each, gets the others' parts:
/// of experts after those of other weights.
double gather_weights_ns(const RankWeights& parameters, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout, double bytes);

/// The parts of a block's times that are not its own operators, in ns for a micro-batch.
struct BlockExtras {
    double recompute = 0;    ///< operators that repeat the forward
    double collectives = 0;  ///< sums over tensor-parallel ranks, those of a recompute included; waits for ZeRO 2 and 3
    double all_to_all = 0;   ///< tokens' ways to experts and back, those of a recompute included
    double context = 0;      ///< waits for keys and values of other ranks, likewise
    double ends = 0;         ///< collectives of the embedding and of the output layer together
};
/// Preconditions as of language_model_profile().
BlockExtras block_extras(const LanguageModel& model, BlockKind kind, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout);

/// The memory of one type's devices.
struct TypeMemory {
    std::string device;
    Bytes bytes = 0;
    Bytes headroom = 0;  ///< of them, for what is no tensor
};

/// A step of one replica on the virtual clock, with the work after the pipeline.
struct LayoutStep {
    Layout layout;
    std::string device;                   ///< to_string(PipelineParts): the type's name, if there is one
    Profile profile;                      ///< that was simulated
    std::vector<TypeMemory> memory = {};  ///< of each part's devices
    bool cut_to_fit = false;              ///< some quickest cuts do not fit into memory, and these do
    Simulation simulation;                ///< of one tensor-parallel rank's pipeline, to the end of its last all_reduce
    double tied_ns = 0;                   ///< both ends sum the gradients of the tied embedding
    double gather_ns = 0;                 ///< ZeRO 1 and 2: replicas gather the parameters that each of them updated
    double optimizer_ns = 0;              ///< of the slowest lane
    double model_flops = 0;               ///< of the step, without recompute; attention to all pairs; 0: unknown
    double causal_flops = 0;              ///< likewise without the half of the pairs that causal attention skips
    double recomputed_flops = 0;
    double recompute_share = 0;   ///< of the lanes' work: operators that repeat a forward
    double collective_share = 0;  ///< of the lanes' work: sums over tensor-parallel ranks, gathered parameters
    double all_to_all_share = 0;  ///< of the lanes' work: tokens' ways to experts and back
    double context_share = 0;     ///< of the lanes' work: waits for keys and values of other ranks
    double tokens = 0;            ///< of the whole step; 0: not a language model

    double step_ns() const {
        return static_cast<double>(simulation.step_time.count()) + tied_ns + gather_ns + optimizer_ns;
    }
    /// 10^12 operations of the model per second and device. Empty if its operations are unknown.
    std::optional<double> tflops_per_device() const;
    /// Likewise with recomputed operations, as Megatron-LM's papers count.
    std::optional<double> hardware_tflops_per_device() const;
    double samples_per_second() const { return static_cast<double>(layout.batch) / step_ns() * 1e9; }
    double tokens_per_second() const { return tokens / step_ns() * 1e9; }
};

/// Simulates a step of one replica. If the devices are equal and the partitions divide the blocks, all partitions
/// get the same number, unless the layout asks for the quickest cuts. Otherwise the cuts minimize the time of the
/// slowest partition on its own devices, or deal the blocks out to lanes of several partitions. Cuts for the
/// layers' times and cuts for the sums of gradients and the update too are simulated, and the quicker ones count.
/// They keep the devices' memory (cuts.h). Without memory in the detail, or if no cuts fit, memory does not count.
/// For schedule auto, the cuts of every named schedule are tried. Approximated: tensor-parallel ranks and replicas
/// run in lock step; experts get equal numbers of tokens; a collective is a ring, but tokens go to experts by
/// all_to_all_ns(); a collective waits for nothing else; sums of gradients slow no layer down; the embedding of
/// positions, biases and norms have no parameters; nothing fails. Throws as check_layout() and simulate() do.
LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                           const Layout& layout, const SimulationDetail& detail = {.noise = false});
/// A bound of a layout's step.
struct LeastStep {
    double ns = 0;            ///< infinity if no cuts can fit into memory
    bool cut_to_fit = false;  ///< some quickest cuts surely do not
};
/// No step of that layout is shorter. For the cuts that simulate_layout() takes, it is a lane's work, the ways of the
/// first micro-batch to it and of the last one back, or its sums of gradients, and the work after the pipeline. If the
/// quickest cuts may not fit, it counts the slowest partition of cuts that may. Takes a small part of a simulation's
/// time. Preconditions: check_layout() passes.
LeastStep least_step(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                     const Layout& layout);
/// Like simulate_layout() above, for a profiled model, which no tensor parallelism can split: on_device(). `options`
/// gives balance, checkpoint mode (always if the layout recomputes) and optimizer; cuts are found if its balance has
/// one partition and the layout has more.
LayoutStep simulate_layout(const Profile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const PipelineParts& parts, const Layout& layout,
                           const SimulationDetail& detail = {.noise = false});

// As above, with all lanes on one group of nodes.
LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                           const Layout& layout, const SimulationDetail& detail = {.noise = false});
LayoutStep simulate_layout(const Profile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const NodeGroup& group, const Layout& layout,
                           const SimulationDetail& detail = {.noise = false});
/// True if some layer lists operations, so that its times on other devices can be estimated.
bool has_operations(const Profile& profile);
/// The profile with times for the group's device, if it lists operations and is of another; otherwise with its own, of
/// a lane alone (with_times_alone()).
Profile on_device(const Profile& profile, const NodeGroup& group);
}  // namespace pipescope
