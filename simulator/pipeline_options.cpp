#include "simulator/pipeline_options.h"

#include "balance/profile.h"
#include "schedule/error.h"
#include "schedule/printable.h"
#include "schedule/quantities.h"
#include "schedule/schedules.h"
#include "schedule/task_graph.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
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

std::string text_of(double value) {
    return shortest(value);
}

/// The value among `all` that has this name.
template <class Value, std::size_t count>
Value parse_name(const char* option, const std::string& name, const std::array<Value, count>& all) {
    std::string known;
    for (const Value value : all) {
        if (to_string(value) == name) {
            return value;
        }
        known += (known.empty() ? "" : ", ") + to_string(value);
    }
    throw UsageError(std::string(option) + " is '" + name + "'; it must be one of " + known + "; leave it out for " +
                     to_string(all.front()));
}
}  // namespace

std::string to_string(LinkSharing sharing) {
    switch (sharing) {
        case LinkSharing::none: return "none";
        case LinkSharing::sender: return "sender";
        case LinkSharing::all: return "all";
    }
    return "unknown";
}
LinkSharing parse_link_sharing(const std::string& name) {
    return parse_name("link sharing", name, std::array{LinkSharing::none, LinkSharing::sender, LinkSharing::all});
}

std::string to_string(BackwardOrder order) {
    return order == BackwardOrder::last_first ? "last-first" : "first-first";
}
BackwardOrder parse_backward_order(const std::string& name) {
    return parse_name("backward order", name, std::array{BackwardOrder::last_first, BackwardOrder::first_first});
}

std::string to_string(RecomputeStart start) {
    return start == RecomputeStart::early ? "early" : "ordinary";
}
RecomputeStart parse_recompute_start(const std::string& name) {
    return parse_name("recompute", name, std::array{RecomputeStart::early, RecomputeStart::ordinary});
}

int num_lanes(const PipelineOptions& options) {
    return lanes_only(options).num_lanes();
}

std::string device_of(const PipelineOptions& options, LaneId lane) {
    return options.devices.empty() ? "device " + std::to_string(lane.value()) : options.devices.at(lane.index());
}

double speed_of(const PipelineOptions& options, LaneId lane) {
    return options.speeds.empty() ? 1.0 : options.speeds.at(lane.index());
}

std::vector<Bytes> memory_limits_of(const PipelineOptions& options, int lanes) {
    constexpr Bytes kAny = std::numeric_limits<Bytes>::max();
    if (!options.memory_limit && options.memory_limits.empty()) {
        return {};
    }
    std::vector<Bytes> limits = options.memory_limits;
    limits.resize(static_cast<std::size_t>(lanes), kAny);
    for (Bytes& limit : limits) {
        limit = std::min(limit, options.memory_limit.value_or(kAny));
    }
    return limits;
}

std::string memory_limit_text(const PipelineOptions& options) {
    if (options.memory_limits.empty()) {
        return "--memory-limit is " + format_bytes(*options.memory_limit);
    }
    std::string text;
    for (const Bytes limit : memory_limits_of(options, static_cast<int>(options.memory_limits.size()))) {
        text += (text.empty() ? "--memory-limit is " : ", ") + format_bytes(limit);
    }
    return text;
}

std::int64_t replica_batch(const PipelineOptions& options) {
    return options.batch / options.replicas;
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
    double factor = 0;
    const auto [end, error] = std::from_chars(optimizer.data(), optimizer.data() + optimizer.size(), factor);
    const bool is_number = error == std::errc{} && end == optimizer.data() + optimizer.size();
    if (is_number && !(factor >= 0 && factor <= 1000)) {
        throw UsageError("optimizer '" + optimizer +
                         "' is a number: the bytes of state per byte of parameter, which are from 0 to 1000; change "
                         "it, or use sgd when unsure");
    }
    if (!is_number) {
        throw UsageError("optimizer '" + optimizer + "' is not known; it must be " + names +
                         "or the bytes of state per byte of parameter, such as 1.5; use sgd when unsure");
    }
    return factor;
}

double optimizer_state_factor(const PipelineOptions& options, const std::string& dtype) {
    const double factor = optimizer_state_factor(options.optimizer);
    return options.master_weights ? (factor + 1) * kMasterBytes / static_cast<double>(dtype_bytes(dtype)) : factor;
}

void check_master_weights(const PipelineOptions& options, const std::string& dtype) {
    if (options.master_weights && static_cast<double>(dtype_bytes(dtype)) >= kMasterBytes) {
        throw UsageError("master weights are asked for of " + dtype +
                         " parameters; they are float32 copies of parameters of 2 bytes; leave them out, or profile "
                         "the model in bfloat16 or float16");
    }
}

namespace {
void check_replicas(const PipelineOptions& options) {
    if (options.replicas > 1 && !is_synchronous(options.schedule)) {
        throw UsageError("--replicas is " + std::to_string(options.replicas) + " with schedule " +
                         to_string(options.schedule) +
                         ", which never drains; its gradients would be summed in every period, which is not simulated; "
                         "leave --replicas out");
    }
    if (options.replicas < 1) {
        throw UsageError("replicas is " + std::to_string(options.replicas) +
                         "; it counts pipelines that run side by side; use 1 for one");
    }
    if (options.batch % options.replicas != 0) {
        throw UsageError("replicas is " + std::to_string(options.replicas) + " for a batch of " +
                         std::to_string(options.batch) +
                         "; each replica takes the same number of samples; use a batch that can be divided by it");
    }
}

void check_in_flight(const PipelineOptions& options, Schedule schedule) {
    const int most = options.most_in_flight;
    if (most < 0) {
        throw UsageError("--in-flight is " + std::to_string(most) + "; it counts micro-batches; use 0 for no limit");
    }
    const std::int64_t m = std::min(options.chunks, replica_batch(options));
    if (most > 0 && most < m && !needs_loss_inside(schedule)) {
        throw UsageError("--in-flight is " + std::to_string(most) + " with " +
                         counted(m, "micro-batch", "micro-batches") + "; " + to_string(schedule) +
                         " holds all of them at its loss; use as many, or another schedule, such as 1f1b");
    }
}
}  // namespace

void check_options(const PipelineOptions& options, std::size_t num_layers) {
    options.balance.check_covers(num_layers);
    lanes_only(options).check();
    const auto lanes = static_cast<std::size_t>(num_lanes(options));
    const auto require_per_lane = [&](const char* option, std::size_t given) {
        if (given != 0 && given != lanes) {
            throw UsageError(std::string(option) + " names " + counted(given, "lane", "lanes") + "; the pipeline has " +
                             std::to_string(lanes) + "; give one for each lane, or none");
        }
    };
    require_per_lane("--devices", options.devices.size());
    require_per_lane("--speed", options.speeds.size());
    require_per_lane("--memory-limit", options.memory_limits.size());
    for (std::size_t k = 0; k < options.speeds.size(); ++k) {
        if (!(options.speeds[k] > 0) || !std::isfinite(options.speeds[k])) {
            throw UsageError("the speed of lane " + std::to_string(k) + " is " + text_of(options.speeds[k]) +
                             "; a speed is a number above 0, 1 being the profiled device; correct it");
        }
    }
    const auto require_link = [](const char* name, double value) {
        if (!(value >= 0) || !std::isfinite(value)) {
            throw UsageError(std::string(name) + " is " + text_of(value) +
                             "; it must be finite and not negative; use 0 for a free link");
        }
    };
    require_link("the link bandwidth", options.link.bytes_per_second);
    require_link("the link latency", options.link.latency_ns);
    if (options.memory_limit && *options.memory_limit < 1) {
        throw UsageError("the memory limit is " + counted(*options.memory_limit, "byte", "bytes") +
                         "; a lane needs at least 1; leave --memory-limit out for no limit");
    }
    for (std::size_t k = 0; k < options.memory_limits.size(); ++k) {
        if (options.memory_limits[k] < 1) {
            throw UsageError("the memory limit of lane " + std::to_string(k) + " is " +
                             counted(options.memory_limits[k], "byte", "bytes") +
                             "; a lane needs at least 1; leave --memory-limit out for no limit");
        }
    }
    if (options.host_cores < 0) {
        throw UsageError("--cores is " + std::to_string(options.host_cores) +
                         "; it counts cores; use 0 for one for each lane on the host");
    }
    optimizer_state_factor(options.optimizer);
    check_replicas(options);
    check_in_flight(options, options.schedule);
}
}  // namespace pipescope
