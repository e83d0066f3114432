#include "simulator/memory_model.h"

#include "schedule/micro_batches.h"
#include "schedule/schedules.h"
#include "simulator/lane_ledger.h"
#include "simulator/partition_memory.h"
#include "simulator/reserved_memory.h"
#include "simulator/sized_profile.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using enum MemoryCategory;

/// Runs through the starts and ends of all tasks in time and books what each allocates and frees.
class MemoryWalk {
public:
    MemoryWalk(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs, const TaskGraph& graph,
               bool with_reserved)
        : profile_(profile),
          options_(options),
          costs_(costs),
          graph_(graph),
          schedule_(parse_schedule(options.schedule)),
          ledgers_(static_cast<std::size_t>(graph.num_lanes())) {
        const auto m = static_cast<int>(costs.micro_batches().size());
        for (int j = 0; j < graph.shape().num_partitions; ++j) {
            const LayerRange layers = options.balance.layers_of(PartitionId{j});
            const int versions = is_synchronous(schedule_) ? 1 : graph.shape().num_partitions - j;
            add_constants(profile, layers, lane_of(j), versions);
            largest_.push_back(partition_memory(profile, costs.sized(0), layers));
            smallest_.push_back(partition_memory(profile, costs.sized(m - 1), layers));
        }
        backwards_left_ = m;
        const std::size_t one_batch = micro_batch_sizes(replica_batch(options), options.chunks).size();
        for (int i = 0; i < static_cast<int>(one_batch); ++i) {
            batch_output_ += memory(i, last()).output;
            if (!is_host(lane_of(0))) {
                ledger(lane_of(0)).add(boundary, memory(i, 0).input, Nanoseconds{0});
            }
        }
        for (const NamedSkip& skip : skips_of(profile)) {
            const PartitionId partition = options.balance.partition_of(skip.stash);
            kept_as_value_.push_back(is_kept_as_value(skip, options.balance.layers_of(partition)));
        }
        if (with_reserved) {
            reserved_.emplace(profile, options, costs, graph);
        }
        for (std::size_t lane = 0; lane < ledgers_.size(); ++lane) {
            sample(LaneId{static_cast<std::int64_t>(lane)}, Nanoseconds{0}, std::int64_t{-1});
        }
    }

    void run(std::span<const std::int64_t> starts, std::span<const std::int64_t> ends) {
        struct Instant {
            std::int64_t time;
            TaskIndex task;
            bool is_end;
        };
        std::vector<Instant> instants;
        instants.reserve(2 * ends.size());
        for (TaskIndex task = 0; task < ends.size(); ++task) {
            instants.push_back({starts[task], task, false});
            instants.push_back({ends[task], task, true});
        }
        // At one instant in the graph's order, so that what a task frees is gone before the next on its lane starts.
        std::sort(instants.begin(), instants.end(), [](const Instant& a, const Instant& b) {
            return std::tie(a.time, a.task, a.is_end) < std::tie(b.time, b.task, b.is_end);
        });
        for (const Instant& instant : instants) {
            now_ = Nanoseconds{instant.time};
            const Task& task = graph_.tasks()[instant.task];
            if (reserved_) {
                instant.is_end ? reserved_->end(task) : reserved_->start(task);
            }
            instant.is_end ? end(task) : start(task);
        }
    }

    MemoryUse use() {
        MemoryUse use{{}, std::move(samples_)};
        for (const LaneLedger& each : ledgers_) {
            use.lanes.push_back(each.use());
            const LaneId lane{static_cast<std::int64_t>(use.lanes.size()) - 1};
            use.lanes.back().peak_reserved_bytes = reserved_ ? reserved_->peak(lane) : 0;
        }
        return use;
    }

private:
    int last() const { return graph_.shape().num_partitions - 1; }
    LaneId lane_of(int j) const { return graph_.shape().lane_of(PartitionId{j}); }
    LaneLedger& ledger(LaneId lane) { return ledgers_[lane.index()]; }
    bool is_host(LaneId lane) const { return device_of(options_, lane) == "cpu"; }
    bool shares_storage(LaneId a, LaneId b) const { return device_of(options_, a) == device_of(options_, b); }
    bool loss_is_gathered() const { return graph_.shape().loss == LossScope::mini_batch; }
    const PartitionMemory& memory(int i, int j) const {
        const bool is_largest = costs_.micro_batches()[static_cast<std::size_t>(i)] == costs_.micro_batches().front();
        return (is_largest ? largest_ : smallest_)[static_cast<std::size_t>(j)];
    }
    bool checkpointed(int i) const {
        return is_checkpointed(options_.checkpoint, MicroBatchId{i}, graph_.shape().num_micro_batches);
    }
    Bytes skip_bytes(int i, std::size_t k) const { return costs_.sized(i).skips[k]; }
    /// What the gradient of a popped skip holds where it was made.
    Bytes skip_gradient(int i, std::size_t k) const {
        const int popping = static_cast<int>(graph_.shape().skips[k].to.value());
        for (const SkipGradient& each : memory(i, popping).skip_gradients) {
            if (each.skip == k) {
                return each.bytes;
            }
        }
        return skip_bytes(i, k);
    }
    /// And where it is stashed.
    Bytes received_skip_gradient(int i, std::size_t k) const {
        const auto [from, to] = graph_.shape().skips[k];
        const bool shares =
            shares_storage(lane_of(static_cast<int>(from.value())), lane_of(static_cast<int>(to.value())));
        return shares ? skip_gradient(i, k) : skip_bytes(i, k);
    }

    void add_constants(const Profile& profile, LayerRange layers, LaneId lane, int versions) {
        const double factor = optimizer_state_factor(options_.optimizer);
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = profile.layers[l];
            ledger(lane).add(parameters, versions * layer.parameter_bytes + layer.buffer_bytes, Nanoseconds{0});
            ledger(lane).add(gradients, layer.gradient_bytes, Nanoseconds{0});
            ledger(lane).add(optimizer, std::llround(factor * static_cast<double>(layer.gradient_bytes)),
                             Nanoseconds{0});
        }
    }

    void start(const Task& task) {
        const int i = task.key.micro_batch;
        const int j = task.key.partition;
        LaneLedger& here = ledger(task.lane);
        switch (task.key.kind) {
            case TaskKind::forward:
                here.start_work(checkpointed(i) ? memory(i, j).checkpointed_forward : graph_building_forward(i, j),
                                copy, now_);
                break;
            case TaskKind::recompute: here.start_work(graph_building_forward(i, j), copy, now_); break;
            case TaskKind::backward: start_backward(task); break;
            case TaskKind::loss: start_loss(task); break;
            case TaskKind::copy_forward: arrive(task, boundary, costs_.bytes(task.key)); break;
            case TaskKind::copy_backward: arrive(task, copy, costs_.bytes(task.key)); break;
            case TaskKind::skip_forward:
            case TaskKind::skip_backward: arrive(task, skip, costs_.bytes(task.key)); break;
            default: break;
        }
    }

    const WorkPeak& graph_building_forward(int i, int j) const {
        return owns_input(i, j) ? memory(i, j).forward_of_own_input : memory(i, j).forward;
    }
    /// Whether the input of (i, j) is this lane's to let go: not the mini-batch, nor what the sender's graph keeps.
    bool owns_input(int i, int j) const { return j > 0 && !outlives_receiver(i, j - 1); }

    void start_backward(const Task& task) {
        const bool is_last = task.key.partition == last();
        // Where a skip's gradient holds the output's too, or the mini-batch's does, it is not this task's to let go.
        const bool of_view =
            is_last ? loss_is_gathered() : received_gradient(task.key.micro_batch, task.key.partition) == 0;
        WorkPeak work = backward_peak(task.key.micro_batch, task.key.partition, of_view);
        if (splits_backward(schedule_)) {
            work = {0, 0, 0, work.transient};  // what the backward of the weights needs stays
        }
        ledger(task.lane).start_work(work, is_last ? output : copy, now_);
    }

    /// With the gradients of stashed skips gone as the layers use them.
    WorkPeak backward_peak(int i, int j, bool of_view) const {
        const PartitionMemory& each = memory(i, j);
        WorkPeak highest = of_view ? each.backward_of_view : each.backward;
        Bytes freed = 0;
        for (const BackwardPart& part : each.backward_parts) {
            WorkPeak here = of_view ? part.of_view : part.of_own;
            here.skip = -freed;
            if (&part == &each.backward_parts.front() || here.total() > highest.total()) {
                highest = here;
            }
            freed += part.frees ? received_skip_gradient(i, *part.frees) : 0;
        }
        return highest;
    }

    void start_loss(const Task& task) {
        const int i = task.key.micro_batch;
        if (!loss_is_gathered()) {
            ledger(task.lane).add(output, memory(i, last()).output, now_);  // its gradient
            ledger(task.lane).start_work({0, 0, 0, loss_transient(costs_.sized(i).samples)}, output, now_);
            return;
        }
        if (graph_.shape().num_micro_batches > 1) {
            ledger(task.lane).add(output, batch_output_, now_);
            free_outputs(task.lane);  // once they are gathered; a single one is handed through
        }
        ledger(task.lane).add(output, batch_output_, now_);  // its gradient
        ledger(task.lane).start_work({0, 0, 0, loss_transient(replica_batch(options_))}, output, now_);
    }
    Bytes loss_transient(std::int64_t samples) const {
        return std::llround(
            interpolate(profile_.samples, profile_.loss_transient_bytes, static_cast<double>(samples)).value);
    }

    /// On a device of its own the receiver allocates when the copy starts; else it takes the charge over at the end.
    void arrive(const Task& task, MemoryCategory category, Bytes bytes) {
        if (!shares_storage(task.lane, task.receiver)) {
            ledger(task.receiver).add(category, bytes, now_);
        }
    }
    /// What the sender holds for a copy's sake: of a gradient the storage, which may be more than what is copied.
    Bytes held_for(const Task& task) const {
        const int i = task.key.micro_batch;
        switch (task.key.kind) {
            case TaskKind::copy_backward: return memory(i, task.key.partition + 1).input_gradient;
            case TaskKind::skip_backward: return skip_gradient(i, static_cast<std::size_t>(task.key.skip));
            default: return costs_.bytes(task.key);
        }
    }
    void leave(const Task& task, MemoryCategory from, MemoryCategory to) {
        const Bytes bytes = held_for(task);
        const bool stays =
            task.key.kind == TaskKind::copy_forward && kept_by_graph_too(task.key.micro_batch, task.key.partition);
        ledger(task.lane).remove(from, stays ? 0 : bytes);
        if (shares_storage(task.lane, task.receiver)) {
            ledger(task.receiver).add(to, bytes, now_);
        }
        sample(task.lane, now_, task.key);
        sample(task.receiver, now_, task.key);
    }

    void end(const Task& task) {
        switch (task.key.kind) {
            case TaskKind::forward: end_forward(task); break;
            case TaskKind::recompute: end_recompute(task); break;
            case TaskKind::backward: end_backward(task); break;
            case TaskKind::backward_weight: release_graph(task); break;
            case TaskKind::loss: end_loss(task); break;
            case TaskKind::copy_forward: leave(task, copy, boundary); return;
            case TaskKind::copy_backward: leave(task, copy, copy); return;
            case TaskKind::skip_forward:
            case TaskKind::skip_backward: leave(task, skip, skip); return;
            default: break;
        }
        sample(task.lane, now_, task.key);
    }

    void end_forward(const Task& task) {
        const int i = task.key.micro_batch;
        const int j = task.key.partition;
        const PartitionMemory& each = memory(i, j);
        LaneLedger& here = ledger(task.lane);
        here.end_work();
        if (!checkpointed(i)) {
            here.add(saved, each.graph + skips_inside(i, j) - stashes_given_away(i, j), now_);
            here.add(saved, keeps_own_output(j) && each.output_kept ? each.output : 0, now_);
            if (!each.input_kept) {
                free_input(i, j);
            }
        }
        if (j == last()) {
            here.add(output, kept_by_graph_too(i, j) ? 0 : each.output, now_);
        } else if (lane_of(j + 1) == task.lane) {
            here.add(boundary, each.output, now_);
        } else {
            here.add(copy, kept_by_graph_too(i, j) ? 0 : each.output, now_);
        }
        stash_skips(i, j);
    }

    /// Whether the storage of a kept output stays charged to this lane: not if another lane of the device gets it.
    bool keeps_own_output(int j) const { return j == last() || !shares_storage(lane_of(j), lane_of(j + 1)); }
    bool kept_by_graph_too(int i, int j) const {
        return !checkpointed(i) && keeps_own_output(j) && memory(i, j).output_kept;
    }

    void end_recompute(const Task& task) {
        const int i = task.key.micro_batch;
        const int j = task.key.partition;
        const PartitionMemory& each = memory(i, j);
        ledger(task.lane).end_work();
        // The recomputed output is a new storage: kept by the graph here, whatever became of the first.
        ledger(task.lane).add(saved, each.graph + skips_inside(i, j) + (each.output_kept ? each.output : 0), now_);
        if (!each.input_kept) {
            free_input(i, j);
        }
    }

    void end_backward(const Task& task) {
        const int i = task.key.micro_batch;
        const int j = task.key.partition;
        LaneLedger& here = ledger(task.lane);
        here.end_work();
        if (!splits_backward(schedule_)) {
            release_graph(task);
        }
        if (j > 0) {
            here.add(copy, memory(i, j).input_gradient, now_);  // until it is sent or used
        }
        free_skips(i, j);
    }

    /// All that the backward needed: the graph, a kept input and the gradient of the output.
    void release_graph(const Task& task) {
        const int i = task.key.micro_batch;
        const int j = task.key.partition;
        const PartitionMemory& each = memory(i, j);
        LaneLedger& here = ledger(task.lane);
        const bool own_output = checkpointed(i) || keeps_own_output(j);
        here.remove(saved, each.graph + skips_inside(i, j) - stashes_given_away(i, j) +
                               (own_output && each.output_kept ? each.output : 0));
        if (each.input_kept) {
            free_input(i, j);
        }
        if (j < last() && outlives_receiver(i, j)) {
            ledger(lane_of(j + 1)).remove(boundary, memory(i, j + 1).input);
            sample(lane_of(j + 1), now_, {0, TaskKind::backward, j, i, -1});
        }
        if (j < last()) {
            here.remove(copy, received_gradient(i, j));
        } else if (!loss_is_gathered()) {
            here.remove(output, each.output);
        } else if (--backwards_left_ == 0) {
            here.remove(output, batch_output_);
        }
    }

    /// What the gradient of (i, j)'s output holds on this lane: the storage it was made in, or a copy of its own.
    Bytes received_gradient(int i, int j) const {
        return shares_storage(lane_of(j), lane_of(j + 1)) ? memory(i, j + 1).input_gradient : memory(i, j).output;
    }

    void free_input(int i, int j) {
        if (owns_input(i, j)) {
            ledger(lane_of(j)).remove(boundary, memory(i, j).input);
        }
    }
    /// Whether the graph of (i, j) holds on to the storage that (i, j + 1) got as its input.
    bool outlives_receiver(int i, int j) const {
        return !checkpointed(i) && memory(i, j).output_kept && shares_storage(lane_of(j), lane_of(j + 1));
    }

    void end_loss(const Task& task) {
        LaneLedger& here = ledger(task.lane);
        here.end_work();
        const int i = task.key.micro_batch;
        if (!loss_is_gathered()) {
            here.remove(output, kept_by_graph_too(i, last()) ? 0 : memory(i, last()).output);
            return;
        }
        if (graph_.shape().num_micro_batches > 1) {
            here.remove(output, batch_output_);
        } else {
            free_outputs(task.lane);
        }
    }
    /// Of the last partition, where its graph does not keep them.
    void free_outputs(LaneId lane) {
        for (int i = 0; i < graph_.shape().num_micro_batches; ++i) {
            ledger(lane).remove(output, kept_by_graph_too(i, last()) ? 0 : memory(i, last()).output);
        }
    }

    // Skips. Inside a partition they are part of its graph; between lanes they travel.
    /// What is stashed and popped within the partition, where the graph does not keep the same storage anyway.
    Bytes skips_inside(int i, int j) const {
        Bytes bytes = 0;
        for (std::size_t k = 0; k < graph_.shape().skips.size(); ++k) {
            const auto [from, to] = graph_.shape().skips[k];
            bytes += from.value() == j && to.value() == j && !kept_as_value_[k] ? skip_bytes(i, k) : 0;
        }
        return bytes;
    }
    /// Stashes that the partition's graph keeps, but whose storage is charged to another lane of the host, which pops
    /// them. What a recompute makes again stays here.
    Bytes stashes_given_away(int i, int j) const {
        Bytes bytes = 0;
        for (std::size_t k = 0; !checkpointed(i) && k < graph_.shape().skips.size(); ++k) {
            const auto [from, to] = graph_.shape().skips[k];
            const bool given = from.value() == j && from != to && kept_as_value_[k] &&
                               shares_storage(lane_of(j), lane_of(static_cast<int>(to.value())));
            bytes += given ? skip_bytes(i, k) : 0;
        }
        return bytes;
    }
    /// Whether a stash is the storage of its layer's output (the layer only hands it on), and a layer of the same
    /// partition keeps that as its input or output.
    bool is_kept_as_value(const NamedSkip& skip, LayerRange partition) const {
        const std::vector<LayerProfile>& layers = profile_.layers;
        std::size_t maker = skip.stash.index();
        if (!layers[maker].aliases_input) {
            return false;
        }
        while (maker > partition.first.index() && layers[maker].aliases_input) {
            --maker;
        }
        if (layers[maker].aliases_input) {
            return false;  // the partition's own input, which is charged apart
        }
        for (std::size_t l = maker + 1; l < partition.end.index(); ++l) {
            if (layers[l].keeps_input) {
                return true;
            }
            if (!layers[l].aliases_input) {
                break;
            }
        }
        return layers[maker].keeps_output;
    }
    /// Calls each(k, from, to) for the skips between different partitions.
    template <class Each>
    void for_skips_between_partitions(Each each) {
        for (std::size_t k = 0; k < graph_.shape().skips.size(); ++k) {
            const auto [from, to] = graph_.shape().skips[k];
            if (from != to) {
                each(k, from.value(), to.value());
            }
        }
    }
    void stash_skips(int i, int j) {
        for_skips_between_partitions([&](std::size_t k, int from, int) {
            if (from == j) {
                ledger(lane_of(j)).add(skip, skip_bytes(i, k), now_);
            }
        });
    }
    /// After backward (i, j): a popped skip goes and its gradient comes; at the stashing side the gradient goes.
    void free_skips(int i, int j) {
        for_skips_between_partitions([&](std::size_t k, int from, int to) {
            if (from == j) {
                ledger(lane_of(j)).remove(skip, received_skip_gradient(i, k));
            }
            if (to == j) {
                ledger(lane_of(j)).remove(skip, skip_bytes(i, k));
                ledger(lane_of(j)).add(skip, skip_gradient(i, k), now_);
            }
        });
    }

    void sample(LaneId lane, Nanoseconds time, const TaskKey& task) {
        sample(lane, time, static_cast<std::int64_t>(pack(task)));
    }
    void sample(LaneId lane, Nanoseconds time, std::int64_t task) {
        LaneLedger& here = ledger(lane);
        const Bytes peak = here.take_peak();
        samples_.push_back({lane, time, here.held(), std::max(peak, here.held()),
                            reserved_ ? reserved_->reserved(lane) : 0, task, here.composition()});
    }

    const Profile& profile_;
    const PipelineOptions& options_;
    const TaskCosts& costs_;
    const TaskGraph& graph_;
    Schedule schedule_;
    std::vector<LaneLedger> ledgers_;
    std::optional<ReservedMemory> reserved_;
    std::vector<PartitionMemory> largest_;   // by partition, of the larger micro-batches
    std::vector<PartitionMemory> smallest_;  // of the smaller ones
    Bytes batch_output_ = 0;                 // the last partition's output of the whole mini-batch
    int backwards_left_ = 0;                 // of the last partition
    std::vector<bool> kept_as_value_;        // by skip: is_kept_as_value()
    Nanoseconds now_{0};
    std::vector<MemorySample> samples_;
};
}  // namespace

MemoryUse memory_use(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                     const TaskGraph& graph, std::span<const std::int64_t> starts, std::span<const std::int64_t> ends,
                     bool with_reserved) {
    MemoryWalk walk(profile, options, costs, graph, with_reserved);
    walk.run(starts, ends);
    return walk.use();
}
}  // namespace pipescope
