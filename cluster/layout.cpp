#include "cluster/layout.h"

#include "balance/contiguous_partition.h"
#include "schedule/error.h"
#include "schedule/printable.h"
#include "schedule/quantities.h"
#include "simulator/balance_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
[[noreturn]] void refuse(const std::string& value, const std::string& rule, const std::string& remedy) {
    throw UsageError("layout " + value + "; " + rule + "; " + remedy);
}

void check_count(const char* name, std::int64_t count) {
    if (count < 1) {
        refuse(std::string(name) + " is " + std::to_string(count), "each count is at least 1", "correct it");
    }
}

bool is_mixed(const std::string& dtype) {
    return dtype_bytes(dtype) < 4;
}

/// Bytes of optimizer state a parameter: Adam's two moments, and a float32 copy of a shorter parameter.
double state_bytes(const Layout& layout) {
    constexpr double kMoments = 8;
    return kMoments + (is_mixed(layout.dtype) ? 4 : 0);
}

/// The options' optimizer, as bytes of state per byte of gradient on this replica.
std::string optimizer_of(const Layout& layout) {
    const double share = layout.zero == 1 ? layout.data : 1;  // from 2 on gradients are split too
    return shortest(state_bytes(layout) / layout.gradient_bytes / share);
}

/// The link with messages of `factor` times the size taking the same time.
Link for_sizes(Link link, double factor) {
    link.bytes_per_second *= factor;
    for (LinkTime& time : link.times) {
        time.bytes = std::llround(static_cast<double>(time.bytes) * factor);
    }
    return link;
}

/// The link on which an all-reduce of a lane's gradient_bytes takes what replicas take to sum their gradients. ZeRO
/// sums parts of them, and gathers the parameters, whose shards its replicas update.
Link replica_link_of(const Cluster& cluster, const NodeGroup& group, const Layout& layout) {
    const Link ring = ring_link(cluster, group, layout.data, layout.tensor);
    const auto element = static_cast<double>(dtype_bytes(layout.dtype));
    const double gradient = layout.gradient_bytes;
    const double sent = layout.zero == 0  ? gradient
                        : layout.zero < 3 ? (gradient + element) / 2
                                          : gradient / 2;  // parameters were gathered by the layers
    const double counted = layout.zero >= 2 ? gradient / layout.data : gradient;
    return for_sizes(ring, counted / sent);
}

/// A copy of `bytes` between two lanes: each tensor-parallel rank sends its part, and the receivers gather it.
Link hop_link(const Link& base, const NodeGroup& group, const Layout& layout, double bytes) {
    const bool gathers = layout.tensor > 1 && !layout.sequence_parallel;
    const double part = gathers ? bytes / layout.tensor : bytes;
    const double ns = base.message_ns(part) + (gathers ? all_gather_ns(group.link, layout.tensor, bytes) : 0);
    Link link;
    link.sends = layout.sends;
    link.latency_ns = std::min(base.least_ns(), ns);
    const double moving = ns - link.latency_ns;
    link.bytes_per_second = moving > 0 ? bytes / moving * 1e9 : 0;
    return link;
}

void set_links(Hardware& hardware, const Cluster& cluster, const NodeGroup& group, const Layout& layout, double bytes) {
    const std::int64_t stage = static_cast<std::int64_t>(layout.data) * layout.tensor;  // devices
    const std::int64_t lanes_a_node = group.devices_per_node / stage;
    const bool in_one_node = stage * layout.pipeline <= group.devices_per_node;
    const Link inside = hop_link(group.link, group, layout, bytes);
    if (in_one_node) {
        hardware.link = inside;
        return;
    }
    if (lanes_a_node > 1) {
        hardware.nearer.push_back({static_cast<int>(lanes_a_node), inside});
    }
    hardware.link = hop_link(node_link(cluster, group), group, layout, bytes);
    if (cluster.racks) {
        const std::int64_t lanes_a_rack =
            static_cast<std::int64_t>(cluster.racks->nodes) * group.devices_per_node / stage;
        if (lanes_a_rack < layout.pipeline) {
            if (lanes_a_rack > std::max<std::int64_t>(1, lanes_a_node)) {
                hardware.nearer.push_back({static_cast<int>(lanes_a_rack), hardware.link});
            }
            hardware.link = hop_link(rack_link(cluster, group), group, layout, bytes);
        }
    }
}

/// Even numbers of blocks with the embedding before and the output layer behind, or the smallest largest partition.
Balance cuts(const Profile& profile, int partitions) {
    const auto blocks = static_cast<std::int64_t>(profile.layers.size()) - 2;
    if (blocks % partitions == 0) {
        std::vector<std::int64_t> layers(static_cast<std::size_t>(partitions), blocks / partitions);
        ++layers.front();
        ++layers.back();
        return Balance(layers);
    }
    std::vector<double> costs;
    for (const LayerProfile& layer : profile.layers) {
        costs.push_back(layer.forward_ns.front() + layer.backward_ns.front());
    }
    return minmax_partition(costs, partitions);
}

/// Bytes that go from lane to lane.
double boundary_bytes(const Profile& profile, double samples) {
    double most = 1;
    for (std::size_t l = 0; l + 1 < profile.layers.size(); ++l) {
        most = std::max(most, interpolate(profile.samples, profile.layers[l].output_bytes, samples).value);
    }
    return most;
}

Schedule schedule_of(const Layout& layout) {
    return layout.schedule.value_or(layout.interleave > 1 ? Schedule::interleaved_1f1b : Schedule::one_f_one_b);
}

void set_pipeline(PipelineOptions& options, const Layout& layout) {
    options.chunks = layout.micro_batches();
    options.batch = layout.batch;
    options.replicas = layout.data;
    options.schedule = schedule_of(layout);
    if (layout.interleave > 1) {
        const auto partitions = static_cast<std::size_t>(layout.pipeline) * static_cast<std::size_t>(layout.interleave);
        options.placement = placement_of(options.schedule, partitions, static_cast<std::size_t>(layout.pipeline));
        for (std::size_t j = 0; options.placement.size() < partitions; ++j) {  // auto: dealt out in turn
            options.placement.push_back(LaneId{static_cast<std::int64_t>(j) % layout.pipeline});
        }
    }
}

/// Time of Adam's update of the largest lane's parameters.
double adam_ns(const Simulation& simulation, const NodeGroup& group, const Layout& layout) {
    const auto element = static_cast<double>(dtype_bytes(layout.dtype));
    std::vector<double> parameters(simulation.lanes.size());
    for (const SimulatedPartition& partition : simulation.partitions) {
        parameters[partition.lane.index()] += static_cast<double>(partition.parameter_bytes) / element;
    }
    const double most = *std::ranges::max_element(parameters) * (layout.zero >= 3 ? layout.data : 1);
    // The gradient is read for its norm and for the update; states and copy are read and written; the parameter is
    // written.
    const double bytes = 2.0 * layout.gradient_bytes + 2 * state_bytes(layout) + element;
    const double mine = most / (layout.zero >= 1 ? layout.data : 1);
    return estimated_ns(group.device, "float32", DeviceWork{0, mine * bytes, 1});
}
}  // namespace

std::string to_string(const Layout& layout) {
    return "p" + std::to_string(layout.pipeline) + " d" + std::to_string(layout.data) + " t" +
           std::to_string(layout.tensor) + " v" + std::to_string(layout.interleave) + " b" +
           std::to_string(layout.micro_batch_size);
}

void check_layout(const Layout& layout, const NodeGroup& group) {
    check_count("pipeline", layout.pipeline);
    check_count("data-parallel", layout.data);
    check_count("tensor-parallel", layout.tensor);
    check_count("interleave", layout.interleave);
    check_count("micro-batch-size", layout.micro_batch_size);
    check_count("batch", layout.batch);
    constexpr std::int64_t kMostPartitionsOfAll = 4096;
    if (static_cast<std::int64_t>(layout.pipeline) * layout.interleave > kMostPartitionsOfAll) {
        refuse(to_string(layout) + " has more than 4096 partitions", "a pipeline has at most that many",
               "use fewer lanes, or less interleaving");
    }
    const double devices = static_cast<double>(layout.pipeline) * layout.data * layout.tensor;
    if (devices > group.devices()) {
        refuse(to_string(layout) + " needs " + shortest(devices) + " devices",
               "the cluster has " + counted(group.devices(), "device", "devices") + " of type " + group.device.name,
               "use fewer lanes, replicas or tensor-parallel ranks");
    }
    constexpr std::int64_t kMostSamples = std::int64_t{1} << 40;
    if (layout.micro_batch_size > kMostSamples || layout.batch > kMostSamples) {
        refuse("batch is " + std::to_string(layout.batch), "a batch has at most 2^40 samples", "use a smaller one");
    }
    if (layout.batch % (layout.micro_batch_size * layout.data) != 0) {
        refuse("batch is " + std::to_string(layout.batch),
               "it must be a multiple of replicas times micro-batch size, " +
                   std::to_string(layout.micro_batch_size * layout.data),
               "change one of the three");
    }
    if (layout.zero < 0 || layout.zero > 3) {
        refuse("zero is " + std::to_string(layout.zero), "ZeRO has stages 0 to 3", "correct it");
    }
    if (layout.gradient_bytes != 2 && layout.gradient_bytes != 4) {
        refuse("gradient-bytes is " + std::to_string(layout.gradient_bytes), "a gradient takes 2 or 4 bytes",
               "correct it");
    }
    if (layout.sequence_parallel && layout.tensor == 1) {
        refuse("has sequence parallelism with one tensor-parallel rank", "such ranks split the tokens among them",
               "leave it out");
    }
    if (layout.interleave > 1 && runs_one_partition_a_lane(schedule_of(layout)) &&
        schedule_of(layout) != Schedule::automatic) {
        refuse(
            "interleave is " + std::to_string(layout.interleave) + " with schedule " + to_string(schedule_of(layout)),
            "that schedule runs one partition a lane", "use interleaved, or leave one of both out");
    }
}

void check_layout(const LanguageModel& model, const Layout& layout, const NodeGroup& group) {
    check_layout(layout, group);
    const auto check = [&](const char* name, std::int64_t number) {
        if (number % layout.tensor != 0) {
            refuse("tensor-parallel is " + std::to_string(layout.tensor),
                   "it must divide the model's " + std::string(name) + ", " + std::to_string(number),
                   "use another number of ranks");
        }
    };
    check("heads", model.heads);
    check("mlp", model.mlp);
    if (model.kv_heads % layout.tensor != 0 && layout.tensor % model.kv_heads != 0) {
        check("kv_heads", model.kv_heads);
    }
    if (layout.sequence_parallel) {
        check("sequence", model.sequence);
    }
    const std::int64_t partitions = static_cast<std::int64_t>(layout.pipeline) * layout.interleave;
    if (partitions > model.layers) {
        refuse("has " + counted(partitions, "partition", "partitions"),
               "each holds at least one of the model's " + counted(model.layers, "block", "blocks"),
               "use fewer lanes, or less interleaving");
    }
}

PipelineOptions layout_options(const Profile& profile, const Cluster& cluster, const NodeGroup& group,
                               const Layout& layout) {
    PipelineOptions options;
    set_pipeline(options, layout);
    options.balance = cuts(profile, layout.pipeline * layout.interleave);
    options.checkpoint = Checkpoint::never;  // what is recomputed is part of the layers' times
    options.optimizer = optimizer_of(layout);
    options.hardware.memory_limit = group.device.memory_bytes;
    if (layout.data > 1) {
        options.hardware.replica_link = replica_link_of(cluster, group, layout);
    }
    set_links(options.hardware, cluster, group, layout,
              boundary_bytes(profile, static_cast<double>(layout.micro_batch_size)));
    return options;
}

double LayoutStep::tflops_per_device() const {
    return model_flops / step_ns() * 1e9 / layout.devices() / 1e12;
}

double LayoutStep::hardware_tflops_per_device() const {
    return (model_flops + recomputed_flops) / step_ns() * 1e9 / layout.devices() / 1e12;
}

LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                           const Layout& layout, const SimulationDetail& detail) {
    check_layout(model, layout, group);
    LayoutStep step;
    step.layout = layout;
    step.device = group.device.name;
    step.profile = language_model_profile(model, cluster, group, layout);
    step.simulation = simulate(step.profile, layout_options(step.profile, cluster, group, layout), detail);
    step.optimizer_ns = adam_ns(step.simulation, group, layout);
    if (model.tied && layout.pipeline > 1) {
        const int stride = layout.data * layout.tensor * (layout.pipeline - 1);
        step.tied_ns = all_reduce_ns(ring_link(cluster, group, 2, stride), 2,
                                     embedding_weights(model) / layout.tensor * layout.gradient_bytes);
    }
    const auto batch = static_cast<double>(layout.batch);
    step.model_flops = step_flops(model, batch);
    const double blocks = static_cast<double>(model.layers);
    const auto s = static_cast<double>(model.sequence);
    step.recomputed_flops = layout.recompute == Recompute::full ? blocks * block_flops(model, batch)
                            : layout.recompute == Recompute::selective
                                ? blocks * 4 * s * s * static_cast<double>(model.hidden) * batch
                                : 0;
    step.tokens = batch * s;
    const BlockExtras extras = block_extras(model, cluster, group, layout);
    double work = 0;
    for (const LayerProfile& layer : step.profile.layers) {
        work += layer.forward_ns.front() + layer.backward_ns.front();
    }
    step.recompute_share = blocks * extras.recompute / work;
    step.collective_share = blocks * extras.collectives / work;
    return step;
}

Profile on_device(const Profile& profile, const NodeGroup& group) {
    const bool has_flops = std::ranges::any_of(profile.layers, [](const LayerProfile& layer) {
        return std::ranges::any_of(layer.flops, [](double flops) { return flops > 0; });
    });
    return has_flops && profile.device != group.device.name ? retimed(profile, group.device) : profile;
}

LayoutStep simulate_layout(const Profile& profile, const PipelineOptions& given, const Cluster& cluster,
                           const NodeGroup& group, const Layout& layout, const SimulationDetail& detail) {
    check_layout(layout, group);
    if (layout.tensor != 1 || layout.zero != 0 || layout.sequence_parallel) {
        refuse(to_string(layout) + " splits the layers of a profile", "a profile's costs are those of whole layers",
               "use pipeline and data parallelism only");
    }
    LayoutStep step;
    step.layout = layout;
    step.device = group.device.name;
    step.profile = on_device(profile, group);
    const Profile& here = step.profile;
    PipelineOptions options = given;
    set_pipeline(options, layout);
    options.hardware = {};
    options.hardware.memory_limit = profile.memory_unknown ? std::nullopt : std::optional(group.device.memory_bytes);
    if (layout.data > 1) {
        options.hardware.replica_link = ring_link(cluster, group, layout.data, 1);
    }
    set_links(options.hardware, cluster, group, layout,
              boundary_bytes(here, static_cast<double>(layout.micro_batch_size)));
    const int partitions = layout.pipeline * layout.interleave;
    if (given.balance.num_partitions() == 1 && partitions > 1) {
        std::vector<double> costs;
        for (const LayerProfile& layer : here.layers) {
            const auto at = static_cast<double>(layout.micro_batch_size);
            costs.push_back(interpolate(here.samples, layer.forward_ns, at).value +
                            interpolate(here.samples, layer.backward_ns, at).value);
        }
        options.balance = minmax_partition(costs, partitions);
    } else if (partitions == 1) {
        options.balance = Balance({static_cast<std::int64_t>(here.layers.size())});
    }
    step.simulation = simulate(here, options, detail);
    step.optimizer_ns = here.optimizer_ns / layout.pipeline;
    step.model_flops = step.simulation.flops ? step.simulation.flops->step : 0;
    return step;
}
}  // namespace pipescope
