#pragma once

#include "base/ids.h"
#include "hardware/hardware.h"
#include "profiler/profile/profile.h"
#include "schedule/balance.h"
#include "schedule/checkpoint.h"
#include "schedule/schedules.h"
#include "schedule/task_graph.h"
#include "schedule/update.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// How gradients of experts are summed (LayerProfile::expert_gradient_bytes).
struct ExpertSums {
    int copies = 1;           ///< devices that hold the same experts
    std::vector<Link> links;  ///< between those, by lane; one is for all lanes; none is free
    double state = 1;         ///< optimizer state of a byte of their gradients, over that of other weights

    friend bool operator==(const ExpertSums&, const ExpertSums&) = default;
};

/// The configuration of a run: what runs, and the hardware it runs on. Shared by simulate, plan, run, compare and the
/// viewer's what-if panel.
struct PipelineOptions {
    Balance balance{{1}};
    std::int64_t chunks = 1;
    std::int64_t batch = 1;
    Checkpoint checkpoint = Checkpoint::except_last;
    Schedule schedule = Schedule::gpipe;
    Update update = Update::synchronous;
    std::vector<LaneId> placement;  ///< lane of each partition; empty: partition j on lane j
    std::string optimizer = "sgd";  ///< name, or bytes of state per byte of parameter
    bool master_weights = false;    ///< the optimizer keeps a float32 copy of each parameter, its state in float32
    BackwardOrder backward_order = BackwardOrder::last_first;  ///< for gpipe
    RecomputeStart recompute_start = RecomputeStart::early;
    int replicas = 1;  ///< copies of the pipeline, each with batch / replicas samples; lanes are those of one copy
    /// Devices that hold the same weights and sum their gradients; 0: one of each replica. More, if several devices
    /// share a sample. Only the simulator has others than 0.
    int weight_copies = 0;
    ExpertSums experts;  ///< likewise
    /// Replicas sum gradients in parts of about that many bytes, each as soon as the last backward has made it; 0: all
    /// of a lane's once it has ended, as the engine does. Only the simulator has it.
    Bytes gradient_bucket = 0;
    /// A forward and a backward that the schedule pairs run as one (JointTasks), in which this share of the shorter one
    /// takes no time. Without a value, and in schedules without pairs, they run one after the other. Only the simulator
    /// has it.
    std::optional<double> pair_overlap;
    int most_in_flight = 0;  ///< limit of micro-batches between first forward and last backward; 0: none
    Hardware hardware;

    friend bool operator==(const PipelineOptions&, const PipelineOptions&) = default;
};

/// The user's options for the shape of the pipeline.
struct GivenShape {
    std::optional<std::int64_t> chunks = {};
    std::optional<Checkpoint> checkpoint = {};
    bool placement = false;  ///< the options have it
};
/// If the schedule is a file, sets chunks, placement and checkpoint mode to what it says (the mode only if the file
/// recomputes). Throws UsageError for a given value that contradicts it.
void follow_file(PipelineOptions& options, const GivenShape& given);
/// If the schedule needs a placement and the options have none: places the partitions on as many lanes as there are
/// devices, or else two on each lane. Leaves a number of partitions that does not fit to check_options().
void place(PipelineOptions& options);

/// Throws UsageError or BalanceError for the first option that no profile of `num_layers` layers could run with.
void check_options(const PipelineOptions& options, std::size_t num_layers);

/// Throws UsageError unless the batch can be cut among the replicas, and the schedule can sum their gradients.
void check_replicas(const PipelineOptions& options);
/// Throws UsageError for staggered updates where the lanes' updates depend on each other, or where steps drain.
void check_update(const PipelineOptions& options);
/// Number of lanes the options ask for.
int num_lanes(const PipelineOptions& options);
/// The lanes that hold the partition: one, or two with a bidirectional schedule.
std::vector<LaneId> lanes_of(const PipelineOptions& options, PartitionId partition);
/// Devices that hold the same weights: weight_copies, or the replicas; with a bidirectional schedule twice as many.
int num_weight_copies(const PipelineOptions& options);
/// Devices that hold the same experts, likewise.
int num_expert_copies(const PipelineOptions& options);
/// True if devices sum gradients, of experts or of other weights.
bool sums_gradients(const PipelineOptions& options);
/// Samples of one replica's mini-batch: batch / replicas.
std::int64_t replica_batch(const PipelineOptions& options);
/// The micro-batches of a replica's mini-batch (schedule/micro_batches.h).
std::vector<std::int64_t> micro_batch_sizes(const PipelineOptions& options);

/// Parses "0,0,1", the lane of each partition. Throws UsageError; `option` is its name in the message.
std::vector<LaneId> parse_placement(const std::string& text, const std::string& option);

/// Bytes of optimizer state per byte of parameter. Takes a name from torchgpipe's table (sgd 0, momentum 1, adam 2,
/// amsgrad 3, adadelta 2, adagrad 1, rmsprop 1 to 3) or the number itself. Throws UsageError for anything else.
double optimizer_state_factor(const std::string& optimizer);
/// Like the above, for parameters of that dtype and with master weights. State and copy then take 4 bytes per element,
/// so Adam's for bfloat16 parameters are (2 + 1) * 4 / 2 = 6.
double optimizer_state_factor(const PipelineOptions& options, const std::string& dtype);
/// Bytes of the optimizer's state for a layer's parameters.
struct OptimizerStates {
    double usual = 0;  ///< per byte of gradient
    double experts = 0;

    Bytes of(const LayerProfile& layer) const;
};
OptimizerStates optimizer_states(const PipelineOptions& options, const std::string& dtype);
/// Throws UsageError for master weights if the dtype has 4 bytes or more.
void check_master_weights(const PipelineOptions& options, const std::string& dtype);

/// JSON object of the options, as a trace stores it under PIPESCOPE_RUN 'configuration'; keys are the fields' names.
std::string to_json(const PipelineOptions& options);
/// Throws UsageError that names the key. Ignores unknown keys; absent ones keep their defaults.
PipelineOptions parse_pipeline_options(const std::string& json);
}  // namespace pipescope
