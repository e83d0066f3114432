// Lays a graph out for an EventEngine before its first run.

#include "simulator/clock/event_engine.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

namespace pipescope {
EventEngine::EventEngine(const TaskGraph& graph, SharedResources resources)
    : resources_(std::move(resources)), num_tasks_(graph.tasks().size()) {
    build_orders(graph);
    build_launches(graph);
    order_first_.push_back(static_cast<Index>(order_.size()));
    build_dependents(graph);
    for (const std::vector<double>& speeds : resources_.speeds) {
        Server& server = servers_.emplace_back(Server{.speeds = speeds, .paces = {}, .active = {}, .turns = {}});
        for (const double speed : speeds) {
            server.paces.push_back(1 / speed);
        }
        server.active.reserve(speeds.size());
    }
    const std::size_t lanes = resources_.server_of_lane.size();
    for (const std::size_t server : resources_.server_of_lane) {
        const auto count = std::ranges::count(resources_.server_of_lane, server);
        const std::size_t cores = servers_[server].speeds.size();
        if (static_cast<std::size_t>(count) > cores && !servers_[server].turns) {
            servers_[server].turns.emplace(lanes, cores);
        }
    }
    queued_.resize(lanes);
    build_passing(graph);
    for (std::size_t worker = 0; worker < server_of_.size(); ++worker) {
        const bool shares = worker >= lanes && servers_[server_of_[worker]].speeds.size() > 1;
        shares_link_.push_back(shares && resources_.link_latency_ns > 0 ? 1 : 0);
    }
    latency_server_ = servers_.size();
    if (const auto channels = static_cast<std::size_t>(std::ranges::count(shares_link_, 1)); channels > 0) {
        const std::vector<double> full(channels, 1);
        servers_.push_back({.speeds = full, .paces = full, .active = {}, .turns = {}});
    }
    // Each launcher has its own server.
    for (std::size_t worker = server_of_.size(); worker + 1 < order_first_.size(); ++worker) {
        server_of_.push_back(servers_.size());
        servers_.push_back({.speeds = {1}, .paces = {1}, .active = {}, .turns = {}});
        shares_link_.push_back(0);
    }
    if (resources_.ports) {
        port_shares_.emplace(resources_.route_of_channel);
    }
    next_end_.reserve(2 * std::bit_ceil(servers_.size()));
    server_of_leaf_.reserve(servers_.size());
    leaf_of_.resize(servers_.size());
    const std::size_t count = tasks_.size();
    taken_.resize(count);
    if (count > num_tasks_) {
        own_work_.resize(count);
        own_start_.resize(count);
        own_end_.resize(count);
    }
    position_.resize(order_first_.size() - 1);
    busy_.resize(order_first_.size() - 1);
    for (const std::size_t server : server_of_) {
        takes_turns_.push_back(servers_[server].turns ? 1 : 0);
    }
}

void EventEngine::build_orders(const TaskGraph& graph) {
    tasks_.resize(num_tasks_);
    enters_.assign(num_tasks_, 0);
    leaves_.assign(num_tasks_, 0);
    const auto add = [&](std::span<const TaskIndex> tasks, std::size_t server) {
        order_first_.push_back(static_cast<Index>(order_.size()));
        for (const TaskIndex task : tasks) {
            tasks_[task].worker = static_cast<Index>(order_first_.size() - 1);
            order_.push_back(static_cast<Index>(task));
        }
        server_of_.push_back(server);
    };
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        add(graph.lane_order(LaneId{lane}), resources_.server_of_lane.at(static_cast<std::size_t>(lane)));
    }
    for (std::size_t k = 0; k < graph.channels().size(); ++k) {
        add(graph.channels()[k].order, resources_.server_of_channel.at(k));
    }
    entry_lane_ = static_cast<Index>(graph.shape().lane_of(PartitionId{0}).index());
    for (std::size_t task = 0; task < num_tasks_; ++task) {
        const TaskKey& key = graph.tasks()[task].key;
        enters_[task] = key.partition == 0 && key.kind == TaskKind::forward ? 1 : 0;
        leaves_[task] = key.partition == 0 && key.kind == TaskKind::backward ? 1 : 0;
        micro_batch_of_.push_back(key.micro_batch);
    }
}

/// Adds a launch for each task, numbered after the graph's tasks, on the process's launcher.
void EventEngine::build_launches(const TaskGraph& graph) {
    const auto add = [&](std::size_t task) {
        order_.push_back(static_cast<Index>(tasks_.size()));
        tasks_.emplace_back().worker = static_cast<Index>(order_first_.size() - 1);
        dependents_.push_back(static_cast<Index>(task));  // of the launch; sorted below
    };
    if (resources_.has_releases) {  // one launcher, which prepare_launches() gives its order
        order_first_.push_back(static_cast<Index>(order_.size()));
        for (std::size_t task = 0; task < num_tasks_; ++task) {
            add(task);
        }
    }
    if (resources_.launch_ns.empty()) {
        return;
    }
    const std::size_t processes = 1 + *std::ranges::max_element(resources_.process_of_lane);
    for (std::size_t process = 0; process < processes; ++process) {
        order_first_.push_back(static_cast<Index>(order_.size()));
        for (std::size_t task = 0; task < num_tasks_; ++task) {
            const std::size_t lane = graph.tasks()[task].lane.index();
            if (resources_.launch_ns[task] > 0 && resources_.process_of_lane[lane] == process) {
                add(task);
            }
        }
    }
}

/// By task: the copies whose receives are posted once it ends. A receive is posted no later than those of the copies
/// behind it in its channel. So these edges close no circle: whatever waits for a copy, or for one behind it, comes
/// after that task on its lane.
std::vector<std::vector<EventEngine::Index>> EventEngine::late_receives(const TaskGraph& graph) const {
    std::vector<std::vector<Index>> copies(num_tasks_);
    std::vector<std::size_t> position(num_tasks_);
    for (std::size_t k = 0; k < order_.size(); ++k) {
        if (order_[k] < num_tasks_) {
            position[order_[k]] = k;
        }
    }
    const auto lanes = static_cast<std::size_t>(graph.num_lanes());
    for (std::size_t k = 0; k < resources_.is_received_late.size(); ++k) {
        if (!resources_.is_received_late[k]) {
            continue;
        }
        std::size_t first = order_.size();  // of the tasks that wait for this copy or one behind it
        const std::vector<TaskIndex>& order = graph.channels()[k].order;
        for (auto copy = order.rbegin(); copy != order.rend(); ++copy) {
            for (const TaskIndex dependent : graph.dependents(*copy)) {
                first = tasks_[dependent].worker < lanes ? std::min(first, position[dependent]) : first;
            }
            if (first < order_.size() && first > order_first_[tasks_[order_[first]].worker]) {
                copies[order_[first - 1]].push_back(static_cast<Index>(*copy));
            }
        }
    }
    return copies;
}

void EventEngine::build_dependents(const TaskGraph& graph) {
    const std::vector<Index> launched = std::move(dependents_);
    const std::vector<std::vector<Index>> received_late = late_receives(graph);
    dependents_.clear();
    needs_.assign(tasks_.size(), 0);
    for (std::size_t task = 0; task < num_tasks_; ++task) {
        all_dependents_first_.push_back(static_cast<Index>(all_dependents_.size()));
        needs_[task] += static_cast<Index>(graph.dependencies(task).size());
        for (const TaskIndex dependent : graph.dependents(task)) {
            all_dependents_.push_back(static_cast<Index>(dependent));
        }
        for (const Index copy : received_late[task]) {
            all_dependents_.push_back(copy);
            ++needs_[copy];
        }
    }
    for (const Index task : launched) {
        all_dependents_first_.push_back(static_cast<Index>(all_dependents_.size()));
        all_dependents_.push_back(task);
        ++needs_[task];
    }
    all_dependents_first_.push_back(static_cast<Index>(all_dependents_.size()));
    for (std::size_t launch = num_tasks_; launch < tasks_.size(); ++launch) {
        enters_.push_back(0);
        leaves_.push_back(0);
        micro_batch_of_.push_back(-1);
    }
    is_in_.resize(static_cast<std::size_t>(graph.shape().num_micro_batches));
}

/// Finds channels that change nothing if their copies are free: each copy waits for one task, and those tasks run on
/// one lane in the channel's order. Excludes cases that depend on who asks for a core first or which task may run.
void EventEngine::build_passing(const TaskGraph& graph) {
    const std::size_t workers = order_first_.size() - 1;
    may_pass_.assign(workers, 0);
    source_.assign(num_tasks_, 0);
    const bool matters = resources_.most_in_flight != 0 || tasks_.size() > num_tasks_ ||
                         std::any_of(servers_.begin(), servers_.end(), [](const Server& each) { return each.turns; });
    std::vector<Index> position(tasks_.size());
    for (std::size_t k = 0; k < order_.size(); ++k) {
        position[order_[k]] = static_cast<Index>(k);
    }
    const auto lanes = static_cast<std::size_t>(graph.num_lanes());
    for (std::size_t worker = lanes; !matters && worker < workers; ++worker) {
        const std::span<const Index> order(order_.data() + order_first_[worker],
                                           order_.data() + order_first_[worker + 1]);
        bool in_step = resources_.is_received_late.empty() || !resources_.is_received_late[worker - lanes];
        for (std::size_t k = 0; in_step && k < order.size(); ++k) {
            const auto needed = graph.dependencies(order[k]);
            in_step = needed.size() == 1;
            source_[order[k]] = in_step ? static_cast<Index>(needed[0]) : 0;
            const Index source = source_[order[k]];
            in_step = in_step && tasks_[source].worker < lanes &&
                      (k == 0 || (tasks_[source].worker == tasks_[source_[order[k - 1]]].worker &&
                                  position[source_[order[k - 1]]] <= position[source]));
        }
        may_pass_[worker] = in_step ? 1 : 0;
    }
}
}  // namespace pipescope
