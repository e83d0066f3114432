#include "engine/pipeline.h"

#include "engine/task_observer.h"
#include "engine/task_ranges.h"
#include "schedule/gpipe_schedule.h"

#include <ATen/Parallel.h>
#include <c10/core/Device.h>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace pipescope {
namespace {
void check_devices(std::vector<std::string>& devices, std::size_t num_partitions) {
    for (const std::string& name : devices) {
        bool on_cpu = false;
        try {
            on_cpu = c10::Device(name).is_cpu();
        } catch (const c10::Error&) {
            throw EngineError("device \"" + name +
                              "\" is not a device's name; lanes run on the devices there are: cpu; "
                              "write cpu once for each lane");
        }
        if (!on_cpu) {
            throw EngineError("device \"" + name +
                              "\" is not available to lanes; the devices there are: cpu; "
                              "write cpu once for each lane");
        }
    }
    if (devices.size() < num_partitions) {
        throw EngineError("devices names " + std::to_string(devices.size()) + " lanes for " +
                          std::to_string(num_partitions) +
                          " partitions; each partition needs a lane; name more devices or use fewer partitions");
    }
    devices.resize(num_partitions);
}

/// Lanes run side by side and each partition's gradients are written by its own lane, so a parameter has one home.
void check_parameters(const std::vector<ModelLayer>& layers) {
    std::unordered_map<const void*, std::string> owners;
    for (const ModelLayer& layer : layers) {
        std::unordered_map<const void*, std::string> own;
        for (const auto& [name, tensor] : layer.layer->parameters()) {
            own.emplace(tensor.unsafeGetTensorImpl(), layer.key + "." + name);
        }
        for (const auto& [identity, name] : own) {
            const auto [owner, is_new] = owners.emplace(identity, name);
            if (!is_new) {
                throw EngineError("parameter " + name + " is also " + owner->second +
                                  "; layers of a pipeline must not share parameters; copy it or merge the two layers");
            }
        }
    }
}

Balance checked_balance(const GPipeOptions& options, std::size_t num_layers) {
    Balance balance(options.balance);
    balance.check_covers(num_layers);
    return balance;
}

/// One intra-op thread for each lane. at::set_num_threads also sets the default of threads that ask later, so the
/// caller's own number is asked for first and set again; and each lane asks before it sets, since its first question
/// would bring that default back.
std::unique_ptr<Lanes> start_lanes(int count) {
    const int threads_of_caller = at::get_num_threads();
    auto lanes = std::make_unique<Lanes>(count, [] {
        at::get_num_threads();
        at::set_num_threads(1);
    });
    at::set_num_threads(threads_of_caller);
    return lanes;
}
}  // namespace

Pipeline::Pipeline(std::vector<ModelLayer> layers, GPipeOptions options)
    : options_(std::move(options)), balance_(checked_balance(options_, layers.size())) {
    if (options_.chunks < 1) {
        throw UsageError("chunks is " + std::to_string(options_.chunks) +
                         "; a mini-batch is cut into at least 1 micro-batch; use 1 or more");
    }
    check_devices(options_.devices, balance_.num_partitions());
    check_parameters(layers);
    place(std::move(layers));
    prepare_task_ranges();
    lanes_ = start_lanes(static_cast<int>(balance_.num_partitions()));
}

void Pipeline::place(std::vector<ModelLayer> layers) {
    for (std::size_t j = 0; j < balance_.num_partitions(); ++j) {
        const PartitionId id{static_cast<std::int64_t>(j)};
        const LayerRange range = balance_.layers_of(id);
        std::vector<ModelLayer> own;
        for (std::size_t k = range.first.index(); k < range.end.index(); ++k) {
            own.push_back(std::move(layers[k]));
        }
        Partition& partition = partitions_.emplace_back(id, range.first, std::move(own));
        if (options_.deferred_batch_norm) {
            partition.defer_batch_norm();
        }
    }
    if (observer() == nullptr) {
        return;
    }
    for (const Partition& partition : partitions_) {
        for (const ModelLayer& each : partition.layers()) {
            for (const NamedTensors& tensors : {each.layer->parameters(), each.layer->buffers()}) {
                for (const auto& [name, tensor] : tensors) {
                    observer()->placed(tensor, LaneId{partition.id().value()});
                }
            }
        }
    }
}

void Pipeline::train(bool on) {
    training_ = on;
    for (Partition& partition : partitions_) {
        for (ModelLayer& each : partition.layers()) {
            each.layer->train(on);
        }
    }
}

bool Pipeline::has_trainable_parameters() const {
    return std::any_of(partitions_.begin(), partitions_.end(), [](const Partition& each) { return each.trains(); });
}

std::shared_ptr<const TaskGraph> Pipeline::graph(int num_micro_batches) {
    auto& graph = graphs_[num_micro_batches];
    if (!graph) {
        graph =
            std::make_shared<const TaskGraph>(gpipe_schedule({.num_partitions = static_cast<int>(partitions_.size()),
                                                              .num_micro_batches = num_micro_batches,
                                                              .checkpoint = options_.checkpoint}));
    }
    return graph;
}
}  // namespace pipescope
