#include "simulator/reserved_memory.h"

#include "schedule/micro_batches.h"
#include "schedule/schedules.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;
}  // namespace

ReservedMemory::ReservedMemory(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                               const TaskGraph& graph)
    : profile_(profile), options_(options), costs_(costs), graph_(graph) {
    const auto m = static_cast<int>(costs.micro_batches().size());
    peaks_.resize(static_cast<std::size_t>(graph.num_lanes()));
    cells_.resize(static_cast<std::size_t>(m) * static_cast<std::size_t>(graph.shape().num_partitions));
    backwards_left_ = m;
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        if (const std::string device = device_of(options, LaneId{lane}); device != "cpu") {
            allocators_.try_emplace(device,
                                    CachingAllocatorOptions{.expandable_segments = options.expandable_segments});
        }
    }
    for (int j = 0; j < graph.shape().num_partitions; ++j) {
        const LayerRange layers = options.balance.layers_of(PartitionId{j});
        large_.push_back(partition_tape(profile, costs.sized(0), layers, TapeSkips::left_out));
        small_.push_back(partition_tape(profile, costs.sized(m - 1), layers, TapeSkips::left_out));
    }
    take_constants();
}

void ReservedMemory::take_constants() {
    const double factor = optimizer_state_factor(options_, profile_.dtype);
    const bool drains = is_synchronous(parse_schedule(options_.schedule));
    for (int j = 0; j <= last(); ++j) {
        const LayerRange layers = options_.balance.layers_of(PartitionId{j});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = profile_.layers[l];
            for (int version = drains ? 1 : last() + 1 - j; version > 0; --version) {
                take(lane_of(j), layer.parameter_bytes);
            }
            take(lane_of(j), layer.buffer_bytes);
            take(lane_of(j), layer.gradient_bytes);
            take(lane_of(j), std::llround(factor * static_cast<double>(layer.gradient_bytes)));
        }
    }
    const std::size_t one_batch = micro_batch_sizes(replica_batch(options_), options_.chunks).size();
    Bytes input = 0;
    for (std::size_t i = 0; i < one_batch; ++i) {
        input += costs_.sized(static_cast<int>(i)).input;
    }
    take(lane_of(0), input);
}

Bytes ReservedMemory::reserved(LaneId lane) const {
    const auto found = allocators_.find(device_of(options_, lane));
    return found == allocators_.end() ? 0 : found->second.reserved(lane.value());
}

ReservedMemory::Storage ReservedMemory::take(LaneId lane, Bytes bytes) {
    const auto found = allocators_.find(device_of(options_, lane));
    if (found == allocators_.end() || bytes <= 0) {
        return 0;
    }
    const auto block = found->second.allocate(bytes, lane.value());
    held_[next_] = {lane.index(), block.value()};
    peaks_[lane.index()] = std::max(peaks_[lane.index()], found->second.reserved(lane.value()));
    return next_++;
}

void ReservedMemory::let_go(Storage& storage) {
    if (const auto found = held_.find(storage); found != held_.end()) {
        const LaneId lane{static_cast<std::int64_t>(found->second.lane)};
        allocators_.at(device_of(options_, lane)).free(found->second.block);
        held_.erase(found);
    }
    storage = 0;
}

void ReservedMemory::let_go(std::vector<Storage>& storages) {
    for (Storage& each : storages) {
        let_go(each);
    }
    storages.clear();
}

ReservedMemory::Cell& ReservedMemory::cell(int i, int j) {
    return cells_[static_cast<std::size_t>(i) * static_cast<std::size_t>(last() + 1) + static_cast<std::size_t>(j)];
}

const PartitionTape& ReservedMemory::tape(int i, int j) const {
    const bool is_large = costs_.micro_batches()[static_cast<std::size_t>(i)] == costs_.micro_batches().front();
    return (is_large ? large_ : small_)[static_cast<std::size_t>(j)];
}

bool ReservedMemory::is_checkpointed_here(int i) const {
    return is_checkpointed(options_.checkpoint, MicroBatchId{i}, graph_.shape().num_micro_batches);
}

/// `hands_on`: the outputs go to the next partition or the loss. A kept output then lives until its graph goes.
void ReservedMemory::play_forward(int i, int j, const std::vector<std::int32_t>& events, bool keeps_graph,
                                  bool hands_on) {
    const LayerTape& layers = tape(i, j).tape;
    Cell& here = cell(i, j);
    std::map<std::int32_t, Storage> live;
    for (const std::int32_t event : events) {
        if (event > 0) {
            live[event] = take(lane_of(j), layers.blocks[static_cast<std::size_t>(event) - 1].bytes);
        } else {
            let_go(live[-event]);
        }
    }
    for (auto& [number, storage] : live) {
        const bool is_output = layers.blocks[static_cast<std::size_t>(number) - 1].role == Role::output;
        const bool is_kept =
            keeps_graph && std::find(layers.backward.begin(), layers.backward.end(), -number) != layers.backward.end();
        if (is_kept) {
            here.blocks[number] = storage;
        } else if (is_output && hands_on) {
            here.outputs.push_back(storage);
        } else {
            let_go(storage);
        }
    }
}

void ReservedMemory::play_backward(int i, int j) {
    const LayerTape& layers = tape(i, j).tape;
    Cell& here = cell(i, j);
    for (const std::int32_t event : layers.backward) {
        const auto& [role, bytes] = layers.blocks[static_cast<std::size_t>(std::abs(event)) - 1];
        if (event > 0) {
            Storage& storage = role == Role::input_gradient ? here.input_gradient : here.blocks[event];
            storage = take(lane_of(j), bytes);
        } else if (role == Role::input || role == Role::passed) {
            let_go(here.input);
        } else if (role == Role::output_gradient) {
            let_go(here.gradient);
        } else {
            let_go(here.blocks[-event]);
        }
    }
}

void ReservedMemory::start(const Task& task) {
    const int i = task.key.micro_batch;
    const int j = task.key.partition;
    switch (task.key.kind) {
        case TaskKind::forward: {
            const bool keeps = !is_checkpointed_here(i);
            const LayerTape& layers = tape(i, j).tape;
            play_forward(i, j, keeps ? layers.forward : layers.checkpointed_forward, keeps, true);
            for (std::size_t k = 0; k < graph_.shape().skips.size(); ++k) {
                if (graph_.shape().skips[k].from.value() == j) {
                    cell(i, j).skips[static_cast<std::int32_t>(k)] = take(lane_of(j), costs_.sized(i).skips[k]);
                }
            }
            break;
        }
        case TaskKind::recompute: play_forward(i, j, tape(i, j).tape.recompute, true, false); break;
        case TaskKind::backward: play_backward(i, j); break;
        case TaskKind::loss: start_loss(i); break;
        default:
            if (is_copy(task.key.kind)) {
                start_copy(task);
            }
            break;
    }
}

void ReservedMemory::end(const Task& task) {
    const int i = task.key.micro_batch;
    const int j = task.key.partition;
    const auto keeps_input = [&] {
        const LayerTape& layers = tape(i, j).tape;
        return std::any_of(layers.backward.begin(), layers.backward.end(), [&](std::int32_t event) {
            const Role role = layers.blocks[static_cast<std::size_t>(std::abs(event)) - 1].role;
            return event < 0 && (role == Role::input || role == Role::passed);
        });
    };
    switch (task.key.kind) {
        case TaskKind::forward:
        case TaskKind::recompute:
            if ((task.key.kind == TaskKind::recompute || !is_checkpointed_here(i)) && !keeps_input()) {
                let_go(cell(i, j).input);
            }
            if (task.key.kind == TaskKind::recompute || !is_checkpointed_here(i)) {
                let_go_of_popped(i, j);
            }
            if (task.key.kind == TaskKind::forward && j < last() && lane_of(j + 1) == task.lane) {
                std::vector<Storage>& outputs = cell(i, j).outputs;
                if (!outputs.empty()) {
                    cell(i, j + 1).input = outputs.back();
                    outputs.pop_back();
                    let_go(outputs);
                }
            }
            break;
        case TaskKind::backward: end_backward(i, j); break;
        case TaskKind::loss: end_loss(i); break;
        default:
            if (is_copy(task.key.kind)) {
                end_copy(task);
            }
            break;
    }
}

/// Of skips from other partitions, those that no backward needs: a layer that passes its gradient through.
void ReservedMemory::let_go_of_popped(int i, int j) {
    const SizedProfile& sized = costs_.sized(i);
    for (auto& [skip, storage] : cell(i, j).skips) {
        const auto k = static_cast<std::size_t>(skip);
        const bool is_popped = graph_.shape().skips[k].to.value() == j && graph_.shape().skips[k].from.value() != j;
        if (is_popped && profile_.layers[sized.popped_by[k].index()].passes_gradient) {
            let_go(storage);
        }
    }
}

void ReservedMemory::end_backward(int i, int j) {
    Cell& here = cell(i, j);
    let_go(here.input);
    let_go(here.gradient);
    for (auto& [number, storage] : here.blocks) {
        let_go(storage);
    }
    here.blocks.clear();
    if (j == last() && --backwards_left_ == 0) {
        let_go(gathered_gradient_);
    }
    if (j > 0 && lane_of(j - 1) == lane_of(j)) {
        std::swap(cell(i, j - 1).gradient, here.input_gradient);
    }
    for (auto& [skip, storage] : here.skips) {
        const bool is_popped = graph_.shape().skips[static_cast<std::size_t>(skip)].to.value() == j;
        let_go(storage);
        if (is_popped && graph_.shape().skips[static_cast<std::size_t>(skip)].from.value() != j) {
            storage = take(lane_of(j), costs_.sized(i).skips[static_cast<std::size_t>(skip)]);  // its gradient
        }
    }
}

void ReservedMemory::start_loss(int i) {
    const auto output_of = [&](int k) {
        return costs_.sized(k).output[options_.balance.layers_of(PartitionId{last()}).end.index() - 1];
    };
    const LaneId lane = lane_of(last());
    Storage meanwhile = 0;
    if (i >= 0) {
        cell(i, last()).gradient = take(lane, output_of(i));
        meanwhile = take(lane, loss_transient(profile_, costs_.sized(i).samples, false));
        let_go(meanwhile);
        return;
    }
    Bytes batch = 0;
    const int m = graph_.shape().num_micro_batches;
    for (int k = 0; k < m; ++k) {
        batch += output_of(k);
    }
    if (m > 1) {
        gathered_ = take(lane, batch);
        for (int k = 0; k < m; ++k) {
            let_go(cell(k, last()).outputs);
        }
    }
    gathered_gradient_ = take(lane, batch);
    meanwhile = take(lane, loss_transient(profile_, replica_batch(options_), m > 1));
    let_go(meanwhile);
}

void ReservedMemory::end_loss(int i) {
    let_go(gathered_);
    for (int k = 0; k < graph_.shape().num_micro_batches; ++k) {
        if (i < 0 || k == i) {
            let_go(cell(k, last()).outputs);
        }
    }
}

bool ReservedMemory::shares_storage(const Task& copy) const {
    return device_of(options_, copy.lane) == device_of(options_, copy.receiver);
}

void ReservedMemory::start_copy(const Task& task) {
    const int i = task.key.micro_batch;
    const int j = task.key.partition;
    if (shares_storage(task)) {
        return;
    }
    const Storage arrives = take(task.receiver, costs_.bytes(task.key));
    switch (task.key.kind) {
        case TaskKind::copy_forward: cell(i, j + 1).input = arrives; break;
        case TaskKind::copy_backward: cell(i, j).gradient = arrives; break;
        case TaskKind::skip_forward:
            cell(i, graph_.shape().skips[static_cast<std::size_t>(task.key.skip)].to.value()).skips[task.key.skip] =
                arrives;
            break;
        case TaskKind::skip_backward: cell(i, j).skips[task.key.skip] = arrives; break;
        default: break;
    }
}

/// The sender's goes; on one device it becomes the receiver's.
void ReservedMemory::end_copy(const Task& task) {
    const int i = task.key.micro_batch;
    const int j = task.key.partition;
    const bool shares = shares_storage(task);
    const auto pass = [&](Storage& from, Storage& to) {
        if (shares) {
            std::swap(from, to);
        }
        let_go(from);
    };
    if (task.key.kind == TaskKind::copy_forward) {
        std::vector<Storage>& outputs = cell(i, j).outputs;
        if (shares && !outputs.empty()) {
            std::swap(cell(i, j + 1).input, outputs.back());
        }
        let_go(outputs);
    } else if (task.key.kind == TaskKind::copy_backward) {
        pass(cell(i, j + 1).input_gradient, cell(i, j).gradient);
    } else {
        const int to = graph_.shape().skips[static_cast<std::size_t>(task.key.skip)].to.value();
        Storage& stashed = cell(i, j).skips[task.key.skip];
        Storage& popped = cell(i, to).skips[task.key.skip];
        task.key.kind == TaskKind::skip_forward ? pass(stashed, popped) : pass(popped, stashed);
    }
}
}  // namespace pipescope
