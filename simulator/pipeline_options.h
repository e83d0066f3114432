#pragma once

#include "schedule/balance.h"
#include "schedule/checkpoint.h"
#include "schedule/ids.h"
#include "schedule/schedules.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Which copies share bandwidth. Copies that share it get equal parts.
enum class LinkSharing {
    none,    ///< every ordered pair of lanes has its own link
    sender,  ///< all copies that leave one device share its port
    all,     ///< all copies share one bus
};
std::string to_string(LinkSharing sharing);
/// Throws UsageError that lists the names.
LinkSharing parse_link_sharing(const std::string& name);

/// The link between each ordered pair of lanes on different devices; free if both numbers are 0.
struct Link {
    double bytes_per_second = 0;  ///< 0: infinite
    double latency_ns = 0;
    LinkSharing sharing = LinkSharing::none;

    friend bool operator==(const Link&, const Link&) = default;
};

/// The configuration of a run, shared by simulate, run, compare and the viewer's what-if panel.
struct PipelineOptions {
    Balance balance{{1}};
    std::int64_t chunks = 1;
    std::int64_t batch = 1;
    Checkpoint checkpoint = Checkpoint::except_last;
    Schedule schedule = Schedule::gpipe;
    std::vector<LaneId> placement;     ///< lane of each partition; empty: partition j on lane j
    std::vector<std::string> devices;  ///< by lane; empty: all different ("device 0", ..)
    std::vector<double> speeds;        ///< by lane; empty: all 1
    Link link;
    std::optional<Bytes> memory_limit;  ///< for every lane
    std::vector<Bytes> memory_limits;   ///< by lane, if they differ; the smaller of both applies
    std::string optimizer = "sgd";      ///< name, or bytes of state per byte of parameter
    bool master_weights = false;        ///< the optimizer keeps a float32 copy of each parameter, its state in float32
    int host_cores = 0;                 ///< cores that "cpu" lanes share; 0: one per such lane
    BackwardOrder backward_order = BackwardOrder::last_first;  ///< for gpipe
    RecomputeStart recompute_start = RecomputeStart::early;
    int replicas = 1;  ///< copies of the pipeline, each with batch / replicas samples; lanes are those of one copy
    int most_in_flight = 0;            ///< limit of micro-batches between first forward and last backward; 0: none
    bool expandable_segments = false;  ///< setting of an accelerator's caching allocator

    friend bool operator==(const PipelineOptions&, const PipelineOptions&) = default;
};

/// Throws UsageError or BalanceError for the first option that no profile of `num_layers` layers could run with.
void check_options(const PipelineOptions& options, std::size_t num_layers);

/// Number of lanes the options ask for; the device and the speed of one lane.
int num_lanes(const PipelineOptions& options);
std::string device_of(const PipelineOptions& options, LaneId lane);
double speed_of(const PipelineOptions& options, LaneId lane);
/// Limits of the first `lanes` lanes; empty if there is no limit.
std::vector<Bytes> memory_limits_of(const PipelineOptions& options, int lanes);
/// "--memory-limit is 16.00 GiB" or "--memory-limit is 16.00 GiB, 8.00 GiB", for messages. Precondition: there is a
/// limit.
std::string memory_limit_text(const PipelineOptions& options);
/// Samples of one replica's mini-batch: batch / replicas.
std::int64_t replica_batch(const PipelineOptions& options);

// Names as on the command line: last-first and first-first; early and ordinary. Parsing throws UsageError for others.
std::string to_string(BackwardOrder order);
BackwardOrder parse_backward_order(const std::string& name);
std::string to_string(RecomputeStart start);
RecomputeStart parse_recompute_start(const std::string& name);

/// Bytes of optimizer state per byte of parameter. Takes a name from torchgpipe's table (sgd 0, momentum 1, adam 2,
/// amsgrad 3, adadelta 2, adagrad 1, rmsprop 1 to 3) or the number itself. Throws UsageError for anything else.
double optimizer_state_factor(const std::string& optimizer);
/// Like the above, for parameters of that dtype and with master weights. State and copy then take 4 bytes per element,
/// so Adam's for bfloat16 parameters are (2 + 1) * 4 / 2 = 6.
double optimizer_state_factor(const PipelineOptions& options, const std::string& dtype);
/// Throws UsageError for master weights if the dtype has 4 bytes or more.
void check_master_weights(const PipelineOptions& options, const std::string& dtype);

/// JSON object of the options, as a trace stores it under PIPESCOPE_RUN 'configuration'; keys are the fields' names.
std::string to_json(const PipelineOptions& options);
/// Throws UsageError that names the key. Ignores unknown keys; absent ones keep their defaults.
PipelineOptions parse_pipeline_options(const std::string& json);
}  // namespace pipescope
