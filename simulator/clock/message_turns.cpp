#include "simulator/clock/message_turns.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace pipescope {
namespace {
/// The lane's messages in the order of its tasks.
std::vector<TaskIndex> messages_of(const TaskGraph& graph, LaneId lane, const std::vector<bool>& is_message,
                                   std::vector<char>& seen) {
    std::vector<TaskIndex> messages;
    const auto add = [&](TaskIndex copy, LaneId end) {
        if (is_message[copy] && end == lane && seen[copy] == 0) {
            seen[copy] = 1;
            messages.push_back(copy);
        }
    };
    for (const TaskIndex task : graph.lane_order(lane)) {
        for (const TaskIndex before : graph.dependencies(task)) {
            add(before, graph.tasks()[before].receiver);
        }
        for (const TaskIndex after : graph.dependents(task)) {
            add(after, graph.tasks()[after].lane);
        }
    }
    std::ranges::for_each(messages, [&](TaskIndex copy) { seen[copy] = 0; });
    return messages;
}

/// Puts all tasks in an order in which each follows those that it waits for, and drops turns that would close a cycle.
class TurnOrder {
public:
    TurnOrder(const TaskGraph& graph, MessageTurns& turns) : turns_(turns) {
        const std::size_t count = graph.tasks().size();
        missing_.resize(count);
        dependents_.resize(count);
        turn_dependents_.resize(count);
        done_.resize(count);
        const auto chain = [&](std::span<const TaskIndex> order) {
            for (std::size_t k = 1; k < order.size(); ++k) {
                add(order[k - 1], order[k]);
            }
        };
        for (int lane = 0; lane < graph.num_lanes(); ++lane) {
            chain(graph.lane_order(LaneId{lane}));
        }
        for (TaskIndex task = 0; task < count; ++task) {
            for (const TaskIndex needed : graph.dependencies(task)) {
                add(needed, task);
            }
            for (const std::uint32_t before : turns_.after[task]) {
                turn_dependents_[before].push_back(static_cast<std::uint32_t>(task));
            }
        }
        for (TaskIndex task = 0; task < count; ++task) {
            if (missing_[task] == 0) {
                reach(static_cast<std::uint32_t>(task));
            }
        }
    }

    void run() {
        while (!ready_.empty() || !held_.empty()) {
            if (ready_.empty()) {
                release();
                continue;
            }
            const std::uint32_t task = *ready_.begin();
            ready_.erase(ready_.begin());
            done_[task] = true;
            turns_.order.push_back(task);
            for (const std::uint32_t next : turn_dependents_[task]) {
                if (held_.contains(next) && is_free(next)) {
                    move_up(next);
                }
            }
            for (const std::uint32_t next : dependents_[task]) {
                if (--missing_[next] == 0) {
                    reach(next);
                }
            }
        }
    }

private:
    void add(TaskIndex before, TaskIndex after) {
        dependents_[before].push_back(static_cast<std::uint32_t>(after));
        ++missing_[after];
    }
    bool is_free(std::uint32_t task) const {
        return std::ranges::all_of(turns_.after[task], [&](std::uint32_t before) { return done_[before]; });
    }
    void reach(std::uint32_t task) { (is_free(task) ? ready_ : held_).insert(task); }
    void move_up(std::uint32_t task) {
        held_.erase(task);
        ready_.insert(task);
    }
    void drop(std::uint32_t before, std::uint32_t after) { std::erase(turns_.after[after], before); }

    /// All that could start waits for a turn. Lets the first messages go that wait for each other, or else the first.
    void release() {
        for (const std::uint32_t one : held_) {
            for (const std::uint32_t other : std::vector(turns_.after[one])) {
                if (held_.contains(other) && std::ranges::find(turns_.after[other], one) != turns_.after[other].end()) {
                    drop(one, other);
                    drop(other, one);
                    for (const std::uint32_t each : {one, other}) {
                        if (is_free(each)) {
                            move_up(each);
                        }
                    }
                    return;
                }
            }
        }
        const std::uint32_t first = *held_.begin();
        std::erase_if(turns_.after[first], [&](std::uint32_t before) { return !done_[before]; });
        move_up(first);
    }

    MessageTurns& turns_;
    std::vector<std::uint32_t> missing_;  // by task: those that it waits for, apart from turns
    std::vector<std::vector<std::uint32_t>> dependents_;
    std::vector<std::vector<std::uint32_t>> turn_dependents_;
    std::vector<bool> done_;
    std::set<std::uint32_t> ready_;
    std::set<std::uint32_t> held_;  // wait for a turn alone
};
}  // namespace

MessageTurns message_turns(const PipelineOptions& options, const TaskGraph& graph) {
    const Hardware& hardware = options.hardware;
    const auto is_in_turn = [](const Link& link) { return link.protocol == LinkProtocol::in_turn; };
    if (!is_in_turn(hardware.link) && std::ranges::none_of(hardware.nearer, is_in_turn, &LinkTier::link) &&
        std::ranges::none_of(hardware.pairs, is_in_turn, &PairLink::link)) {
        return {};
    }
    const auto takes_turns = [&](const Task& copy) {
        const Link& link = link_between(hardware, copy.lane, copy.receiver);
        return is_in_turn(link) && !link.is_free() &&
               !share_device(hardware, copy.lane, copy.receiver, graph.num_lanes());
    };
    const std::size_t count = graph.tasks().size();
    std::vector<bool> is_message(count);
    bool any = false;
    for (TaskIndex task = 0; task < count; ++task) {
        const Task& each = graph.tasks()[task];
        is_message[task] = is_copy(each.key.kind) && takes_turns(each);
        any = any || is_message[task];
    }
    MessageTurns turns;
    if (!any) {
        return turns;
    }
    turns.after.resize(count);
    std::vector<char> seen(count);
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        const std::vector<TaskIndex> messages = messages_of(graph, LaneId{lane}, is_message, seen);
        for (std::size_t k = 1; k < messages.size(); ++k) {
            std::vector<std::uint32_t>& after = turns.after[messages[k]];
            const auto before = static_cast<std::uint32_t>(messages[k - 1]);
            if (std::ranges::find(after, before) == after.end()) {
                after.push_back(before);
            }
        }
    }
    turns.order.reserve(count);
    TurnOrder(graph, turns).run();
    return turns;
}
}  // namespace pipescope
