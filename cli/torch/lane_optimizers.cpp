#include "cli/torch/lane_optimizers.h"

#include "base/error.h"
#include "engine/gpipe.h"
#include "engine/lanes/task_ranges.h"
#include "engine/saved_training.h"
#include "models/emulated_wait.h"
#include "profiler/memory/tracking_allocator.h"
#include "profiler/profile/profile.h"
#include "simulator/pipeline_options.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace pipescope {
namespace {
constexpr double kMomentum = 0.9;

using Optimizer = std::shared_ptr<torch::optim::Optimizer>;
using MakeNamed = Optimizer (*)(std::vector<at::Tensor> parameters, double learning_rate);

template <class Algorithm, class Options>
Optimizer make(std::vector<at::Tensor> parameters, double learning_rate) {
    return std::make_shared<Algorithm>(std::move(parameters), Options(learning_rate));
}

Optimizer make_momentum(std::vector<at::Tensor> parameters, double learning_rate) {
    return std::make_shared<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(learning_rate).momentum(kMomentum));
}

/// Throws UsageError for an unknown optimizer.
MakeNamed maker_of(const std::string& name) {
    static const std::map<std::string, MakeNamed> makers = {
        {"sgd", make<torch::optim::SGD, torch::optim::SGDOptions>},
        {"momentum", make_momentum},
        {"adam", make<torch::optim::Adam, torch::optim::AdamOptions>},
        {"adamw", make<torch::optim::AdamW, torch::optim::AdamWOptions>},
    };
    const auto found = makers.find(name);
    if (found == makers.end()) {
        throw UsageError(
            fmt::format("--optimizer is '{}'; a run can use sgd, momentum, adam or adamw; choose one of them", name));
    }
    return found->second;
}

/// During its lifetime, charges the calling thread's allocations to the lane; those that stay are optimizer state.
class ChargedTo {
public:
    explicit ChargedTo(LaneId lane)
        : owner_(lane.value() + 1),
          before_(tracking_allocator::set_owner(owner_)),
          later_(tracking_allocator::set_later(MemoryCategory::optimizer)) {}
    ~ChargedTo() {
        tracking_allocator::set_owner(before_);
        tracking_allocator::set_later(later_);
        tracking_allocator::account(owner_).end_task(MemoryCategory::optimizer);
    }
    ChargedTo(const ChargedTo&) = delete;
    ChargedTo& operator=(const ChargedTo&) = delete;

private:
    int owner_;
    int before_;
    MemoryCategory later_;
};

struct LaneParameters {
    PartitionId first_partition;  // of the lane; identifies its optimizer task
    std::vector<at::Tensor> tensors;
};

/// Copies of shared parameters are left out: the lane that keeps the parameter updates it.
std::map<LaneId, LaneParameters> parameters_by_lane(const GPipe& model) {
    std::set<const c10::TensorImpl*> own;
    for (const at::Tensor& parameter : model.parameters()) {
        own.insert(parameter.unsafeGetTensorImpl());
    }
    std::map<LaneId, LaneParameters> lanes;
    for (const LayerInfo& layer : model) {
        const PartitionInfo& partition = model.partitions()[layer.partition.index()];
        for (auto& [name, parameter] : layer.layer->parameters()) {
            if (!own.contains(parameter.unsafeGetTensorImpl())) {
                continue;
            }
            const auto lane = lanes.try_emplace(partition.lane, LaneParameters{partition.id, {}}).first;
            lane->second.tensors.push_back(std::move(parameter));
        }
    }
    return lanes;
}
}  // namespace

void check_optimizer(const std::string& name) {
    maker_of(name);
}

double default_learning_rate(const std::string& optimizer) {
    return optimizer.starts_with("adam") ? 0.001 : 0.05;
}

LaneOptimizers::LaneOptimizers(const GPipe& model, const MakeOptimizer& make) {
    for (auto& [lane, parameters] : parameters_by_lane(model)) {
        lanes_.push_back({lane, parameters.first_partition, make(std::move(parameters.tensors))});
    }
}

LaneOptimizers::LaneOptimizers(const GPipe& model, const std::string& name, double learning_rate)
    : LaneOptimizers(model, [make = maker_of(name), learning_rate](std::vector<at::Tensor> parameters) {
          return make(std::move(parameters), learning_rate);
      }) {}

void LaneOptimizers::step(std::int32_t step) {
    for (const OfLane& each : lanes_) {
        const ChargedTo charged(each.lane);
        const TaskRange range({step, TaskKind::optimizer, each.partition.value(), -1, -1});
        each.optimizer->step();
    }
}

void LaneOptimizers::update(LaneId lane) {
    for (const OfLane& each : lanes_) {
        if (each.lane == lane) {
            each.optimizer->step();
            each.optimizer->zero_grad(/*set_to_none=*/false);
        }
    }
}

std::vector<torch::optim::Optimizer*> LaneOptimizers::all() const {
    std::vector<torch::optim::Optimizer*> optimizers;
    for (const OfLane& each : lanes_) {
        optimizers.push_back(each.optimizer.get());
    }
    return optimizers;
}

void LaneOptimizers::load(SavedTraining& saved, const GPipe& model) {
    for (const OfLane& each : lanes_) {
        const ChargedTo charged(each.lane);
        saved.load(*each.optimizer, model);
    }
}

void LaneOptimizers::zero_grad() {
    for (const OfLane& each : lanes_) {
        each.optimizer->zero_grad(/*set_to_none=*/false);
    }
}

EmulatedOptimizer::EmulatedOptimizer(const GPipe& model, const std::string& name, const Profile* profile)
    : state_per_byte_(optimizer_state_factor(name)) {
    check_optimizer(name);
    for (auto& [lane, parameters] : parameters_by_lane(model)) {
        lanes_.emplace(lane, OfLane{.parameters = std::move(parameters.tensors)});
    }
    for (const PartitionInfo& partition : model.partitions()) {
        if (const auto lane = lanes_.find(partition.lane); lane != lanes_.end() && profile != nullptr) {
            lane->second.update_ns += optimizer_time(*profile, partition.layers);
        }
    }
}

void EmulatedOptimizer::hold() {
    for (auto& [id, lane] : lanes_) {
        hold(id, lane);
    }
}

void EmulatedOptimizer::update(LaneId lane) {
    if (const auto found = lanes_.find(lane); found != lanes_.end()) {
        hold(lane, found->second);
        wait_in_task(found->second.update_ns);
    }
}

void EmulatedOptimizer::hold(LaneId id, OfLane& lane) const {
    if (std::exchange(lane.is_held, true)) {
        return;
    }
    const ChargedTo charged(id);
    for (const at::Tensor& parameter : lane.parameters) {
        const double bytes = parameter.grad().defined() ? static_cast<double>(parameter.nbytes()) : 0;
        lane.state.push_back(at::empty({std::llround(state_per_byte_ * bytes)}, parameter.options().dtype(at::kByte)));
    }
}
}  // namespace pipescope
