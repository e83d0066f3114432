#include "simulator/memory/memory_model.h"

#include "base/small_vector.h"
#include "base/stop_check.h"
#include "base/time_sort.h"
#include "schedule/all_reduce.h"
#include "schedule/schedules.h"
#include "simulator/memory/lane_ledger.h"
#include "simulator/memory/reserved_memory.h"
#include "simulator/memory/step_memories.h"
#include "simulator/memory/step_storages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using enum MemoryCategory;
using Phase = PartitionWork::Phase;
using Role = TapeBlock::Role;
using Id = StepStorages::Id;
using Slots = StepStorages::Slots;
using SkipSlots = std::map<std::size_t, Id>;  // by route

/// A block of a partition's tape, and its storage.
struct BlockStorage {
    std::int32_t block = 0;
    Id id = 0;
};

/// What most cells have nothing of.
struct RareBlocks {
    SkipSlots popped;
    SkipSlots stashed;
    SkipSlots stash_gradients;
    SkipSlots pop_gradients;
    // The partition's own blocks on the device: those that the graph holds and those that the task took.
    std::map<std::int32_t, DeviceBlock> graph_blocks;
    std::map<std::int32_t, DeviceBlock> task_blocks;
};

/// Storages of micro-batch i on partition j, in the order of the partition's slots. There is one for each (i, j), so it
/// is small.
class CellBlocks {
public:
    Slots inputs;
    Slots outputs;
    Slots output_gradients;
    Slots input_gradients;
    SmallVector<BlockStorage, 2> kept;  // that the graph keeps
    bool has_graph = false;

    bool keeps(std::int32_t block) const {
        return std::ranges::any_of(kept, [block](const BlockStorage& each) { return each.block == block; });
    }
    const RareBlocks& rare() const {
        static const RareBlocks kNothing;
        return rare_ ? *rare_ : kNothing;
    }
    /// Null if there are none.
    RareBlocks* rare_blocks() { return rare_.get(); }
    RareBlocks& with_rare() {
        if (!rare_) {
            rare_ = std::make_unique<RareBlocks>();
        }
        return *rare_;
    }

private:
    std::unique_ptr<RareBlocks> rare_;
};

/// Maps a partition's blocks to storages. If several slots have one block, uses the first slot's.
class BoundBlocks {
public:
    void bind(const std::vector<std::int32_t>& blocks, const Slots& slots) {
        for (std::size_t k = 0; k < std::min(blocks.size(), slots.size()); ++k) {
            bind(blocks[k], slots[k]);
        }
    }
    /// `blocks`: by skip.
    void bind(const std::map<std::size_t, std::int32_t>& blocks, const SkipSlots& slots, const TaskCosts& costs) {
        for (const auto& [route, id] : slots) {
            if (const auto block = blocks.find(costs.skip_of(route)); block != blocks.end()) {
                bind(block->second, id);
            }
        }
    }
    void bind(std::int32_t block, Id id) {
        if (block != 0) {
            slots_.push_back({block, id});
        }
    }

    bool has(std::int32_t block) const { return find(block) != nullptr; }
    Id of(std::int32_t block) const {
        const BlockStorage* const found = find(block);
        return found != nullptr ? found->id : 0;
    }
    int slots_of(Id id) const { return static_cast<int>(std::ranges::count(slots_, id, &BlockStorage::id)); }
    const auto& slots() const { return slots_; }

private:
    const BlockStorage* find(std::int32_t block) const {
        const auto* const found = std::ranges::find(slots_, block, &BlockStorage::block);
        return found == slots_.end() ? nullptr : found;
    }

    SmallVector<BlockStorage, 6> slots_;
};

/// The start or end of a task.
struct Instant {
    std::int64_t time;
    std::uint32_t task;
    bool is_end;
};

/// Walks the starts and ends of all tasks in time order and records their allocations and frees.
class MemoryWalk {
public:
    MemoryWalk(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs, const TaskGraph& graph,
               bool with_reserved, bool with_samples)
        : profile_(profile),
          options_(options),
          costs_(costs),
          graph_(graph),
          schedule_(options.schedule),
          memories_(profile, options, costs, graph),
          ledgers_(static_cast<std::size_t>(graph.num_lanes())),
          reserved_(options, graph.num_lanes(), with_reserved),
          with_samples_(with_samples),
          storages_(ledgers_, reserved_),
          cells_(costs.micro_batches().size() * static_cast<std::size_t>(graph.shape().num_partitions)),
          outgoing_(static_cast<std::size_t>(graph.shape().num_partitions)),
          incoming_(outgoing_.size()) {
        list_routes();
        for (int j = 0; j <= last(); ++j) {
            const int versions = is_synchronous(schedule_) ? 1 : last() + 1 - j;
            for (const LaneId lane : graph.shape().lanes_of(PartitionId{j})) {
                add_constants(options.balance.layers_of(PartitionId{j}), lane, versions);
            }
        }
        shared_.resize(graph.shape().shared.size());
        for (std::size_t k = 0; k < shared_.size(); ++k) {
            const SharedRoute& way = graph.shape().shared[k];
            const LaneId user = graph.shape().lane_of(way.users.front());
            if (!shares_storage(graph.shape().lane_of(way.from), user)) {
                add_constant(user, parameters, costs.shared_bytes(k).parameter_bytes);
            }
        }
        const std::size_t one_batch = micro_batch_sizes(options).size();
        std::map<LaneId, Bytes> inputs;
        for (int i = 0; i < static_cast<int>(one_batch); ++i) {
            const LaneId lane = lane_of({MicroBatchId{i}, PartitionId{0}});
            inputs[lane] += memories_.is_host(lane) ? 0 : costs.sized(i).input;
        }
        for (const auto& [lane, input] : inputs) {
            add_constant(lane, boundary, input);
        }
        for (int i = 0; i < static_cast<int>(costs.micro_batches().size()); ++i) {
            const Cell first{MicroBatchId{i}, PartitionId{0}};
            cell(first).inputs.assign(work(first).tape().inputs.size(), Id{0});  // views of the mini-batch
        }
        for (std::size_t lane = 0; lane < ledgers_.size(); ++lane) {
            sample(LaneId{static_cast<std::int64_t>(lane)}, Nanoseconds{0}, std::int64_t{-1});
        }
    }

    void run(std::span<const std::int64_t> starts, std::span<const std::int64_t> ends) {
        std::vector<Instant> instants;
        instants.reserve(2 * ends.size());
        std::size_t copies = 0;
        for (std::size_t task = 0; task < ends.size(); ++task) {
            instants.push_back({starts[task], static_cast<std::uint32_t>(task), false});
            instants.push_back({ends[task], static_cast<std::uint32_t>(task), true});
            copies += is_copy(graph_.tasks()[task].key.kind) ? 1 : 0;
        }
        samples_.reserve(with_samples_ ? samples_.size() + ends.size() + copies : 0);  // a copy changes two lanes
        storages_.reserve(ends.size());
        // Ties go in the graph's order, so that a task's frees precede the start of the next on its lane.
        sort_by_time(instants);
        for (const Instant& instant : instants) {
            check_stop();
            now_ = Nanoseconds{instant.time};
            storages_.set_time(now_);
            const Task& task = graph_.tasks()[instant.task];
            task_end_ = Nanoseconds{ends[instant.task]};
            instant.is_end ? end(task) : start(task);
        }
    }

    MemoryUse use() {
        MemoryUse use{{}, std::move(samples_)};
        for (const LaneLedger& each : ledgers_) {
            use.lanes.push_back(each.use());
            const LaneId lane{static_cast<std::int64_t>(use.lanes.size()) - 1};
            use.lanes.back().peak_reserved_bytes = reserved_.peak(lane);
        }
        return use;
    }

private:
    int last() const { return memories_.last(); }
    LaneId lane_of(Cell at) const { return memories_.lane_of(at); }
    /// The lane on which the same micro-batch runs another partition.
    LaneId lane_of(Cell at, int partition) const { return lane_of({at.i, PartitionId{partition}}); }
    LaneLedger& ledger(LaneId lane) { return ledgers_[lane.index()]; }
    bool shares_storage(LaneId a, LaneId b) const { return memories_.shares_storage(a, b); }
    bool loss_is_gathered() const { return graph_.shape().loss == LossScope::mini_batch; }
    PartitionWork& work(Cell at) { return memories_.work(at); }
    bool checkpointed(int i) const { return memories_.is_checkpointed(i); }
    CellBlocks& cell(Cell at) { return cells_[at.i.index() * static_cast<std::size_t>(last() + 1) + at.j.index()]; }
    Cell in_last(int micro_batch) const { return {MicroBatchId{micro_batch}, PartitionId{last()}}; }
    const SkipRoute& route(std::size_t number) const { return graph_.shape().skips[number]; }
    /// Calls `each` with the number and the block of each route on which the partition passes on a skip, or takes one.
    template <class Each>
    void for_outgoing(int j, const std::map<std::size_t, std::int32_t>& blocks, Each each) const {
        for_routes(outgoing_[static_cast<std::size_t>(j)], blocks, each);
    }
    template <class Each>
    void for_incoming(int j, const std::map<std::size_t, std::int32_t>& blocks, Each each) const {
        for_routes(incoming_[static_cast<std::size_t>(j)], blocks, each);
    }
    template <class Each>
    void for_routes(const std::vector<std::size_t>& routes, const std::map<std::size_t, std::int32_t>& blocks,
                    Each& each) const {
        for (const std::size_t k : routes) {
            if (const auto block = blocks.find(costs_.skip_of(k)); block != blocks.end()) {
                each(k, block->second);
            }
        }
    }
    void list_routes() {
        for (std::size_t k = 0; k < graph_.shape().skips.size(); ++k) {
            std::optional<PartitionId> next = route(k).behind(route(k).from);
            if (next) {
                outgoing_[route(k).from.index()].push_back(k);
            }
            for (; next; next = route(k).behind(*next)) {
                incoming_[next->index()].push_back(k);
            }
        }
    }

    void add_constants(LayerRange layers, LaneId lane, int versions) {
        const OptimizerStates states = optimizer_states(options_, profile_.dtype);
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = profile_.layers[l];
            for (int version = 0; version < versions; ++version) {
                add_constant(lane, parameters, layer.parameter_bytes);
            }
            add_constant(lane, parameters, layer.buffer_bytes);
            add_constant(lane, gradients, layer.gradient_bytes);
            add_constant(lane, optimizer, states.of(layer));
        }
    }
    /// What of a route of shared parameters is on its way, or waits.
    struct SharedStorages {
        Id values = 0;
        Id gradients = 0;  // on the user's lane
        Id arrived = 0;    // on the holder's
        bool has_begun = false;
    };
    /// The values that came for the partition replace the copy.
    void use_shared_values(int partition) {
        for (std::size_t k = 0; k < shared_.size(); ++k) {
            if (graph_.shape().shared[k].users.front().value() == partition) {
                storages_.release(std::exchange(shared_[k].values, 0));
            }
        }
    }
    /// The first backward of a route's users makes the gradients.
    void make_shared_gradients(const Task& task) {
        const TaskKey second_half{0, TaskKind::backward_weight, task.key.partition, task.key.micro_batch, -1};
        if (shared_.empty() || (task.key.kind == TaskKind::backward && graph_.find(second_half))) {
            return;
        }
        for (std::size_t k = 0; k < shared_.size(); ++k) {
            const SharedRoute& way = graph_.shape().shared[k];
            const bool is_user = std::ranges::find(way.users, PartitionId{task.key.partition}) != way.users.end();
            if (way.trains && is_user && !std::exchange(shared_[k].has_begun, true)) {
                shared_[k].gradients = storages_.take(task.lane, gradients, costs_.shared_bytes(k).gradient_bytes);
            }
        }
    }
    void arrive_shared(const Task& task) {
        SharedStorages& here = shared_[static_cast<std::size_t>(task.key.skip)];
        const bool is_forward = task.key.kind == TaskKind::shared_forward;
        (is_forward ? here.values : here.arrived) =
            storages_.take(task.receiver, is_forward ? parameters : gradients, costs_.bytes(task.key));
    }
    void leave_shared(const Task& task) {
        if (task.key.kind == TaskKind::shared_forward) {
            return;
        }
        SharedStorages& here = shared_[static_cast<std::size_t>(task.key.skip)];
        if (shares_storage(task.lane, task.receiver)) {
            storages_.move(here.gradients, task.receiver, gradients);
            here.arrived = std::exchange(here.gradients, 0);
        } else {
            storages_.release(std::exchange(here.gradients, 0));
        }
    }

    void add_constant(LaneId lane, MemoryCategory category, Bytes bytes) {
        ledger(lane).add(category, bytes, Nanoseconds{0});
        reserved_.take(lane, bytes);
    }

    void start(const Task& task) {
        switch (task.key.kind) {
            case TaskKind::forward:
            case TaskKind::recompute: start_forward(task); break;
            case TaskKind::backward: start_backward(task); break;
            case TaskKind::backward_weight: start_backward_weight(task); break;
            case TaskKind::loss: start_loss(task); break;
            case TaskKind::all_reduce:
                if (options_.gradient_bucket ==
                    0) {  // otherwise beside a backward, on devices that need no bucket here
                    start_all_reduce(task);
                }
                break;
            default:
                if (is_copy(task.key.kind) && !shares_storage(task.lane, task.receiver)) {
                    arrive(task);
                }
                break;
        }
    }

    Phase phase_of(const Task& task) const {
        return task.key.kind == TaskKind::recompute  ? Phase::recompute
               : task.key.kind == TaskKind::backward ? Phase::backward
               : checkpointed(task.key.micro_batch)  ? Phase::checkpointed_forward
                                                     : Phase::forward;
    }
    BoundBlocks given_values(Cell at) {
        BoundBlocks bound;
        bound.bind(work(at).tape().inputs, cell(at).inputs);
        bound.bind(work(at).tape().popped, cell(at).rare().popped, costs_);
        return bound;
    }
    BoundBlocks given_gradients(Cell at) {
        BoundBlocks bound;
        bound.bind(work(at).tape().output_gradients, cell(at).output_gradients);
        bound.bind(work(at).tape().stash_gradients, cell(at).rare().stash_gradients, costs_);
        return bound;
    }

    /// Storages on the lane that only these slots hold and whose blocks all satisfy `goes`. Valid until the next call.
    template <class Goes>
    const std::vector<PartitionWork::Going>& going(const BoundBlocks& bound, LaneId lane, Goes goes) {
        going_.clear();
        const auto& slots = bound.slots();
        for (const auto* slot = slots.begin(); slot != slots.end(); ++slot) {
            const Id id = slot->id;
            const auto is_same = [id](const BlockStorage& each) { return each.id == id; };
            if (std::any_of(slots.begin(), slot, is_same) || !storages_.is_on(id, lane) ||
                storages_.holders(id) != bound.slots_of(id)) {
                continue;
            }
            PartitionWork::Going each;
            each.bytes = storages_.bytes(id);
            bool all_go = true;
            for (const auto* other = slot; other != slots.end(); ++other) {
                if (is_same(*other)) {
                    each.blocks.push_back(other->block);
                    all_go = all_go && goes(other->block);
                }
            }
            if (all_go) {
                std::ranges::sort(each.blocks);
                each.blocks.truncate(std::unique(each.blocks.begin(), each.blocks.end()));
                going_.push_back(std::move(each));
            }
        }
        std::ranges::sort(going_);
        return going_;
    }

    void start_forward(const Task& task) {
        const Cell at = cell_of(task.key);
        use_shared_values(at.j.value());
        PartitionWork& here = work(at);
        const Phase phase = phase_of(task);
        if (phase != Phase::recompute) {
            hand_on_skips(at);
        }
        const BoundBlocks bound = given_values(at);
        going_.clear();
        if (phase != Phase::checkpointed_forward) {
            going(bound, task.lane, [&](std::int32_t block) {
                return !here.keeps(block) && (phase == Phase::recompute || !leaves(here.tape(), block));
            });
        }
        start_work(task, phase, bound, going_);
    }
    /// Another partition of the lane may pop what this one popped.
    void hand_on_skips(Cell at) {
        for (const auto& [k, id] : cell(at).rare().popped) {
            if (const std::optional<PartitionId> next = route(k).behind(at.j)) {
                storages_.hold(id);
                cell({at.i, *next}).with_rare().popped[k] = id;
            }
        }
    }
    static bool holds(const std::vector<std::int32_t>& blocks, const std::map<std::size_t, std::int32_t>& of_skips,
                      std::int32_t block) {
        return std::ranges::find(blocks, block) != blocks.end() ||
               std::ranges::any_of(of_skips, [&](const auto& each) { return each.second == block; });
    }
    /// True if the partition passes the block on.
    static bool leaves(const PartitionTape& tape, std::int32_t block) {
        return holds(tape.outputs, tape.stashed, block);
    }
    static bool leaves_as_gradient(const PartitionTape& tape, std::int32_t block) {
        return holds(tape.input_gradients, tape.pop_gradients, block);
    }

    void start_backward(const Task& task) {
        const Cell at = cell_of(task.key);
        const int j = at.j.value();
        PartitionWork& here = work(at);
        drop_unwanted_gradients(at);
        add_stash_gradients(at);
        BoundBlocks bound = given_gradients(at);
        for (const auto& [block, id] : cell(at).kept) {
            bound.bind(block, id);
        }
        start_work(task, Phase::backward, bound, going(bound, task.lane, [&](std::int32_t block) {
                       return (!leaves_as_gradient(here.tape(), block) || j == 0) && !here.keeps_between(block);
                   }));
    }
    void start_backward_weight(const Task& task) {
        BoundBlocks bound;
        for (const auto& [block, id] : cell(cell_of(task.key)).kept) {
            bound.bind(block, id);
        }
        start_work(task, Phase::backward_weight, bound, going(bound, task.lane, [](std::int32_t) { return true; }));
    }
    /// Drops gradients of outputs that need none. The partition above a checkpointed one cannot tell and computes all.
    void drop_unwanted_gradients(Cell at) {
        const PartitionTape& tape = work(at).tape();
        CellBlocks& here = cell(at);
        for (std::size_t k = 0; k < std::min(tape.output_gradients.size(), here.output_gradients.size()); ++k) {
            if (tape.output_gradients[k] == 0) {
                storages_.release(std::exchange(here.output_gradients[k], 0));
            }
        }
        if (RareBlocks* const rare = here.rare_blocks()) {
            std::erase_if(rare->stash_gradients, [&](const auto& each) {
                const bool is_unwanted = !tape.stash_gradients.contains(costs_.skip_of(each.first));
                storages_.release(is_unwanted ? each.second : 0);
                return is_unwanted;
            });
        }
    }
    /// Adds what has come for one skip by several routes.
    void add_stash_gradients(Cell at) {
        RareBlocks* const rare = cell(at).rare_blocks();
        if (rare == nullptr || rare->stash_gradients.size() < 2) {
            return;
        }
        SkipSlots first;
        for (const auto& [k, id] : rare->stash_gradients) {
            const auto same = std::ranges::find_if(
                first, [&, k = k](const auto& each) { return costs_.skip_of(each.first) == costs_.skip_of(k); });
            add_gradient(first, same == first.end() ? k : same->first, id, at);
        }
        rare->stash_gradients = std::move(first);
    }
    /// Puts a gradient of a skip into its slot, or adds it to the one there: in place if nothing else holds that.
    void add_gradient(SkipSlots& slots, std::size_t k, Id id, Cell at) {
        const auto [slot, is_new] = slots.emplace(k, id);
        if (is_new) {
            return;
        }
        if (storages_.holders(slot->second) != 1) {
            const Id sum = storages_.take(lane_of(at), skip, costs_.sized(at.i.value()).skips[costs_.skip_of(k)]);
            storages_.release(std::exchange(slot->second, sum));
        }
        storages_.release(id);
    }
    /// Schedules a task's parts on the clock and its blocks on the device. `going`: freed storages among `given`.
    void start_work(const Task& task, Phase phase, const BoundBlocks& given,
                    const std::vector<PartitionWork::Going>& going) {
        PartitionWork& here = work(cell_of(task.key));
        const auto duration = static_cast<double>((task_end_ - now_).count());
        spans_.clear();
        for (const WorkPart& part : here.parts(phase, going)) {
            spans_.push_back({now_ + Nanoseconds{std::llround(part.end * duration)}, part.peak});
        }
        const bool is_last = phase == Phase::backward && task.key.partition == last();
        ledger(task.lane).start_work(spans_, is_last ? output : copy);
        if (reserved_.has(task.lane)) {
            play_blocks(task, phase, given, going);
        }
    }
    void play_blocks(const Task& task, Phase phase, const BoundBlocks& given,
                     const std::vector<PartitionWork::Going>& going) {
        RareBlocks& here = cell(cell_of(task.key)).with_rare();
        const PartitionWork& partition = work(cell_of(task.key));
        for (const PartitionWork::Event& event : partition.events(phase, going)) {
            if (event.going) {
                storages_.free_block(given.of(event.block));
            } else if (event.block > 0) {
                here.task_blocks[event.block] = reserved_.take(task.lane, partition.bytes(event.block));
            } else if (const auto own = here.task_blocks.find(-event.block); own != here.task_blocks.end()) {
                reserved_.free(own->second);
            } else {
                reserved_.free(here.graph_blocks[-event.block]);
            }
        }
        const bool leaves_graph = phase != Phase::backward_weight && (phase != Phase::backward || partition.is_split());
        for (auto& [block, taken] : here.task_blocks) {
            if (leaves_graph && partition.role(block) == Role::own) {
                std::swap(here.graph_blocks[block], taken);
            }
        }
    }
    DeviceBlock taken_by_task(CellBlocks& here, std::int32_t block) {
        RareBlocks* const rare = here.rare_blocks();
        if (rare == nullptr) {
            return {};
        }
        const auto taken = rare->task_blocks.find(block);
        return taken == rare->task_blocks.end() ? DeviceBlock{} : std::exchange(taken->second, {});
    }
    /// Ends a task: frees the blocks it took that nobody holds.
    void free_task_blocks(CellBlocks& here) {
        if (RareBlocks* const rare = here.rare_blocks()) {
            free_blocks(rare->task_blocks);
        }
    }
    void free_blocks(std::map<std::int32_t, DeviceBlock>& blocks) {
        for (auto& [number, block] : blocks) {
            reserved_.free(block);
        }
        blocks.clear();
    }

    /// Bytes of a micro-batch's k-th output. A tensor may be part of a larger storage, but its gradient is not.
    Bytes output_bytes(int i, std::size_t k) {
        const PartitionTape& tape = work(in_last(i)).tape();
        const bool is_each_listed = tape.output_gradients.size() == tape.outputs.size();
        const std::int32_t gradient = is_each_listed ? tape.output_gradients.at(k) : 0;
        return work(in_last(i)).bytes(gradient != 0 ? gradient : tape.outputs.at(k));
    }
    /// Bytes of the k-th output of all micro-batches of a step, as one tensor.
    Bytes whole_output(int step, std::size_t k) {
        Bytes bytes = 0;
        for (int i = begin_of(step); i < begin_of(step + 1); ++i) {
            bytes += output_bytes(i, k);
        }
        return bytes;
    }
    /// First micro-batch of a step.
    int begin_of(int step) const { return step * graph_.shape().micro_batches_per_step(); }
    /// The gathered output has a gradient if any micro-batch needs its part.
    Bytes whole_output_gradient(int step, std::size_t k) {
        Bytes bytes = 0;
        bool is_wanted = false;
        for (int i = begin_of(step); i < begin_of(step + 1); ++i) {
            const Bytes part = memories_.loss_gradients(i).at(k);
            is_wanted = is_wanted || part > 0;
            bytes += part > 0 ? part : output_bytes(i, k);
        }
        return is_wanted ? bytes : 0;
    }
    void start_loss(const Task& task) {
        const int i = task.key.micro_batch;
        if (!loss_is_gathered()) {
            for (const Bytes bytes : memories_.loss_gradients(i)) {
                cell(in_last(i)).output_gradients.push_back(storages_.take(task.lane, output, bytes));
            }
            start_loss_work(task.lane, i, costs_.sized(i).samples, false);
            return;
        }
        const int step = task.key.step;
        const int begin = begin_of(step);
        const int end = begin_of(step + 1);
        const int m = end - begin;
        const PartitionTape& tape = work(in_last(0)).tape();
        for (std::size_t k = 0; m > 1 && k < tape.outputs.size(); ++k) {  // a single one is passed through
            gathered_.push_back(storages_.take(task.lane, output, whole_output(step, k)));
            for (int j = begin; j < end; ++j) {
                storages_.release(std::exchange(cell(in_last(j)).outputs[k], 0));
            }
        }
        for (std::size_t k = 0; k < memories_.loss_gradients(0).size(); ++k) {
            const Id gradient = storages_.take(task.lane, output, whole_output_gradient(step, k), m);
            for (int j = begin; j < end; ++j) {
                cell(in_last(j)).output_gradients.push_back(gradient);
            }
        }
        start_loss_work(task.lane, 0, replica_batch(options_), m > 1);
    }
    /// `i`: any micro-batch whose output the loss takes.
    void start_loss_work(LaneId lane, int i, std::int64_t samples, bool is_gathered) {
        const Bytes transient_bytes = loss_transient(profile_, samples, is_gathered, memories_.outputs_ask(i));
        const WorkSpan whole{task_end_, {0, 0, 0, transient_bytes}};
        ledger(lane).start_work({&whole, 1}, output);
        DeviceBlock meanwhile = reserved_.take(lane, transient_bytes);
        reserved_.free(meanwhile);
    }

    void end(const Task& task) {
        switch (task.key.kind) {
            case TaskKind::forward: end_forward(task); break;
            case TaskKind::recompute: end_recompute(task); break;
            case TaskKind::backward:
                end_backward(task);
                make_shared_gradients(task);
                break;
            case TaskKind::shared_sum:
                storages_.release(std::exchange(shared_[static_cast<std::size_t>(task.key.skip)].arrived, 0));
                break;
            case TaskKind::backward_weight:
                ledger(task.lane).end_work();
                release_graph(task);
                free_task_blocks(cell(cell_of(task.key)));
                make_shared_gradients(task);
                break;
            case TaskKind::loss: end_loss(task); break;
            case TaskKind::all_reduce:
                if (options_.gradient_bucket == 0) {
                    ledger(task.lane).end_work();
                }
                break;
            default:
                if (is_copy(task.key.kind)) {
                    leave(task);
                }
                break;
        }
        sample(task.lane, now_, task.key);
        for (const LaneId lane : storages_.touched()) {
            if (lane != task.lane) {
                sample(lane, now_, task.key);
            }
        }
        storages_.clear_touched();
    }

    /// Creates the graph of (i, j). Inputs that it keeps stay; the rest are freed.
    void keep_graph(Cell at) {
        CellBlocks& here = cell(at);
        const PartitionWork& partition = work(at);
        here.has_graph = true;
        const BoundBlocks bound = given_values(at);
        for (const auto& [block, id] : bound.slots()) {
            if (partition.keeps(block) && !here.keeps(block)) {
                here.kept.push_back({block, id});
            } else {
                storages_.release(id);
            }
        }
        here.inputs.clear();
        if (RareBlocks* const rare = here.rare_blocks()) {
            rare->popped.clear();
        }
        ledger(lane_of(at)).add(saved, partition.graph(), now_);
    }

    void end_forward(const Task& task) {
        const Cell at = cell_of(task.key);
        const int j = at.j.value();
        CellBlocks& here = cell(at);
        PartitionWork& partition = work(at);
        const PartitionTape& tape = partition.tape();
        const bool keeps_graph = !checkpointed(at.i.value());
        ledger(task.lane).end_work();
        BoundBlocks bound = given_values(at);
        const auto hand_on = [&](std::int32_t block) {
            if (bound.has(block)) {
                storages_.hold(bound.of(block));
            }
        };
        std::ranges::for_each(tape.outputs, hand_on);  // inputs that are passed on
        for_outgoing(j, tape.stashed, [&](std::size_t, std::int32_t block) { hand_on(block); });
        if (keeps_graph) {
            keep_graph(at);
        }
        // A storage that stays here for the graph is saved; one for another lane of the device counts as copy.
        const auto slot_of = [&](std::int32_t block, MemoryCategory category, bool stays) {
            if (block != 0 && !bound.has(block)) {
                const bool kept = keeps_graph && partition.keeps(block);
                bound.bind(block,
                           storages_.take(task.lane, kept && stays ? saved : category, partition.bytes(block),
                                          (kept ? 1 : 0) + slots_of(tape, block, j), taken_by_task(here, block)));
                if (kept) {
                    here.kept.push_back({block, bound.of(block)});
                }
            }
            return bound.of(block);
        };
        const bool next_is_here = j < last() && lane_of(at, j + 1) == task.lane;
        for (const std::int32_t block : tape.outputs) {
            here.outputs.push_back(slot_of(block,
                                           j == last()    ? output
                                           : next_is_here ? boundary
                                                          : copy,
                                           j == last() || !shares_storage(task.lane, lane_of(at, j + 1))));
        }
        for_outgoing(j, tape.stashed, [&](std::size_t k, std::int32_t block) {
            const LaneId to = lane_of({at.i, *route(k).behind(at.j)});
            here.with_rare().stashed[k] = slot_of(block, skip, !shares_storage(task.lane, to));
        });
        free_task_blocks(here);
        pass_to_same_lane(at);
    }
    int slots_of(const PartitionTape& tape, std::int32_t block, int j) const {
        auto slots = std::ranges::count(tape.outputs, block);
        for_outgoing(j, tape.stashed, [&](std::size_t, std::int32_t stashed) { slots += stashed == block ? 1 : 0; });
        return static_cast<int>(slots);
    }
    /// Passes tensors to a partition of the same lane without a copy.
    void pass_to_same_lane(Cell at) {
        const int j = at.j.value();
        CellBlocks& here = cell(at);
        if (j < last() && lane_of(at, j + 1) == lane_of(at)) {
            cell({at.i, PartitionId{at.j.value() + 1}}).inputs = std::exchange(here.outputs, {});
        }
        if (RareBlocks* const rare = here.rare_blocks()) {
            std::erase_if(rare->stashed, [&](const auto& each) {
                const Cell to{at.i, *route(each.first).behind(at.j)};
                if (lane_of(to) == lane_of(at)) {
                    cell(to).with_rare().popped[each.first] = each.second;
                }
                return lane_of(to) == lane_of(at);
            });
        }
    }

    /// Allocates again the outputs that the graph keeps, whatever happened to the first ones.
    void end_recompute(const Task& task) {
        const Cell at = cell_of(task.key);
        CellBlocks& here = cell(at);
        const PartitionWork& partition = work(at);
        ledger(task.lane).end_work();
        keep_graph(at);
        const std::vector<TapeBlock>& blocks = partition.tape().tape.blocks;
        for (std::size_t b = 0; b < blocks.size(); ++b) {
            const auto block = static_cast<std::int32_t>(b) + 1;
            if (blocks[b].role == Role::output && partition.keeps(block)) {
                here.kept.push_back(
                    {block, storages_.take(task.lane, saved, blocks[b].bytes, 1, taken_by_task(here, block))});
            }
        }
        free_task_blocks(here);
    }

    void end_backward(const Task& task) {
        const Cell at = cell_of(task.key);
        const int j = at.j.value();
        CellBlocks& here = cell(at);
        const PartitionWork& partition = work(at);
        const PartitionTape& tape = partition.tape();
        ledger(task.lane).end_work();
        BoundBlocks bound = given_gradients(at);
        const auto pass_through = [&](std::int32_t block) { storages_.hold(bound.of(block)); };
        if (j > 0) {
            std::ranges::for_each(tape.input_gradients, pass_through);
        }
        for (const auto& [k, block] : tape.pop_gradients) {
            pass_through(block);
            if (bound.has(block)) {
                storages_.move(bound.of(block), task.lane, skip);
            }
        }
        if (partition.is_split()) {
            keep_for_weights(task);
        } else {
            release_graph(task);
        }
        const auto slot_of = [&](std::int32_t block, MemoryCategory category) {
            if (block != 0 && !bound.has(block)) {
                const bool kept = partition.keeps_between(block);
                bound.bind(block, storages_.take(task.lane, category, partition.bytes(block),
                                                 gradient_slots_of(tape, block, j) + (kept ? 1 : 0),
                                                 taken_by_task(here, block)));
                if (kept) {
                    here.kept.push_back({block, bound.of(block)});
                }
            }
            return bound.of(block);
        };
        SkipSlots gradients;
        for_incoming(j, tape.pop_gradients,
                     [&](std::size_t k, std::int32_t block) { gradients[k] = slot_of(block, skip); });
        for (const std::int32_t block : tape.input_gradients) {
            if (j > 0) {
                here.input_gradients.push_back(slot_of(block, copy));  // until sent or used
            } else if (block != 0 && partition.keeps_between(block)) {
                slot_of(block, saved);
            }
        }
        free_task_blocks(here);
        return_to_same_lane(at);
        for (const auto& [k, id] : gradients) {
            const auto& [from, to] = route(k);
            const bool is_here = lane_of(at, from.value()) == lane_of(at);
            RareBlocks& target = cell({at.i, is_here ? from : to.front()}).with_rare();
            add_gradient(is_here ? target.stash_gradients : target.pop_gradients, k, id, at);
        }
    }
    static int gradient_slots_of(const PartitionTape& tape, std::int32_t block, int j) {
        const auto inputs = j > 0 ? std::ranges::count(tape.input_gradients, block) : std::ptrdiff_t{0};
        return static_cast<int>(
            inputs + std::ranges::count_if(tape.pop_gradients, [&](const auto& each) { return each.second == block; }));
    }
    void return_to_same_lane(Cell at) {
        const int j = at.j.value();
        CellBlocks& here = cell(at);
        if (j > 0 && lane_of(at, j - 1) == lane_of(at)) {
            cell({at.i, PartitionId{at.j.value() - 1}}).output_gradients = std::exchange(here.input_gradients, {});
        }
    }

    /// Releases all that the backward needed: the graph, its kept tensors and the incoming gradients.
    void release_graph(const Task& task) {
        CellBlocks& here = cell(cell_of(task.key));
        if (std::exchange(here.has_graph, false)) {
            const PartitionWork& partition = work(cell_of(task.key));
            ledger(task.lane).remove(saved, partition.is_split() ? partition.graph_between() : partition.graph(), now_);
        }
        for (const auto& [block, id] : here.kept) {
            storages_.release(id);
        }
        here.kept.clear();
        RareBlocks* const rare = here.rare_blocks();
        if (rare != nullptr) {
            free_blocks(rare->graph_blocks);
        }
        storages_.release(here.output_gradients);
        if (rare != nullptr) {
            release(rare->stash_gradients);
        }
    }
    /// Releases all that the second half of a split backward does not need.
    void keep_for_weights(const Task& task) {
        CellBlocks& here = cell(cell_of(task.key));
        const PartitionWork& partition = work(cell_of(task.key));
        if (here.has_graph) {
            ledger(task.lane).remove(saved, partition.graph() - partition.graph_between(), now_);
        }
        here.kept.truncate(std::remove_if(here.kept.begin(), here.kept.end(), [&](const BlockStorage& each) {
            const bool is_done = !partition.keeps_between(each.block);
            storages_.release(is_done ? each.id : 0);
            return is_done;
        }));
        const BoundBlocks gradients = given_gradients(cell_of(task.key));
        for (const auto& [block, id] : gradients.slots()) {
            if (partition.keeps_between(block) && !here.keeps(block)) {
                here.kept.push_back({block, id});
            } else {
                storages_.release(id);
            }
        }
        here.output_gradients.clear();
        if (RareBlocks* const rare = here.rare_blocks()) {
            rare->stash_gradients.clear();
        }
    }
    void release(SkipSlots& slots) {
        for (const auto& [k, id] : slots) {
            storages_.release(id);
        }
        slots.clear();
    }

    void start_all_reduce(const Task& task) {
        Bytes bytes = 0;
        const LayerRange layers = options_.balance.layers_of(PartitionId{task.key.partition});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            bytes += profile_.layers[l].gradient_bytes;
        }
        const WorkSpan whole{
            task_end_,
            {0, 0, 0, memories_.is_host(task.lane) ? all_reduce_bytes(bytes, num_weight_copies(options_)) : 0}};
        ledger(task.lane).start_work({&whole, 1}, output);
    }

    void end_loss(const Task& task) {
        ledger(task.lane).end_work();
        storages_.release(gathered_);
        const int i = task.key.micro_batch;
        const int begin = i < 0 ? begin_of(task.key.step) : i;
        for (int k = begin; k < (i < 0 ? begin_of(task.key.step + 1) : i + 1); ++k) {
            storages_.release(cell(in_last(k)).outputs);
        }
    }

    /// The slots that a copy fills and empties, and the tape's names for them.
    struct CopyEnds {
        Slots* from;
        Slots* to;
        MemoryCategory category;
        const std::vector<std::int32_t>* blocks;  // on the sender's partition
        PartitionId sender;
    };
    /// Like CopyEnds, but a skip has only one slot.
    struct SkipEnds {
        SkipSlots* from;
        SkipSlots* to;
    };
    CopyEnds copy_ends(const TaskKey& key) {
        const Cell here = cell_of(key);
        const Cell next{here.i, PartitionId{here.j.value() + 1}};
        if (key.kind == TaskKind::copy_forward) {
            return {&cell(here).outputs, &cell(next).inputs, boundary, &work(here).tape().outputs, here.j};
        }
        return {&cell(next).input_gradients, &cell(here).output_gradients, copy, &work(next).tape().input_gradients,
                next.j};
    }
    SkipEnds skip_ends(const TaskKey& key) {
        const SkipRoute& way = route(static_cast<std::size_t>(key.skip));
        RareBlocks& stasher = cell({cell_of(key).i, way.from}).with_rare();
        RareBlocks& popper = cell({cell_of(key).i, way.to.front()}).with_rare();
        return key.kind == TaskKind::skip_forward ? SkipEnds{&stasher.stashed, &popper.popped}
                                                  : SkipEnds{&popper.pop_gradients, &stasher.stash_gradients};
    }
    static bool is_skip(TaskKind kind) { return kind == TaskKind::skip_forward || kind == TaskKind::skip_backward; }

    /// If the receiver is on another device, it allocates when the copy starts.
    void arrive(const Task& task) {
        if (is_of_shared(task.key.kind)) {
            arrive_shared(task);
            return;
        }
        if (is_skip(task.key.kind)) {
            const SkipEnds ends = skip_ends(task.key);
            const auto k = static_cast<std::size_t>(task.key.skip);
            if (ends.from->contains(k)) {
                (*ends.to)[k] = storages_.take(task.receiver, skip, costs_.bytes(task.key));
            }
            return;
        }
        const CopyEnds ends = copy_ends(task.key);
        for (const std::int32_t block : *ends.blocks) {
            // Copies a part of a larger storage without the rest.
            const Bytes bytes = ends.blocks->size() == 1 ? costs_.bytes(task.key)
                                : block == 0             ? 0
                                                         : work({cell_of(task.key).i, ends.sender}).bytes(block);
            ends.to->push_back(block == 0 ? 0 : storages_.take(task.receiver, ends.category, bytes));
        }
    }
    /// Frees the sender's storages; on one device they pass to the receiver.
    void leave(const Task& task) {
        const bool shared = shares_storage(task.lane, task.receiver);
        if (is_of_shared(task.key.kind)) {
            leave_shared(task);
            return;
        }
        if (is_skip(task.key.kind)) {
            const SkipEnds ends = skip_ends(task.key);
            const auto slot = ends.from->find(static_cast<std::size_t>(task.key.skip));
            if (slot == ends.from->end()) {
                return;
            }
            if (shared) {
                storages_.move(slot->second, task.receiver, skip);
                (*ends.to)[slot->first] = slot->second;
            } else {
                storages_.release(slot->second);
            }
            ends.from->erase(slot);
            return;
        }
        const CopyEnds ends = copy_ends(task.key);
        if (shared) {
            for (const Id id : *ends.from) {
                storages_.move(id, task.receiver, ends.category);
            }
            *ends.to = std::exchange(*ends.from, {});
        } else {
            storages_.release(*ends.from);
        }
    }

    void sample(LaneId lane, Nanoseconds time, const TaskKey& task) {
        sample(lane, time, static_cast<std::int64_t>(pack(task)));
    }
    void sample(LaneId lane, Nanoseconds time, std::int64_t task) {
        if (!with_samples_) {
            return;
        }
        LaneLedger& here = ledger(lane);
        const Bytes peak = here.take_peak();
        samples_.push_back(
            {lane, time, here.held(), std::max(peak, here.held()), reserved_.reserved(lane), task, here.composition()});
    }

    const Profile& profile_;
    const PipelineOptions& options_;
    const TaskCosts& costs_;
    const TaskGraph& graph_;
    Schedule schedule_;
    StepMemories memories_;
    std::vector<LaneLedger> ledgers_;
    ReservedMemory reserved_;
    bool with_samples_;
    StepStorages storages_;
    std::vector<CellBlocks> cells_;
    std::vector<std::vector<std::size_t>> outgoing_;  // by partition: the routes of skips that leave it
    std::vector<std::vector<std::size_t>> incoming_;
    Slots gathered_;                           // the last partition's outputs of the whole mini-batch during the loss
    std::vector<SharedStorages> shared_;       // by route
    std::vector<WorkSpan> spans_;              // of the starting task
    std::vector<PartitionWork::Going> going_;  // of the starting task
    Nanoseconds task_end_{0};                  // of the current task
    Nanoseconds now_{0};
    std::vector<MemorySample> samples_;
};
}  // namespace

MemoryUse memory_use(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                     const TaskGraph& graph, std::span<const std::int64_t> starts, std::span<const std::int64_t> ends,
                     bool with_reserved, bool with_samples) {
    MemoryWalk walk(profile, options, costs, graph, with_reserved, with_samples);
    walk.run(starts, ends);
    return walk.use();
}
}  // namespace pipescope
