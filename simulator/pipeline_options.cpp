#include "simulator/pipeline_options.h"

#include "schedule/error.h"
#include "schedule/schedules.h"
#include "schedule/task_graph.h"

#include <algorithm>
#include <array>
#include <charconv>
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

std::string text_of(double value) {
    return std::to_string(value);
}
}  // namespace

int num_lanes(const PipelineOptions& options) {
    return lanes_only(options).num_lanes();
}

std::string device_of(const PipelineOptions& options, LaneId lane) {
    return options.devices.empty() ? "device " + std::to_string(lane.value()) : options.devices.at(lane.index());
}

double speed_of(const PipelineOptions& options, LaneId lane) {
    return options.speeds.empty() ? 1.0 : options.speeds.at(lane.index());
}

double optimizer_state_factor(const std::string& optimizer) {
    struct NamedFactor {
        std::string_view name;
        double factor;
    };
    // torchgpipe's guide for param_scale (documentation of balance_by_size), less the two copies that weights and
    // gradients take.
    constexpr std::array kFactors{
        NamedFactor{"sgd", 0},       // nothing
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
    if (error != std::errc{} || end != optimizer.data() + optimizer.size() || !(factor >= 0 && factor <= 1000)) {
        throw UsageError("optimizer '" + optimizer + "' is not known; it must be " + names +
                         "or the bytes of state per byte of parameter, such as 1.5; use sgd when unsure");
    }
    return factor;
}

void check_options(const PipelineOptions& options, std::size_t num_layers) {
    options.balance.check_covers(num_layers);
    lanes_only(options).check();
    const auto lanes = static_cast<std::size_t>(num_lanes(options));
    const auto require_per_lane = [&](const char* name, std::size_t given) {
        if (given != 0 && given != lanes) {
            throw UsageError(std::string(name) + " names " + std::to_string(given) + " lanes; the pipeline has " +
                             std::to_string(lanes) + "; give one for each lane, or none");
        }
    };
    require_per_lane("devices", options.devices.size());
    require_per_lane("speeds", options.speeds.size());
    for (std::size_t k = 0; k < options.speeds.size(); ++k) {
        if (!(options.speeds[k] > 0) || !std::isfinite(options.speeds[k])) {
            throw UsageError("speeds[" + std::to_string(k) + "] is " + text_of(options.speeds[k]) +
                             "; a speed is a number above 0, 1 being the profiled device; correct it");
        }
    }
    const auto require_link = [](const char* name, double value) {
        if (!(value >= 0) || !std::isfinite(value)) {
            throw UsageError(std::string(name) + " is " + text_of(value) +
                             "; it must be finite and not negative; use 0 for a free link");
        }
    };
    require_link("link.bytes_per_second", options.link.bytes_per_second);
    require_link("link.latency_ns", options.link.latency_ns);
    if (options.memory_limit && *options.memory_limit < 1) {
        throw UsageError("memory_limit is " + std::to_string(*options.memory_limit) +
                         "; a lane needs at least 1 byte; leave it out for no limit");
    }
    if (options.host_cores < 0) {
        throw UsageError("host_cores is " + std::to_string(options.host_cores) +
                         "; it counts cores; use 0 for one for each lane on the host");
    }
    optimizer_state_factor(options.optimizer);
    parse_schedule(options.schedule);
}
}  // namespace pipescope
