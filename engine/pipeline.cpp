#include "engine/pipeline.h"

#include "base/quantities.h"
#include "engine/current_task.h"
#include "engine/lanes/task_ranges.h"
#include "engine/model_layers.h"
#include "engine/processes/device_plugins.h"
#include "engine/random.h"
#include "engine/task_observer.h"
#include "schedule/placement.h"
#include "schedule/schedules.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

namespace pipescope {
namespace {
// Inference forwards must not repeat the random numbers of training steps, which count from 0.
constexpr std::int64_t kFirstInference = std::int64_t{1} << 40;

/// Lane of each partition: as requested, else as the schedule needs it on this number of devices.
std::vector<LaneId> placement_of(const GPipeOptions& options, std::size_t num_partitions) {
    const std::vector<LaneId> placement = checked_placement(options.placement);
    if (!placement.empty() || runs_one_partition_a_lane(options.schedule)) {
        return placement;
    }
    const std::size_t lanes = options.devices.size();
    const bool has_own_lanes = options.schedule.file() != nullptr;
    if (!has_own_lanes && (lanes == 0 || num_partitions % lanes != 0 || num_partitions == lanes)) {
        throw UsageError("devices names " + counted(lanes, "lane", "lanes") + " for " +
                         counted(num_partitions, "partition", "partitions") + "; the schedule " +
                         to_string(options.schedule) +
                         " runs two or more partitions on each lane, the same "
                         "number on all; name a half, a third, .. as many devices as partitions");
    }
    return placement_of(options.schedule, num_partitions, lanes);
}

std::string checksum_of(const Schedule& schedule) {
    const Schedule::File* file = schedule.file();
    return file != nullptr ? std::to_string(std::hash<std::string>{}(to_csv(file->table))) : "none";
}

/// As many micro-batches as the schedule can run on these lanes.
PipelineShape with_example_micro_batches(PipelineShape shape, const Schedule& schedule) {
    const Schedule::File* file = schedule.file();
    shape.num_micro_batches = file != nullptr ? file->shape.num_micro_batches : 2 * shape.num_lanes();
    return shape;
}

/// With the driver autograd, torch's engine adds to all gradients, one after the other: as if on one lane.
std::vector<LaneId> placement_of_gradients(const GPipeOptions& options, const std::vector<LaneId>& placement,
                                           std::size_t num_partitions) {
    return options.driver == Driver::autograd ? std::vector<LaneId>(num_partitions) : placement;
}

PipelineShape shape_of(const GPipeOptions& options, const Balance& balance, const SkipLayout& skips,
                       const SharedParameters& shared) {
    const std::vector<LaneId> placement = placement_of(options, balance.num_partitions());
    PipelineShape shape{.num_partitions = static_cast<int>(balance.num_partitions()),
                        .num_micro_batches = 1,
                        .checkpoint = options.checkpoint,
                        .placement = placement,
                        .skips = skips.routes(),
                        .shared = shared_routes(shared.layers(), balance,
                                                placement_of_gradients(options, placement, balance.num_partitions())),
                        .replicas = options.replicas};
    shape.check();
    // Checks here whether the schedule accepts the placement; each step checks its number of micro-batches.
    check_schedule(options.schedule, with_example_micro_batches(shape, options.schedule));
    return shape;
}

void check_devices(std::vector<std::string>& devices, const PipelineShape& shape) {
    const auto lanes = static_cast<std::size_t>(shape.num_lanes());
    if (devices.size() < lanes) {
        throw EngineError("devices names " + counted(devices.size(), "lane", "lanes") + " for " +
                          (shape.placement.empty()
                               ? counted(lanes, "partition", "partitions") + "; each partition needs a lane"
                               : "a placement on " + std::to_string(lanes)) +
                          "; name more devices or use fewer partitions");
    }
    devices.resize(lanes);
}

void check_chunks(std::int64_t chunks) {
    if (chunks < 1) {
        throw UsageError("chunks is " + std::to_string(chunks) +
                         "; a mini-batch is cut into at least 1 micro-batch; use 1 or more");
    }
}

Balance checked_balance(const GPipeOptions& options, std::size_t num_layers) {
    const Balance balance = [&options] {
        try {
            return Balance(options.balance);
        } catch (const BalanceError& error) {
            throw BalanceError(std::string(error.what()) + ", or let 'pipescope balance' find one");
        }
    }();
    balance.check_covers(num_layers);  // its message names that remedy itself
    return balance;
}

/// Needed because an enum may hold any number that was cast to it.
template <class Enum>
void check_is_one_of(const std::string& option, Enum value, const std::vector<Enum>& values, const std::string& names) {
    if (std::find(values.begin(), values.end(), value) == values.end()) {
        throw UsageError(option + " is " + std::to_string(static_cast<int>(value)) + "; it must be " + names +
                         "; use one of them");
    }
}

void check_enums(const GPipeOptions& options) {
    check_is_one_of("checkpoint", options.checkpoint, {Checkpoint::always, Checkpoint::except_last, Checkpoint::never},
                    "always, except_last or never");
    check_is_one_of("reduction", options.reduction, {Reduction::mean, Reduction::sum}, "mean or sum");
    if (options.weight && options.reduction == Reduction::sum) {
        throw UsageError(
            "a weight is given with reduction sum; losses of micro-batches add up without weights then; leave out the "
            "weight, or use reduction mean");
    }
    check_is_one_of("driver", options.driver, {Driver::scheduled, Driver::autograd}, "scheduled or autograd");
    if (!options.schedule.file()) {
        std::vector<Schedule::Name> names;
        for (const Schedule& each : all_schedules()) {
            names.push_back(each.name());
        }
        check_is_one_of("schedule", options.schedule.name(), names, "a name of Schedule, such as one_f_one_b");
    }
}

/// Checks everything that needs neither balance nor devices.
const std::vector<ModelLayer>& checked_layers(const GPipeOptions& options, const std::vector<ModelLayer>& layers) {
    check_chunks(options.chunks);
    check_enums(options);
    check_device_messages(options.device_messages);
    if (is_for_comparison_only(options.schedule)) {
        throw UsageError("the schedule is " + to_string(options.schedule) +
                         ", which only the simulator runs; a model can run " + runnable_schedule_names(", ") +
                         " or a file; use one of them" + nearest_runnable_text(options.schedule));
    }
    verify_skippables(declared_skips(layers));
    if (options.driver == Driver::autograd && options.schedule != Schedule::gpipe) {
        throw UsageError("schedule is " + to_string(options.schedule) +
                         " with driver autograd; an order hidden in the autograd graph can only be GPipe's; use "
                         "driver scheduled");
    }
    if (options.replicas != 1 && !(options.processes && options.processes->size() > 1)) {
        throw UsageError("the replicas are " + std::to_string(options.replicas) +
                         " in one process; each is a pipeline in its own processes; use 1, or set processes");
    }
    if (options.driver == Driver::autograd && options.processes && options.processes->size() > 1) {
        throw UsageError("the driver is autograd in " + std::to_string(options.processes->size()) +
                         " processes; torch's graph cannot cross from one to another; use driver scheduled");
    }
    if (options.driver == Driver::autograd && !options.placement.empty()) {
        throw UsageError(
            "a placement is given with driver autograd, which runs partition j on lane j; leave it out, or use driver "
            "scheduled");
    }
    return layers;
}

/// One intra-op thread per lane. at::set_num_threads also sets the default for threads that ask later, so the thread
/// that starts lanes asks for its own number first and sets it again. Each lane asks before it sets, since its first
/// query would restore that default. In a forked child, torch replaces its thread pool when a number is set next. Lanes
/// may not do that at once, so this thread sets its number before them, too.
void start_with_own_threads(const std::function<void()>& start) {
    const int threads_of_caller = at::get_num_threads();
    at::set_num_threads(threads_of_caller);
    start();
    at::set_num_threads(threads_of_caller);
}

std::unique_ptr<Lanes> start_lanes(const std::vector<LaneId>& here) {
    std::unique_ptr<Lanes> lanes;
    start_with_own_threads([&] {
        lanes = std::make_unique<Lanes>(here, [] {
            at::get_num_threads();
            at::set_num_threads(1);
        });
    });
    return lanes;
}

void name_streams(const PipelineDevices& devices, int num_lanes) {
    for (int k = 0; k < num_lanes; ++k) {
        const LaneDevice& lane = devices.of(LaneId{k});
        if (lane.device().is_cuda()) {
            name_cuda_stream_for_profilers(lane.stream()->native_handle(), "lane " + std::to_string(k));
        }
    }
}
}  // namespace

Pipeline::Pipeline(std::vector<ModelLayer> layers, GPipeOptions options)
    : options_(std::move(options)),
      split_(std::make_shared<const MiniBatchSplit>(options_.split)),
      balance_(checked_balance(options_, checked_layers(options_, layers).size())),
      skips_(declared_skips(layers), balance_, placement_of(options_, balance_.num_partitions())),
      shared_(options_.shared, layers),
      shape_(shape_of(options_, balance_, skips_, shared_)) {
    check_devices(options_.devices, shape_);
    connect(layers.size());
    // To this process, a lane of another is memory of the host that is sent there.
    std::vector<std::string> devices = options_.devices;
    std::vector<LaneId> here;
    for (std::size_t k = 0; k < devices.size(); ++k) {
        if (is_here(LaneId{k})) {
            here.push_back(LaneId{k});
        } else {
            devices[k] = "cpu";
        }
    }
    devices_ = std::make_unique<PipelineDevices>(
        devices, options_.driver == Driver::scheduled || options_.autograd.copy_streams);
    if (channels_) {
        channels_->connect_devices(*devices_, options_.device_messages);
    }
    std::vector<bool> on_host = devices_->lanes_on_host();
    for (std::size_t k = 0; k < devices.size(); ++k) {
        if (is_here(LaneId{k})) {
            options_.devices[k] = devices_->of(LaneId{k}).device().str();
        } else {
            on_host[k] = false;
        }
    }
    core_scheduler_ = CoreScheduler::for_lanes(on_host, options_.host_cores);
    place(std::move(layers));
    prepare_task_ranges();
    prepare_random();
    name_streams(*devices_, shape_.num_lanes());
    lanes_ = start_lanes(here);
}

/// Joins the other processes' lanes, once all agree on what they run.
void Pipeline::connect(std::size_t num_layers) {
    const std::shared_ptr<Processes>& processes = options_.processes;
    if (!processes || processes->size() == 1) {
        return;
    }
    const std::string placement = placement_text(shape_.placement);
    processes->agree({{"the number of layers", std::to_string(num_layers)},
                      {"the balance", to_string(balance_)},
                      {"the number of lanes", std::to_string(shape_.num_lanes())},
                      {"the placement", placement.empty() ? "none" : placement},
                      {"chunks", std::to_string(options_.chunks)},
                      {"checkpoint", to_string(options_.checkpoint)},
                      {"the schedule", to_string(options_.schedule)},
                      {"the checksum of the schedule's cells", checksum_of(options_.schedule)},
                      {"the reduction", options_.reduction == Reduction::mean ? "mean" : "sum"},
                      {"whether there is a weight", options_.weight ? "true" : "false"},
                      {"deferred_batch_norm", options_.deferred_batch_norm ? "true" : "false"},
                      {"the seed", std::to_string(options_.seed)},
                      {"the replicas", std::to_string(options_.replicas)},
                      {"the shared parameters", shared_.text()},
                      {"device_messages", options_.device_messages}});
    channels_ = std::make_unique<LaneChannels>(
        processes, make_schedule(options_.schedule, with_example_micro_batches(shape_, options_.schedule)),
        adds_over_replicas() ? Reduction::sum : Reduction::mean);
}

IsLayerHere layers_here(const GPipeOptions& options, std::size_t num_layers) {
    if (!options.processes || options.processes->size() == 1) {
        return {};
    }
    const Balance balance = checked_balance(options, num_layers);
    const std::vector<LaneId> placement = placement_of(options, balance.num_partitions());
    const PipelineShape shape{.num_partitions = static_cast<int>(balance.num_partitions()), .placement = placement};
    const ReplicaRanks ranks = replica_ranks(*options.processes, options.replicas, shape.num_lanes());
    std::vector<bool> here;
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const bool is_here = ranks.rank_of(shape.lane_of(PartitionId{j})) == options.processes->rank();
        here.insert(here.end(), balance.layers_of(PartitionId{j}).size(), is_here);
    }
    return [here](LayerId layer) { return bool{here[layer.index()]}; };
}

void Pipeline::warn_of_nan(MicroBatchId micro_batch) {
    if (!std::exchange(has_warned_of_nan_, true)) {
        const char* const remedy =
            options_.weight
                ? "look for a nan in its inputs and outputs, or for a loss that leaves out other values than the "
                  "pipeline's 'weight' does"
                : "if the loss leaves some values out, such as padding, give the pipeline their 'weight'";
        std::fprintf(stderr,
                     "pipescope: the loss of micro-batch %d is nan and that of another is not; a mean over no value is "
                     "nan; %s\n",
                     micro_batch.value(), remedy);
    }
}

void Pipeline::renew_lane(LaneId lane) {
    start_with_own_threads([&] { lanes_->renew(lane); });
}

void Pipeline::place(std::vector<ModelLayer> layers) {
    for (std::size_t j = 0; j < balance_.num_partitions(); ++j) {
        const PartitionId id{static_cast<std::int64_t>(j)};
        const LayerRange range = balance_.layers_of(id);
        std::vector<ModelLayer> own;
        for (std::size_t k = range.first.index(); k < range.end.index(); ++k) {
            move_layer(*layers[k].layer, devices_->of(lane_of(id)).device());
            own.push_back(std::move(layers[k]));
        }
        Partition& partition = partitions_.emplace_back(id, range.first, std::move(own), skips_.of(id));
        if (options_.deferred_batch_norm) {
            partition.defer_batch_norm();
        }
    }
    list_shared();
    if (observer() == nullptr) {
        return;
    }
    for (const Partition& partition : partitions_) {
        for (const NamedTensors& tensors : {partition.own_parameters(), partition.named(&Layer::buffers)}) {
            for (const auto& [name, tensor] : tensors) {
                observer()->placed(tensor, lane_of(partition.id()));
            }
        }
    }
}

LaneId Pipeline::lane_of_gradients(PartitionId partition) const {
    return options_.driver == Driver::autograd && devices_->on_host() ? LaneId{} : lane_of(partition);
}

void Pipeline::list_shared() {
    std::unordered_set<const c10::TensorImpl*> earlier;
    shared_.list(partitions_, shape_.shared, balance_,
                 placement_of_gradients(options_, shape_.placement, balance_.num_partitions()));
    for (Partition& partition : partitions_) {
        for (const ModelLayer& layer : partition.layers()) {
            refuse_parameters_of_two_lanes(layer, lane_of_gradients(partition.id()), [&](LayerId other) {
                return lane_of_gradients(balance_.partition_of(other));
            });
        }
        std::unordered_set<const c10::TensorImpl*> foreign = earlier;
        foreign.insert(shared_.copies().begin(), shared_.copies().end());
        for (const at::Tensor& parameter : partition.parameters()) {
            earlier.insert(parameter.unsafeGetTensorImpl());
        }
        partition.set_foreign(std::move(foreign));
    }
}

void Pipeline::list_tensors() {
    find_same_parameters(partitions_);
    for (Partition& partition : partitions_) {
        for (const ModelLayer& each : partition.layers()) {
            move_layer(*each.layer, devices_->of(lane_of(partition.id())).device());
        }
        partition.list_tensors();
    }
    list_shared();
}

void Pipeline::train(bool on) {
    training_ = on;
    for (Partition& partition : partitions_) {
        partition.train(on);
    }
}

StepNumber Pipeline::take_number(RunFor purpose) noexcept {
    if (purpose != RunFor::training) {
        return {-1, kFirstInference + next_inference_++};
    }
    const std::int32_t step = next_step_++;
    return {step, step};
}

Failure Pipeline::failure_at(const TaskKey& key, LaneId lane) const {
    const Partition& partition = partitions_[cell_of(key).j.index()];
    Failure failure{key, lane, partition.range().first, partition.name()};
    const std::optional<CurrentTask> current = current_task();
    if (key.kind == TaskKind::loss || key.kind == TaskKind::optimizer) {
        failure.layer = LayerId{-1};
        failure.layer_name = std::string(to_string(key.kind));
    } else if (current && current->layer.value() >= 0) {
        failure.layer = current->layer;
        failure.layer_name = partition.layers()[failure.layer.index() - partition.range().first.index()].name;
    }
    return failure;
}

bool Pipeline::has_trainable_parameters() const {
    return std::any_of(partitions_.begin(), partitions_.end(), [](const Partition& each) { return each.trains(); });
}

std::vector<at::Tensor> Pipeline::trained_parameters() const {
    return trained_parameters([](LaneId) { return true; });
}

std::vector<at::Tensor> Pipeline::trained_parameters(const std::function<bool(LaneId)>& is_wanted) const {
    std::vector<at::Tensor> trained;
    for (const Partition& partition : partitions_) {
        if (is_wanted(lane_of(partition.id()))) {
            const std::vector<at::Tensor> own = partition.trained_parameters();
            trained.insert(trained.end(), own.begin(), own.end());
        }
    }
    return trained;
}

std::shared_ptr<const TaskGraph> Pipeline::graph(int num_micro_batches, RunFor purpose) {
    const Schedule schedule = purpose == RunFor::training ? options_.schedule : Schedule(Schedule::gpipe);
    const std::vector<bool> trains = shared_.routes_train();
    auto& graph = graphs_[{num_micro_batches, purpose, trains}];
    if (!graph) {
        PipelineShape shape = shape_;
        shape.num_micro_batches = num_micro_batches;
        for (std::size_t k = 0; k < trains.size(); ++k) {
            shape.shared[k].trains = trains[k];
        }
        graph = std::make_shared<const TaskGraph>(make_schedule(schedule, std::move(shape)));
    }
    return graph;
}
}  // namespace pipescope
