#include "simulator/memory_model.h"

#include "schedule/micro_batches.h"
#include "schedule/schedules.h"
#include "simulator/lane_ledger.h"
#include "simulator/reserved_memory.h"
#include "simulator/skip_memory.h"
#include "simulator/step_memories.h"
#include "simulator/storage_owners.h"

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
          memories_(profile, options, costs, graph),
          skips_(profile, options, memories_),
          owners_(memories_, skips_),
          ledgers_(static_cast<std::size_t>(graph.num_lanes())),
          backwards_left_(static_cast<int>(costs.micro_batches().size())) {
        for (int j = 0; j <= last(); ++j) {
            const int versions = is_synchronous(schedule_) ? 1 : last() + 1 - j;
            add_constants(options.balance.layers_of(PartitionId{j}), lane_of(j), versions);
        }
        const std::size_t one_batch = micro_batch_sizes(replica_batch(options), options.chunks).size();
        for (int i = 0; i < static_cast<int>(one_batch); ++i) {
            batch_output_ += memory(i, last()).output;
            if (!memories_.is_host(lane_of(0))) {
                ledger(lane_of(0)).add(boundary, memory(i, 0).input, Nanoseconds{0});
            }
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
            task_end_ = Nanoseconds{ends[instant.task]};
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
    int last() const { return memories_.last(); }
    LaneId lane_of(int j) const { return memories_.lane_of(j); }
    LaneLedger& ledger(LaneId lane) { return ledgers_[lane.index()]; }
    bool shares_storage(LaneId a, LaneId b) const { return memories_.shares_storage(a, b); }
    bool loss_is_gathered() const { return graph_.shape().loss == LossScope::mini_batch; }
    const PartitionMemory& memory(int i, int j) const { return memories_.memory(i, j); }
    bool checkpointed(int i) const { return memories_.is_checkpointed(i); }

    void add_constants(LayerRange layers, LaneId lane, int versions) {
        const double factor = optimizer_state_factor(options_, profile_.dtype);
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = profile_.layers[l];
            ledger(lane).add(parameters, versions * layer.parameter_bytes + layer.buffer_bytes, Nanoseconds{0});
            ledger(lane).add(gradients, layer.gradient_bytes, Nanoseconds{0});
            ledger(lane).add(optimizer, std::llround(factor * static_cast<double>(layer.gradient_bytes)),
                             Nanoseconds{0});
        }
    }

    void start(const Task& task) {
        switch (task.key.kind) {
            case TaskKind::forward:
            case TaskKind::recompute: start_forward(task); break;
            case TaskKind::backward: start_backward(task); break;
            case TaskKind::loss: start_loss(task); break;
            case TaskKind::copy_forward: arrive(task, boundary, costs_.bytes(task.key)); break;
            case TaskKind::copy_backward: arrive(task, copy, costs_.bytes(task.key)); break;
            case TaskKind::skip_forward:
            case TaskKind::skip_backward: arrive(task, skip, costs_.bytes(task.key)); break;
            default: break;
        }
    }

    /// A forward or a recompute.
    void start_forward(const Task& task) {
        const int i = task.key.micro_batch;
        const int j = task.key.partition;
        const PartitionWork& work = memories_.work(i, j);
        if (task.key.kind == TaskKind::forward && checkpointed(i)) {
            start_work(task, work.checkpointed_forward, &WorkPart::handed_stays, [](std::size_t) { return Bytes{0}; });
            return;
        }
        start_work(task, task.key.kind == TaskKind::forward ? work.forward : work.recompute,
                   owners_.owns_input(i, j) ? &WorkPart::handed_goes : &WorkPart::handed_stays,
                   [&](std::size_t k) { return owners_.pops_for_good(i, k) ? skips_.bytes(i, k) : 0; });
    }
    /// Puts a task's parts on the clock. `freed` says what goes with a skip that is not used any more.
    template <class Freed>
    void start_work(const Task& task, const std::vector<WorkPart>& parts, WorkPeak WorkPart::*peak, Freed freed) {
        const auto duration = static_cast<double>((task_end_ - now_).count());
        Bytes gone = 0;
        spans_.clear();
        for (const WorkPart& part : parts) {
            WorkPeak work = part.*peak;
            if (task.key.kind == TaskKind::backward && splits_backward(schedule_)) {
                work = {0, 0, 0, work.transient};  // what the backward of the weights needs stays
            } else {
                work.skip -= gone;
            }
            spans_.push_back({now_ + Nanoseconds{std::llround(part.end * duration)}, work});
            for (const std::size_t skip : part.skips_used) {
                gone += freed(skip);
            }
        }
        const bool is_last = task.key.kind == TaskKind::backward && task.key.partition == last();
        ledger(task.lane).start_work(spans_, is_last ? output : copy, now_);
    }
    void start_backward(const Task& task) {
        const bool is_last = task.key.partition == last();
        // Where a skip's gradient holds the output's too, or the mini-batch's does, it is not this task's to let go.
        const bool of_view =
            is_last ? loss_is_gathered() : owners_.received_gradient(task.key.micro_batch, task.key.partition) == 0;
        const int i = task.key.micro_batch;
        start_work(task, memories_.work(i, task.key.partition).backward,
                   of_view ? &WorkPart::handed_stays : &WorkPart::handed_goes,
                   [&](std::size_t k) { return skips_.received_gradient(i, k); });
    }

    void start_loss(const Task& task) {
        const int i = task.key.micro_batch;
        if (!loss_is_gathered()) {
            ledger(task.lane).add(output, memory(i, last()).output, now_);  // its gradient
            start_loss_work(task.lane, costs_.sized(i).samples);
            return;
        }
        if (graph_.shape().num_micro_batches > 1) {
            ledger(task.lane).add(output, batch_output_, now_);
            free_outputs(task.lane);  // once they are gathered; a single one is handed through
        }
        ledger(task.lane).add(output, batch_output_, now_);  // its gradient
        start_loss_work(task.lane, replica_batch(options_));
    }
    void start_loss_work(LaneId lane, std::int64_t samples) {
        const Bytes transient_bytes = std::llround(
            interpolate(profile_.samples, profile_.loss_transient_bytes, static_cast<double>(samples)).value);
        const WorkSpan whole{task_end_, {0, 0, 0, transient_bytes}};
        ledger(lane).start_work({&whole, 1}, output, now_);
    }

    /// On a device of its own the receiver allocates when the copy starts; else it takes the charge over at the end.
    void arrive(const Task& task, MemoryCategory category, Bytes bytes) {
        if (!shares_storage(task.lane, task.receiver)) {
            ledger(task.receiver).add(category, bytes, now_);
        }
    }
    void leave(const Task& task, MemoryCategory from, MemoryCategory to) {
        const Bytes bytes = owners_.held_for(task);
        const bool stays = task.key.kind == TaskKind::copy_forward &&
                           owners_.output_is_kept_by_graph_too(task.key.micro_batch, task.key.partition);
        ledger(task.lane).remove(from, stays ? 0 : bytes, now_);
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
            free_what_no_backward_needs(i, j);
            here.add(saved, each.graph + skips_.inside(i, j) - skips_.given_away(i, j), now_);
            here.add(saved, owners_.keeps_own_output(j) && each.output_kept ? each.output : 0, now_);
        }
        if (j == last()) {
            here.add(output, owners_.output_is_kept_by_graph_too(i, j) ? 0 : each.output, now_);
        } else if (lane_of(j + 1) == task.lane) {
            here.add(boundary, each.output, now_);
        } else {
            here.add(copy, owners_.output_is_kept_by_graph_too(i, j) ? 0 : each.output, now_);
        }
        stash_skips(i, j);
    }

    void end_recompute(const Task& task) {
        const int i = task.key.micro_batch;
        const int j = task.key.partition;
        const PartitionMemory& each = memory(i, j);
        ledger(task.lane).end_work();
        free_what_no_backward_needs(i, j);
        // The recomputed output is a new storage: kept by the graph here, whatever became of the first.
        ledger(task.lane).add(saved, each.graph + skips_.inside(i, j) + (each.output_kept ? each.output : 0), now_);
    }

    /// It went while the task ran, so before what the task leaves is booked.
    void free_what_no_backward_needs(int i, int j) {
        if (!memory(i, j).input_kept) {
            free_input(i, j);
        }
        free_popped(i, j);
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
        const bool own_output = checkpointed(i) || owners_.keeps_own_output(j);
        here.remove(saved,
                    each.graph + skips_.inside(i, j) - skips_.given_away(i, j) +
                        (own_output && each.output_kept ? each.output : 0),
                    now_);
        if (each.input_kept) {
            free_input(i, j);
        }
        if (j < last() && owners_.outlives_receiver(i, j)) {
            ledger(lane_of(j + 1)).remove(boundary, memory(i, j + 1).input, now_);
            sample(lane_of(j + 1), now_, {0, TaskKind::backward, j, i, -1});
        }
        if (j < last()) {
            here.remove(copy, owners_.received_gradient(i, j), now_);
        } else if (!loss_is_gathered()) {
            here.remove(output, each.output, now_);
        } else if (--backwards_left_ == 0) {
            here.remove(output, batch_output_, now_);
        }
    }

    void free_input(int i, int j) {
        if (owners_.owns_input(i, j)) {
            ledger(lane_of(j)).remove(boundary, memory(i, j).input, now_);
        }
    }
    void end_loss(const Task& task) {
        LaneLedger& here = ledger(task.lane);
        here.end_work();
        const int i = task.key.micro_batch;
        if (!loss_is_gathered()) {
            here.remove(output, owners_.output_is_kept_by_graph_too(i, last()) ? 0 : memory(i, last()).output, now_);
            return;
        }
        if (graph_.shape().num_micro_batches > 1) {
            here.remove(output, batch_output_, now_);
        } else {
            free_outputs(task.lane);
        }
    }
    /// Of the last partition, where its graph does not keep them.
    void free_outputs(LaneId lane) {
        for (int i = 0; i < graph_.shape().num_micro_batches; ++i) {
            ledger(lane).remove(output, owners_.output_is_kept_by_graph_too(i, last()) ? 0 : memory(i, last()).output,
                                now_);
        }
    }

    void stash_skips(int i, int j) {
        skips_.for_each_between_partitions([&](std::size_t k, int from, int) {
            if (from == j) {
                ledger(lane_of(j)).add(skip, skips_.bytes(i, k), now_);
            }
        });
    }
    void free_popped(int i, int j) {
        skips_.for_each_between_partitions([&](std::size_t k, int, int to) {
            if (to == j && owners_.pops_for_good(i, k)) {
                ledger(lane_of(j)).remove(skip, skips_.bytes(i, k), now_);
            }
        });
    }
    /// After backward (i, j): a popped skip goes, if it is still there and nobody else's, and its gradient comes; at
    /// the stashing side the gradient goes, and with it what the graph there kept of the skip.
    void free_skips(int i, int j) {
        skips_.for_each_between_partitions([&](std::size_t k, int from, int to) {
            const bool kept_by_stasher = skips_.is_kept_by_stasher(i, k);
            if (from == j) {
                ledger(lane_of(j)).remove(skip, skips_.received_gradient(i, k), now_);
                if (kept_by_stasher) {
                    ledger(lane_of(to)).remove(skip, skips_.bytes(i, k), now_);
                    sample(lane_of(to), now_, {0, TaskKind::backward, j, i, -1});
                }
            }
            if (to == j) {
                if (skips_.is_kept_by_popper(k) && !kept_by_stasher) {
                    ledger(lane_of(j)).remove(skip, skips_.bytes(i, k), now_);
                }
                ledger(lane_of(j)).add(skip, skips_.gradient(i, k), now_);
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
    StepMemories memories_;
    SkipMemory skips_;
    StorageOwners owners_;
    std::vector<LaneLedger> ledgers_;
    std::optional<ReservedMemory> reserved_;
    Bytes batch_output_ = 0;       // the last partition's output of the whole mini-batch
    int backwards_left_;           // of the last partition
    std::vector<WorkSpan> spans_;  // of the task that starts
    Nanoseconds task_end_{0};      // of the task at hand
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
