#include "simulator/pipeline_options.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "profiler/profile/profile.h"
#include "schedule/micro_batches.h"
#include "schedule/placement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace pipescope {
namespace {
PipelineShape lanes_only(const PipelineOptions& options) {
    PipelineShape shape;
    shape.num_partitions = static_cast<int>(options.balance.num_partitions());
    shape.placement = options.placement;
    return shape;
}

constexpr double kMasterBytes = 4;  // a float32

/// Copies of the weights that one pipeline holds.
int copies_in_pipeline(const PipelineOptions& options) {
    return is_bidirectional(options.schedule) ? 2 : 1;
}
}  // namespace

int num_lanes(const PipelineOptions& options) {
    return lanes_only(options).num_lanes();
}

std::vector<LaneId> parse_placement(const std::string& text, const std::string& option) {
    return checked_placement(parse_whole_numbers(text, option, 0));
}

std::vector<LaneId> lanes_of(const PipelineOptions& options, PartitionId partition) {
    std::vector<LaneId> lanes{lane_of(options.placement, partition)};
    if (is_bidirectional(options.schedule)) {
        lanes.emplace_back(
            mirrored<std::int64_t>(partition.value(), static_cast<std::int64_t>(options.balance.num_partitions())));
    }
    return lanes;
}

int num_weight_copies(const PipelineOptions& options) {
    return copies_in_pipeline(options) * (options.weight_copies > 0 ? options.weight_copies : options.replicas);
}

int num_expert_copies(const PipelineOptions& options) {
    return copies_in_pipeline(options) * options.experts.copies;
}

bool sums_gradients(const PipelineOptions& options) {
    return num_weight_copies(options) > 1 || num_expert_copies(options) > 1;
}

std::int64_t replica_batch(const PipelineOptions& options) {
    return options.batch / options.replicas;
}

std::vector<std::int64_t> micro_batch_sizes(const PipelineOptions& options) {
    return micro_batch_sizes(replica_batch(options), options.chunks);
}

double optimizer_state_factor(const std::string& optimizer) {
    struct NamedFactor {
        std::string_view name;
        double factor;
    };
    // torchgpipe's guide for param_scale (documentation of balance_by_size), minus its two copies for weights and
    // gradients.
    constexpr std::array kFactors{
        NamedFactor{"sgd", 0},       // no state
        NamedFactor{"momentum", 1},  // momentum_buffer
        NamedFactor{"adam", 2},      // exp_avg, exp_avg_sq
        NamedFactor{"adamw", 2},
        NamedFactor{"amsgrad", 3},                   // and max_exp_avg_sq
        NamedFactor{"adadelta", 2},                  // square_avg, acc_delta
        NamedFactor{"adagrad", 1},                   // sum
        NamedFactor{"rmsprop", 1},                   // square_avg
        NamedFactor{"rmsprop-momentum", 2},          // and momentum_buffer
        NamedFactor{"rmsprop-centered", 2},          // and grad_avg
        NamedFactor{"rmsprop-centered-momentum", 3}  // both
    };
    std::string names;
    for (const NamedFactor& each : kFactors) {
        if (each.name == optimizer) {
            return each.factor;
        }
        names.append(each.name).append(", ");
    }
    const auto factor = number_in<double>(optimizer);
    if (factor && !(*factor >= 0 && *factor <= 1000)) {
        throw UsageError("optimizer '" + optimizer +
                         "' is a number: the bytes of state per byte of parameter, which are from 0 to 1000; change "
                         "it, or use sgd when unsure");
    }
    if (!factor) {
        throw UsageError("optimizer '" + optimizer + "' is not known; it must be " + names +
                         "or the bytes of state per byte of parameter, such as 1.5; use sgd when unsure");
    }
    return *factor;
}

double optimizer_state_factor(const PipelineOptions& options, const std::string& dtype) {
    const double factor = optimizer_state_factor(options.optimizer);
    return options.master_weights ? (factor + 1) * kMasterBytes / static_cast<double>(dtype_bytes(dtype)) : factor;
}

Bytes OptimizerStates::of(const LayerProfile& layer) const {
    const auto of_experts = static_cast<double>(layer.expert_gradient_bytes);
    return std::llround(usual * (static_cast<double>(layer.gradient_bytes) - of_experts) + experts * of_experts);
}

OptimizerStates optimizer_states(const PipelineOptions& options, const std::string& dtype) {
    const double factor = optimizer_state_factor(options, dtype);
    return {factor, factor * options.experts.state};
}

void check_master_weights(const PipelineOptions& options, const std::string& dtype) {
    if (options.master_weights && static_cast<double>(dtype_bytes(dtype)) >= kMasterBytes) {
        throw UsageError("master weights are asked for of " + dtype +
                         " parameters; they are float32 copies of parameters of 2 bytes; leave them out, or profile "
                         "the model in bfloat16 or float16");
    }
}

void check_replicas(const PipelineOptions& options) {
    if (options.weight_copies < 0) {
        throw UsageError("weight copies are " + std::to_string(options.weight_copies) +
                         "; they count devices; use 0 for one of each replica");
    }
    if (options.experts.copies < 1 || !(options.experts.state >= 0)) {
        throw UsageError("copies of experts are " + std::to_string(options.experts.copies) + " with " +
                         shortest(options.experts.state) +
                         " times the state; at least 1 device holds an expert, and no state is negative; correct it");
    }
    if (const std::size_t links = options.experts.links.size();
        links > 1 && links != static_cast<std::size_t>(num_lanes(options))) {
        throw UsageError("links of experts are " + std::to_string(links) + " for " +
                         counted(num_lanes(options), "lane", "lanes") +
                         "; there is one for each or one for all; correct it");
    }
    for (const Link& link : options.experts.links) {
        check_link(link);
    }
    if (sums_gradients(options) && !is_synchronous(options.schedule)) {
        throw UsageError(option_name("replicas") + " is " + std::to_string(num_weight_copies(options)) +
                         " with schedule " + to_string(options.schedule) +
                         ", which never drains; its gradients would be summed in every period, which is not simulated; "
                         "leave it out");
    }
    if (options.replicas < 1 || options.batch % options.replicas != 0) {
        throw UsageError(option_name("replicas") + " is " + std::to_string(options.replicas) + " for a batch of " +
                         std::to_string(options.batch) +
                         "; each replica, at least 1, takes the same number of samples; use a number that divides the "
                         "batch");
    }
}

void check_update(const PipelineOptions& options) {
    if (options.update == Update::synchronous) {
        return;
    }
    const auto refuse = [](const std::string& why) {
        throw UsageError(option_name("update") + " is staggered with " + why + "; leave it out, or use synchronous");
    };
    if (is_bidirectional(options.schedule)) {
        refuse("schedule " + to_string(options.schedule) +
               ", whose lanes sum the gradients of two copies before any of them updates");
    }
    if (sums_gradients(options)) {
        refuse("replicas " + std::to_string(num_weight_copies(options)) +
               ", whose gradients all lanes sum before any of them updates");
    }
    if (!is_synchronous(options.schedule)) {
        refuse("schedule " + to_string(options.schedule) + ", which never drains and updates as it goes");
    }
    if (options.most_in_flight > 0) {
        refuse("in-flight " + std::to_string(options.most_in_flight) +
               ", which limits micro-batches within one step, but staggered steps overlap");
    }
}

namespace {
void check_in_flight(const PipelineOptions& options) {
    const int most = options.most_in_flight;
    if (most < 0) {
        throw UsageError(option_name("in-flight") + " is " + std::to_string(most) +
                         "; it counts micro-batches; use 0 for no limit");
    }
    const std::int64_t m = std::min(options.chunks, replica_batch(options));
    if (most > 0 && is_bidirectional(options.schedule)) {
        throw UsageError(option_name("in-flight") + " is " + std::to_string(most) + " with schedule " +
                         to_string(options.schedule) +
                         "; it limits micro-batches that enter at one lane, and here they enter at two; leave it out");
    }
    if (most > 0 && options.pair_overlap && pairs_tasks(options.schedule)) {
        throw UsageError(option_name("in-flight") + " is " + std::to_string(most) + " with " +
                         option_name("pair-overlap") +
                         "; lanes then leave their order, and pairs are apart; leave one or the other out");
    }
    if (most > 0 && most < m && !needs_loss_inside(options.schedule)) {
        throw UsageError(option_name("in-flight") + " is " + std::to_string(most) + " with " +
                         counted(m, "micro-batch", "micro-batches") + "; " + to_string(options.schedule) +
                         " holds all of them at its loss; use as many, or another schedule, such as 1f1b");
    }
    if (most > 0 && most < m && waits_for_receiver(options.hardware.link.protocol)) {
        throw UsageError(option_name("in-flight") + " is " + std::to_string(most) + " with the link protocol " +
                         to_string(options.hardware.link.protocol) +
                         "; lanes then leave their order, and may wait for receives "
                         "that nobody posts; use eager, or no limit");
    }
}
}  // namespace

void follow_file(PipelineOptions& options, const GivenShape& given) {
    const Schedule::File* file = options.schedule.file();
    if (file == nullptr) {
        return;
    }
    const auto refuse = [&](const std::string& option, const std::string& value, const std::string& own) {
        throw UsageError(option + " is " + value + "; the schedule " + file->name + " has " + own + "; leave " +
                         option + " out, or use another schedule");
    };
    const PipelineShape& shape = file->shape;
    if (given.chunks && *given.chunks != shape.num_micro_batches) {
        refuse("chunks", std::to_string(*given.chunks),
               counted(shape.num_micro_batches, "micro-batch", "micro-batches"));
    }
    if (given.placement && options.placement != shape.placement) {
        refuse("placement", placement_text(options.placement), "placement " + placement_text(shape.placement));
    }
    if (file->recomputes && given.checkpoint && *given.checkpoint != shape.checkpoint) {
        refuse("checkpoint", to_string(*given.checkpoint),
               "the recomputes (R) of checkpoint " + to_string(shape.checkpoint));
    }
    options.chunks = shape.num_micro_batches;
    const bool fits = options.balance.num_partitions() == shape.placement.size();  // otherwise check_options() refuses
    options.placement =
        fits ? placement_of(options.schedule, shape.placement.size(), static_cast<std::size_t>(shape.num_lanes()))
             : std::vector<LaneId>{};
    options.checkpoint = file->recomputes ? shape.checkpoint : options.checkpoint;
}

void place(PipelineOptions& options) {
    if (!options.placement.empty() || runs_one_partition_a_lane(options.schedule)) {
        return;
    }
    const std::size_t partitions = options.balance.num_partitions();
    const std::size_t devices = options.hardware.devices.size();
    const std::size_t lanes = devices > 0 ? devices : partitions / 2;
    const std::vector<LaneId> placement =
        lanes == 0 ? std::vector<LaneId>{} : placement_of(options.schedule, partitions, lanes);
    if (placement.size() == partitions) {
        options.placement = placement;
    }
}

void check_options(const PipelineOptions& options, std::size_t num_layers) {
    options.balance.check_covers(num_layers);
    PipelineShape shape = lanes_only(options);
    shape.check();
    if (options.schedule.file() || is_bidirectional(options.schedule)) {
        shape.num_micro_batches = static_cast<int>(
            std::clamp<std::int64_t>(std::min(options.chunks, replica_batch(options)), 1, kMostMicroBatches));
        shape.checkpoint = options.checkpoint;
        shape.replicas = std::max(num_weight_copies(options), num_expert_copies(options));
        check_schedule(options.schedule, shape);
    }
    check_hardware(options.hardware, num_lanes(options));
    optimizer_state_factor(options.optimizer);
    check_replicas(options);
    check_update(options);
    check_in_flight(options);
    if (options.gradient_bucket < 0) {
        throw UsageError("gradient bucket is " + std::to_string(options.gradient_bucket) +
                         "; it counts bytes; use 0 to sum gradients once a lane has ended");
    }
    if (options.pair_overlap && !(*options.pair_overlap >= 0 && *options.pair_overlap <= 1)) {
        throw UsageError(option_name("pair-overlap") + " is " + shortest(*options.pair_overlap) +
                         "; it is the share of a pair's shorter task that takes no time, from 0 to 1; change it");
    }
}
}  // namespace pipescope
