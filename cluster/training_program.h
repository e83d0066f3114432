#pragma once

#include "base/ids.h"
#include "hardware/hardware.h"
#include "profiler/profile/kernel_program.h"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// How the published runs of a program on a type of device compare with their predictions
/// (docs/evidence/published-pipelines.md).
struct PublishedErrors {
    std::string device;
    bool experts = false;  ///< runs of models with experts
    int runs = 0;
    double low = 1;    ///< measured / predicted: nine of ten runs lie from here
    double high = 1;   ///< to here
    bool own = false;  ///< the user's own runs, left out one by one in a fit

    friend bool operator==(const PublishedErrors&, const PublishedErrors&) = default;
};

/// How products in a short dtype run, beside those that float8 with one scale for each tensor has.
struct ShortProducts {
    double share = 1;       ///< of the rate that float8's or float4's products reach
    double cast_bytes = 0;  ///< moved in addition per number of a product's input, and of its output's gradient

    friend bool operator==(const ShortProducts&, const ShortProducts&) = default;
};

/// How a training program runs a language model: what the same layout costs in it, beside what the device can do.
/// The defaults describe no program: every kernel reaches its usual rate, and nothing is added.
/// docs/program-format.md explains each value, and cluster/programs.json gives the built-in programs with their
/// sources.
struct TrainingProgram : KernelProgram {
    std::string source;  ///< where the values come from

    // What the program sets in a layout unless the user does.
    std::optional<int> gradient_bytes;
    std::optional<Bytes> gradient_bucket;
    std::optional<Sends> sends;

    /// Of a block's forward and activations: what selective recompute repeats and does not keep. 0: attention between
    /// the projections.
    double selective_share = 0;
    /// Shares of messages that run beside a block's work.
    double tensor_overlap = 0;    ///< sums over tensor-parallel ranks
    double dispatch_overlap = 0;  ///< tokens' ways to whole experts of other nodes, and back
    /// Share of the shorter task's time that a forward and a backward save if a schedule such as DualPipe pairs them.
    /// Without a value, they run one after the other (PipelineOptions::pair_overlap).
    std::optional<double> pair_overlap;
    bool forward_gather_overlap = true;  ///< ZeRO 3's parameters; with a gradient bucket
    bool backward_gather_overlap = true;
    /// The highest ZeRO stage that runs with several lanes: FSDP2 in a pipeline gathers parameters once per step, and
    /// sums gradients once, as ZeRO 1 does.
    int pipeline_zero = 3;
    bool update_gather_overlap = false;  ///< ZeRO 1 and 2: updated parameters arrive during the next step's forward
    /// Work beside a message takes longer by this share of the message's time.
    double overlap_slowdown = 0;
    double tensor_sum_share = 1;   ///< of the link's rate that sums over tensor-parallel ranks reach
    double dispatch_share = 1;     ///< of the link's rate that tokens' ways to experts reach
    double between_share = 1;      ///< of the rate between nodes that sums over replicas reach
    double parameter_bytes = 0;    ///< moved per parameter and micro-batch: copies, conversions and sums of ZeRO 3
    double update_share = 1;       ///< of the bandwidth of one fused kernel that the update reaches
    bool fused_gradients = false;  ///< products of weights' gradients add to the sum over micro-batches
    double forward_launches = 0;   ///< kernels per block
    double backward_launches = 0;
    double cast_launches = 0;  ///< kernels per product in float8 or float4, for casts, transposes and scales
    std::map<std::string, ShortProducts> short_products = {};  ///< by dtype
    std::int64_t bfloat16_blocks = 0;  ///< LanguageModel::whole_blocks, unless the model has a number of its own
    /// Experts at least this wide are split over the tensor-parallel devices, as Megatron-Core does unless it is told
    /// otherwise; 0: none are.
    double split_experts_from = 0;
    bool unfused_expert_bias = false;  ///< biases of experts are added by kernels of their own, expert by expert
    double logit_bytes = 4;            ///< in memory
    double device_spread = 0;          ///< standard deviation of a device's time, as a share: the slowest device counts
    double step_ns = 0;                ///< once per step, which nothing hides
    /// Memory that a process holds besides tensors. Without a value, the device's headroom stands for it.
    std::optional<Bytes> context_bytes;
    std::vector<PublishedErrors> published = {};
    double reserved_share = 0;  ///< of the tensors' memory, which the allocator holds in addition

    /// The entry of short_products for the dtype. Without an entry, products run as in float8.
    ShortProducts short_products_in(const std::string& dtype) const;
    /// The part of a device's memory that tensors cannot use. Precondition: context_bytes has a value.
    Bytes headroom_of(Bytes memory) const;
    /// What a device shows that holds tensors of `bytes` at its peak.
    Bytes shown_bytes(Bytes bytes) const;

    friend bool operator==(const TrainingProgram&, const TrainingProgram&) = default;
};

/// Where nine of ten steps of a program on a type of device should lie, as shares of their prediction.
struct StepRange {
    double low = 1;
    double high = 1;
    int runs = 0;        ///< published ones that it comes from; 0: none of this program
    std::string device;  ///< of these runs
    bool own = false;    ///< they are the user's
    double run_low = 1;  ///< what these runs took, as shares of their predictions
    double run_high = 1;
    double peak_low = 1;  ///< what nine of ten devices showed, as shares of TrainingProgram::shown_bytes()
    double peak_high = 1;
};

/// Throws UsageError for a kernel of attention, or a type in product_share_on, that neither this catalogue nor the
/// built-in one has: it would have no effect.
void check_names(const TrainingProgram& program, const std::vector<DeviceType>& catalogue);
/// From runs of the program on that type of device; otherwise wider, from its runs on another one; otherwise from the
/// runs of all programs. Runs of models with experts count only for those, and others only for others.
StepRange step_range(const TrainingProgram& program, const std::string& device, bool experts);

using ProgramPointer = std::shared_ptr<const TrainingProgram>;

/// The built-in programs, in the order of cluster/programs.json.
const std::vector<ProgramPointer>& built_in_programs();
/// Parses a program of a file (docs/program-format.md). Throws ProfileError with the JSON path of the first fault.
TrainingProgram parse_program(std::string_view json);
/// The program as such a file, with the values that differ from the defaults.
std::string program_text(const TrainingProgram& program);
/// The built-in program of that name, or the program of that file. Throws UsageError that lists the names.
ProgramPointer load_program(const std::filesystem::path& name);
}  // namespace pipescope
