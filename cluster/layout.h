#pragma once

#include "cluster/asked_cuts.h"
#include "cluster/language_model.h"
#include "cluster/model_optimizer.h"
#include "cluster/training_program.h"
#include "hardware/cluster.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// How tokens travel to their experts, and their results back.
enum class TokenDispatch {
    expert,  ///< a copy to each expert of a token: all_to_all_ns()
    node,    ///< a copy to each node that holds some of its experts: node_dispatch_ns()
};
std::string to_string(TokenDispatch dispatch);
/// Throws UsageError that lists the names.
TokenDispatch parse_token_dispatch(std::string_view name);

/// How a model is placed on a cluster. Tensor-parallel ranks are next to each other, then context-parallel ranks, then
/// data-parallel ranks, then the pipeline's lanes. In this order, `expert` consecutive devices of a lane share its
/// experts; each expert is whole on one device, unless the program splits it over the tensor-parallel ones.
struct Layout {
    int pipeline = 1;       ///< lanes of one pipeline
    int data = 1;           ///< replicas of the pipeline
    int tensor = 1;         ///< devices that split each matrix
    int context = 1;        ///< devices that split the tokens of each sample
    int expert = 1;         ///< devices of a lane that share its experts
    int expert_tensor = 1;  ///< tensor-parallel devices that split each expert: 1 or `tensor`, see expert_tensor_of()
    int interleave = 1;     ///< partitions per lane
    std::int64_t micro_batch_size = 1;
    std::int64_t batch = 1;                 ///< samples per step, over all replicas
    std::optional<Schedule> schedule = {};  ///< empty: the usual schedule, schedule_of()
    Recompute recompute = Recompute::none;
    bool sequence_parallel = false;  ///< tensor-parallel ranks split norms and dropouts by tokens
    int zero = 0;                    ///< what replicas split: the optimizer's state (1), gradients (2), parameters (3)
    std::string dtype = "bfloat16";  ///< of parameters and activations
    int gradient_bytes = 4;          ///< of a parameter's gradient, both in sums and in memory
    /// Replicas sum gradients in parts of about this many bytes, as soon as the last backward has made them; messages
    /// of ZeRO 2 and 3 overlap with layers. 0: all gradients of a lane at its end, without overlap.
    Bytes gradient_bucket = 0;
    Sends sends = Sends::blocking;  ///< as in Megatron-LM; DeepSpeed's are serial
    TokenDispatch dispatch = TokenDispatch::expert;
    Cuts cuts = Cuts::even;  ///< own cuts also hold for unequal devices
    /// The dtype of the blocks' matrix products, one of short_dtypes(); empty: dtype. Attention, the output layer,
    /// everything between products, and blocks with BlockKind::is_whole keep dtype.
    std::string product_dtype = {};
    ModelOptimizer optimizer = ModelOptimizer::adam;  ///< of a language model
    bool no_master_weights = false;  ///< the optimizer keeps no float32 copy of a language model's shorter parameters
    /// Bytes a second, each way, of each device's link to its host, which keeps the optimizer's state; 0: the device
    /// keeps the state.
    double offload_rate = 0;
    ProgramPointer program = {};  ///< that runs the layout; empty: as TrainingProgram{} says

    /// The layout's program, or one that adds nothing.
    const TrainingProgram& how() const;
    /// True if the block's products run in product_dtype.
    bool is_short(BlockKind kind) const { return !product_dtype.empty() && !kind.is_whole; }

    /// Devices of one lane.
    std::int64_t stage_devices() const { return static_cast<std::int64_t>(data) * context * tensor; }
    int devices() const { return static_cast<int>(pipeline * stage_devices()); }
    RankGroup tensor_ranks() const { return {tensor, 1, devices()}; }
    RankGroup context_ranks() const { return {context, tensor, devices()}; }
    /// The devices of a lane that hold the same weights. They sum gradients together, and ZeRO splits among them.
    RankGroup weight_copies() const { return {data * context, tensor, devices()}; }
    /// The parts into which a lane's experts are cut.
    int expert_parts() const { return expert * expert_tensor; }
    ExpertSplit expert_split() const { return {expert, expert_tensor}; }
    /// The devices that share a lane's experts, and those that hold the same experts.
    RankGroup expert_ranks() const { return {expert, expert_tensor, devices()}; }
    RankGroup expert_copies() const {
        return {static_cast<int>(stage_devices() / expert_parts()), expert_parts(), devices()};
    }
    /// The number of parts into which `copies` split a state that ZeRO splits from `stage` on.
    int zero_parts(int stage, const RankGroup& copies) const { return zero >= stage ? copies.ranks : 1; }
    /// Divides twice, because the product of these large numbers would overflow.
    std::int64_t micro_batches() const { return batch / data / micro_batch_size; }
    friend bool operator==(const Layout&, const Layout&) = default;
};

/// Bytes that the optimizer keeps of each trained parameter of a language model: moments, and a float32 copy of a
/// shorter parameter. `in_block`: as in moment_bytes().
double state_bytes(const Layout& layout, bool in_block);
/// The part of state_bytes() that is on the device: 0 if hosts keep the state.
double kept_bytes(const Layout& layout, bool in_block);
/// True if the optimizer keeps a float32 copy of each parameter.
bool has_master_weights(const Layout& layout);

/// The layout's schedule, or the usual one: interleaved with several partitions per lane, otherwise 1f1b.
Schedule schedule_of(const Layout& layout);
/// The schedule of a layout with that many partitions per lane, unless it names another.
Schedule usual_schedule(int interleave);
/// Lane of each partition; empty if each lane has one.
std::vector<LaneId> placement_in(const Layout& layout);

/// For messages and tables: "p8 d4 t8 v2 b1"; with samples and experts split over devices "p8 d4 c2 t8 e8 v2 b1"; "p8
/// d4 t8 v2 b1 quickest cuts".
std::string to_string(const Layout& layout);

/// Sets the dtype of a gpt: model's layout, unless it is empty; short_dtypes() are those of its products. Raises the
/// gradients' bytes to the dtype's size. Throws UsageError for an unknown dtype.
void set_dtype(Layout& layout, const std::string& dtype);
/// Sets the layout's dtype to the profile's; gradients get the same size.
void set_dtype(Layout& layout, const Profile& profile);

/// Consecutive lanes of a pipeline on devices of one group.
struct PipelinePart {
    const NodeGroup* group = nullptr;  ///< of the cluster that is passed along
    int lanes = 1;
};
/// The devices of a pipeline, in the order of its lanes. With several types of devices there are several parts.
using PipelineParts = std::vector<PipelinePart>;
/// "A100", or "A100:4,V100:4" for several parts.
std::string to_string(const PipelineParts& parts);
/// Parses a text such as "A100:4,V100:4" for a pipeline of that many lanes. Empty: the cluster's only group. Throws
/// UsageError for a type that is not in the cluster, and if the text leaves the type open.
PipelineParts parse_pipeline_parts(const std::string& text, const Cluster& cluster, int lanes);

/// Throws UsageError for the first invalid count: fewer devices than the layout needs, a batch that the replicas'
/// micro-batches do not divide, or an unknown ZeRO stage.
void check_layout(const Layout& layout, const PipelineParts& parts);
/// Also checks a language model: ranks must divide its heads, widths, tokens and experts; at most as many partitions as
/// layers, own cuts that fit both, and layers small enough for a profile.
void check_layout(const LanguageModel& model, const Layout& layout, const PipelineParts& parts);
/// Also checks a profile, whose layers cannot be split. Over several types of devices it must list operations.
void check_layout(const Profile& profile, const Layout& layout, const PipelineParts& parts);

/// The most samples in a batch.
inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;
/// Operations of one rank's largest layer for a micro-batch.
double largest_layer_flops(const LanguageModel& model, const Layout& layout);
inline constexpr double kMostLayerFlops = 0x1p53;
/// Throws UsageError with the remedy if largest_layer_flops() exceeds 2^53, the largest number in a profile.
void check_layer_flops(const LanguageModel& model, const Layout& layout, const std::string& remedy);
/// The model with the whole blocks of the layout's program, if its products run in a short dtype.
LanguageModel as_run(const LanguageModel& model, const Layout& layout);
/// The devices that split each expert in the layout's program: the tensor-parallel ones if experts are wide enough for
/// TrainingProgram::split_experts_from and a lane has the devices, otherwise 1.
int expert_tensor_of(const LanguageModel& model, const Layout& layout);
/// The highest ZeRO stage that the layout's program runs with these lanes (TrainingProgram::pipeline_zero).
int most_zero(const Layout& layout);
/// Throws UsageError if the layout sets TokenDispatch although the model has no experts.
void check_dispatch(const LanguageModel& model, const Layout& layout);
/// Throws UsageError for Muon's update of LoRA's matrices, and for an offloaded state of nothing.
void check_optimizer(const LanguageModel& model, const Layout& layout);

/// One rank's costs of the model's layers (embedding, blocks, output layer) at the layout's micro-batch size, estimated
/// for the group's device by operator.
///
/// Times include tensor parallelism's collectives, tokens' ways to experts and back, waits for other context-parallel
/// ranks' keys and values, and recompute. All experts get equally many tokens. The output layer's times include the
/// loss. Bytes are one rank's.
///
/// Context parallelism is ring attention: each rank's tokens attend to their own keys and values, then to the other
/// ranks', while the next ones arrive. Each rank has tokens from the beginning and the end of a sample, so causal
/// attention takes equally long on all ranks. The backward passes keys and values around the ring again, and their
/// gradients one turn later. Source: NVIDIA, Transformer Engine 2.8, attention with context parallelism, communication
/// p2p.
///
/// ZeRO: with stages 2 and 3 each backward sums its gradients over the replicas, and with stage 3 each pass gathers its
/// parameters. A layer takes the sum of its own work and these messages, or with gradient_bucket the longer of both.
///
/// Precondition: check_layout() passes. Throws UsageError if the device has no rate for the dtype.
Profile language_model_profile(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                               const Layout& layout);

/// True if the layout, on devices of one type, cuts the model's blocks evenly.
bool has_even_cuts(const LanguageModel& model, const Layout& layout);

/// True if one lane has both the first and the last partition, as with schedules in a V. It then holds a tied embedding
/// only once.
bool ends_share_a_lane(const Layout& layout);

/// Time in ns in which each device that holds a part of these weights, of `bytes` each, gets the other parts: first of
/// usual weights, then of experts.
double gather_weights_ns(const RankWeights& parameters, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout, double bytes);

/// The parts of a block's times that are not its own operators, in ns per micro-batch.
struct BlockExtras {
    double recompute = 0;   ///< operators that repeat the forward
    double sums = 0;        ///< over tensor-parallel ranks, also in a recompute
    double zero = 0;        ///< waits for ZeRO 2 and 3
    double all_to_all = 0;  ///< tokens' ways to experts and back, also in a recompute
    double context = 0;     ///< waits for other ranks' keys and values, also in a recompute
    double ends = 0;        ///< collectives of the first and the last layer, without those of blocks in the last one

    double collectives() const { return sums + zero; }
};
/// Preconditions: as language_model_profile().
BlockExtras block_extras(const LanguageModel& model, BlockKind kind, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout);

/// The memory of one type's devices.
struct TypeMemory {
    std::string device;
    Bytes bytes = 0;
    Bytes headroom = 0;  ///< part of it that tensors cannot use
};

/// A replica's step on the virtual clock, with the work after the pipeline.
struct LayoutStep {
    Layout layout;
    std::string device;                     ///< to_string(PipelineParts): the name of the type, if there is only one
    std::optional<CheckedProfile> profile;  ///< that was simulated; lists of many steps do not keep it
    std::vector<TypeMemory> memory = {};    ///< of each part's devices
    bool cut_to_fit = false;                ///< memory rules out some of the quickest cuts, so these were taken
    Simulation simulation;                  ///< one tensor-parallel rank's pipeline, to the end of its last all_reduce
    double tied_ns = 0;                     ///< to sum the gradients of the tied embedding at both ends
    double gather_ns = 0;                   ///< ZeRO 1 and 2: to gather the parameters that each replica updated
    double optimizer_ns = 0;                ///< on the slowest lane
    double program_ns = 0;                  ///< what the program adds to each step
    double model_flops = 0;                 ///< in the step, without recompute; attention to all pairs; 0: unknown
    double causal_flops = 0;                ///< model_flops without the half of the pairs that causal attention skips
    double recomputed_flops = 0;
    double parameters = 0;         ///< parameters_of() the language model; 0: not a language model
    double active_parameters = 0;  ///< those that compute one token
    double trained_parameters = 0;
    double offloaded_bytes = 0;  ///< that the update moves between a device and its host, both ways; the most of a lane
    double recompute_share = 0;  ///< of the lanes' work: operators that repeat a forward
    double collective_share = 0;       ///< of the lanes' work: sums over tensor-parallel ranks, gathered parameters
    double all_to_all_share = 0;       ///< of the lanes' work: tokens' ways to experts and back
    double context_share = 0;          ///< of the lanes' work: waits for keys and values of other ranks
    double tokens = 0;                 ///< of the whole step; 0: not a language model
    std::int64_t bfloat16_blocks = 0;  ///< LanguageModel::whole_blocks beside Layout::product_dtype
    StepRange range = {};  ///< of a language model's step; on several types of devices, the widest of theirs

    double step_ns() const {
        return static_cast<double>(simulation.step_time.count()) + tied_ns + gather_ns + optimizer_ns + program_ns;
    }
    /// 10^12 operations of the model per second and device. Empty if its operations are unknown.
    std::optional<double> tflops_per_device() const;
    /// tflops_per_device() including recompute, as in Megatron-LM's papers.
    std::optional<double> hardware_tflops_per_device() const;
    double samples_per_second() const { return static_cast<double>(layout.batch) / step_ns() * 1e9; }
    double tokens_per_second() const { return tokens / step_ns() * 1e9; }
};

/// Simulates a step of one replica.
///
/// Cuts: if the devices are equal and the partitions divide the blocks, all partitions get equally many, unless the
/// layout asks for the quickest cuts. Otherwise the cuts minimize the time of the slowest partition on its devices, or
/// deal the blocks out to lanes with several partitions. Two cuts are simulated, and the quicker counts: for the
/// layers' times alone, and with the sums of gradients and the update. Cuts keep within the devices' memory (cuts.h),
/// unless `detail` excludes memory or no cuts fit. For schedule auto, the cuts of every named schedule are tried.
///
/// Approximations: tensor-parallel ranks and replicas run in lock step; experts get equal numbers of tokens; a
/// collective is a ring, but tokens go to experts by all_to_all_ns(); a collective waits for nothing else; sums of
/// gradients do not slow layers down; nothing fails.
///
/// Throws as check_layout() and simulate().
LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                           const Layout& layout, const SimulationDetail& detail = {.noise = false});
/// A bound of a layout's step.
struct LeastStep {
    double ns = 0;            ///< infinity if no cuts can fit into memory
    bool cut_to_fit = false;  ///< some of the quickest cuts surely do not fit
    double after_ns = 0;      ///< part of it after the pipeline, for any cuts; 0: unknown
};
/// A lower bound of the layout's step, for the cuts that simulate_layout() takes. It consists of a lane's work, the
/// ways of the first micro-batch to the lane and of the last one back (or the lane's sums of gradients), and the work
/// after the pipeline. If the quickest cuts may not fit, it takes the slowest partition of cuts that may. Much faster
/// than a simulation. Precondition: check_layout() passes.
LeastStep least_step(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                     const Layout& layout);
/// Simulates a profiled model, with times from on_device(); tensor parallelism cannot split it. `options` gives
/// balance, checkpoint mode (always if the layout recomputes) and optimizer. Cuts are searched if its balance has one
/// partition and the layout has more. Otherwise as above.
LayoutStep simulate_layout(const CheckedProfile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const PipelineParts& parts, const Layout& layout,
                           const SimulationDetail& detail = {.noise = false});

// The same for a pipeline with all lanes on one group of nodes.
LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                           const Layout& layout, const SimulationDetail& detail = {.noise = false});
LayoutStep simulate_layout(const CheckedProfile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const NodeGroup& group, const Layout& layout,
                           const SimulationDetail& detail = {.noise = false});
/// True if some layer lists operations, so that its times on other devices can be estimated.
bool has_operations(const Profile& profile);
/// The profile with times for the group's device if it lists operations and was measured on another device. Otherwise
/// with its own times for a lane alone (with_times_alone()).
Profile on_device(const Profile& profile, const NodeGroup& group);
}  // namespace pipescope
