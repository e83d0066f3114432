#include "simulator/clock/event_engine.h"

#include "base/error.h"
#include "base/quantities.h"
#include "base/stop_check.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

namespace pipescope {
namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kNoTask = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kEventsPerCheck = 256;
constexpr std::size_t kFewLeaves = 8;  // a linear scan is faster than a tournament up to here
}  // namespace

void EventEngine::prepare() {
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
        tasks_[task].missing = needs_[task];
    }
    std::copy(order_first_.begin(), order_first_.end() - 1, position_.begin());
    std::ranges::fill(busy_, 0);
    if (resources_.most_in_flight != 0) {
        std::ranges::fill(taken_, 0);
    }
    std::ranges::fill(is_in_, 0);
    for (Server& server : servers_) {
        server.active.clear();
        if (server.turns) {
            server.turns->reset();
        }
        server.work = server.since = 0;
        server.changed = false;
    }
    finished_ = 0;
    in_flight_ = 0;
    now_ = 0;
}

/// How long each launcher takes for a launch after the one before.
void EventEngine::prepare_launches(std::span<const double> durations, std::span<const double> released) {
    std::copy(durations.begin(), durations.end(), own_work_.begin());
    const auto task_of = [&](std::size_t launch) { return all_dependents_[all_dependents_first_[launch]]; };
    if (released.empty()) {
        for (std::size_t launch = num_tasks_; launch < own_work_.size(); ++launch) {
            own_work_[launch] = resources_.launch_ns[task_of(launch)];
        }
        return;
    }
    const auto launches = std::span(order_).subspan(order_.size() - num_tasks_);
    std::ranges::sort(launches, {}, [&](Index launch) { return std::pair(released[task_of(launch)], launch); });
    double before = 0;
    for (const Index launch : launches) {
        const double time = released[task_of(launch)];
        own_work_[launch] = time - before;
        before = time;
    }
}

void EventEngine::run(std::span<const double> durations, std::span<double> starts, std::span<double> ends,
                      std::span<const double> released) {
    prepare();
    const bool launches = !own_work_.empty();
    if (launches) {
        prepare_launches(durations, released);
    }
    work_ = launches ? std::span<const double>(own_work_) : durations;
    start_ = launches ? std::span<double>(own_start_) : starts;
    end_ = launches ? std::span<double>(own_end_) : ends;
    prepare_workers();
    prepare_tournament();
    for (Index worker = 0; worker < position_.size(); ++worker) {
        try_start(worker);
    }
    settle();
    refresh_changed();
    for (std::size_t event = 0; finished_ + passing_.size() < tasks_.size(); ++event) {
        if (event % kEventsPerCheck == 0) {
            check_stop();
        }
        const std::size_t leaf = next_leaf();
        now_ = next_end_[num_leaves_ + leaf];
        if (now_ == kNever) {
            throw Error("the step can never end with at most " +
                        counted(resources_.most_in_flight, "micro-batch", "micro-batches") +
                        " in flight; the schedule needs more of them at once; raise " + option_name("in-flight"));
        }
        end_next_on(server_of_leaf_[leaf]);
        settle();
        refresh_changed();
    }
    for (const Index copy : passing_) {
        start_[copy] = end_[copy] = end_[source_[copy]];
    }
    if (launches) {
        std::copy_n(own_start_.begin(), num_tasks_, starts.begin());
        std::copy_n(own_end_.begin(), num_tasks_, ends.begin());
    }
}

/// Finds the workers with tasks that take time: often few, since copies within a device are free.
void EventEngine::prepare_workers() {
    bool changed = takes_time_.empty();
    takes_time_.resize(server_of_.size());
    for (std::size_t worker = 0; worker < server_of_.size(); ++worker) {
        const auto first = order_.begin() + order_first_[worker];
        const auto end = order_.begin() + order_first_[worker + 1];
        const char takes_time = std::any_of(first, end, [&](Index task) { return work_[task] > 0; }) ? 1 : 0;
        changed = changed || takes_time_[worker] != takes_time;
        takes_time_[worker] = takes_time;
    }
    if (changed) {
        pass_through();
    }
}

/// Makes tasks that wait for a free copy wait for the copy's source instead.
void EventEngine::pass_through() {
    const auto passes = [&](Index task) {
        const Index worker = tasks_[task].worker;
        return may_pass_[worker] != 0 && takes_time_[worker] == 0;
    };
    passing_.clear();
    dependents_.clear();
    const auto add = [&](Index task) {
        for (Index k = all_dependents_first_[task]; k < all_dependents_first_[task + 1]; ++k) {
            dependents_.push_back(all_dependents_[k]);
        }
    };
    for (Index task = 0; task < tasks_.size(); ++task) {
        tasks_[task].dependents_first = static_cast<Index>(dependents_.size());
        if (passes(task)) {
            passing_.push_back(task);
        } else {
            for (Index k = all_dependents_first_[task]; k < all_dependents_first_[task + 1]; ++k) {
                if (const Index dependent = all_dependents_[k]; passes(dependent)) {
                    add(dependent);
                } else {
                    dependents_.push_back(dependent);
                }
            }
        }
        tasks_[task].dependents_end = static_cast<Index>(dependents_.size());
    }
}

/// Only includes servers with tasks that take time.
void EventEngine::prepare_tournament() {
    std::ranges::fill(leaf_of_, 0);
    for (std::size_t worker = 0; worker < server_of_.size(); ++worker) {
        leaf_of_[server_of_[worker]] |= static_cast<Index>(takes_time_[worker]);
        if (shares_link_[worker] != 0) {
            leaf_of_[latency_server_] |= static_cast<Index>(takes_time_[worker]);
        }
    }
    server_of_leaf_.clear();
    for (std::size_t server = 0; server < servers_.size(); ++server) {
        if (leaf_of_[server] != 0) {
            leaf_of_[server] = static_cast<Index>(server_of_leaf_.size());
            server_of_leaf_.push_back(server);
        }
    }
    num_leaves_ = std::bit_ceil(std::max<std::size_t>(1, server_of_leaf_.size()));
    next_end_.assign(2 * num_leaves_, kNever);
}

/// The leaf whose server ends a task first; ties go to the lowest.
std::size_t EventEngine::next_leaf() const {
    if (num_leaves_ <= kFewLeaves) {
        const double* const first = next_end_.data() + num_leaves_;
        return static_cast<std::size_t>(std::min_element(first, first + num_leaves_) - first);
    }
    std::size_t node = 1;
    while (node < num_leaves_) {
        node = next_end_[2 * node] <= next_end_[2 * node + 1] ? 2 * node : 2 * node + 1;
    }
    return node - num_leaves_;
}

/// The task that the worker would run now, or kNoTask. Under a limit, skips micro-batches not yet admitted.
EventEngine::Index EventEngine::next_of(Index worker) const {
    const Index end = order_first_[worker + 1];
    if (resources_.most_in_flight == 0) {
        return position_[worker] < end ? order_[position_[worker]] : static_cast<Index>(kNoTask);
    }
    const bool is_full = in_flight_ >= resources_.most_in_flight;
    for (Index k = position_[worker]; k < end; ++k) {
        const Index task = order_[k];
        const std::int32_t micro_batch = micro_batch_of_[task];
        if (micro_batch < 0) {  // a loss of all micro-batches, or a sum of gradients: follows everything before it
            return k == position_[worker] ? task : static_cast<Index>(kNoTask);
        }
        const bool may_run = enters_[task] != 0 ? !is_full : is_in_[static_cast<std::size_t>(micro_batch)] != 0;
        if (taken_[task] == 0 && may_run) {
            return task;
        }
    }
    return static_cast<Index>(kNoTask);
}

void EventEngine::try_start(Index worker) {
    if (busy_[worker] != 0) {
        return;
    }
    const Index task = next_of(worker);
    if (task != kNoTask && tasks_[task].missing == 0) {
        start(task);
    }
}

void EventEngine::start(Index task) {
    const Index worker = tasks_[task].worker;
    busy_[worker] = 1;
    if (resources_.most_in_flight != 0) {
        taken_[task] = 1;
        if (enters_[task] != 0) {
            ++in_flight_;
            is_in_[static_cast<std::size_t>(micro_batch_of_[task])] = 1;
        }
        while (position_[worker] < order_first_[worker + 1] && taken_[order_[position_[worker]]] != 0) {
            ++position_[worker];
        }
    } else {
        ++position_[worker];
    }
    if (!(work_[task] > 0)) {
        start_[task] = now_;
        instant_.push_back(task);
        return;
    }
    Server& server = servers_[server_of_[worker]];
    if (takes_turns_[worker] != 0 && !server.turns->holds_core(worker)) {
        queued_[worker] = task;
        server.turns->ask(worker);
        hand_out(server);
    } else {
        start_[task] = now_;
        const bool waits = shares_link_[worker] != 0;
        put_to_work(waits ? servers_[latency_server_] : server, task,
                    waits ? std::min(resources_.link_latency_ns, work_[task]) : work_[task]);
    }
}

void EventEngine::put_to_work(Server& server, Index task, double work) {
    advance(server);
    const double until = server.work + work;
    if (is_ports(server)) {
        server.first = kNone;
    } else if (server.active.empty() || (server.first != kNone && until < server.active[server.first].until)) {
        server.first = server.active.size();
    }
    server.active.push_back({until, task});
    if (!server.changed) {
        server.changed = true;
        changed_.push_back(static_cast<std::size_t>(&server - servers_.data()));
    }
}

void EventEngine::hand_out(Server& server) {
    while (const auto grant = server.turns->grant(now_)) {
        start_[queued_[grant->lane]] = now_;
        put_to_work(server, queued_[grant->lane], work_[queued_[grant->lane]]);
    }
}

void EventEngine::finish(Index task) {
    end_[task] = now_;
    ++finished_;
    const TaskState& ended = tasks_[task];
    const Index worker = ended.worker;
    busy_[worker] = takes_turns_[worker];
    for (Index k = ended.dependents_first; k < ended.dependents_end; ++k) {
        TaskState& dependent = tasks_[dependents_[k]];
        if (--dependent.missing == 0) {
            try_start(dependent.worker);
        }
    }
    if (resources_.most_in_flight != 0 && leaves_[task] != 0) {
        --in_flight_;
        try_start(entry_lane_);
    }
    if (takes_turns_[worker] != 0) {
        released_.push_back(worker);
    } else {
        try_start(worker);
    }
}

/// Starts every task that can start now.
void EventEngine::settle() {
    while (!instant_.empty() || !released_.empty()) {
        if (!instant_.empty()) {
            const Index task = instant_.back();
            instant_.pop_back();
            finish(task);
        } else {
            const Index worker = released_.back();
            released_.pop_back();
            busy_[worker] = 0;
            Server& server = servers_[server_of_[worker]];
            const Index next = next_of(worker);
            const bool has_work = next != kNoTask && tasks_[next].missing == 0;
            if (!has_work || !server.turns->may_keep(worker, now_)) {
                server.turns->give_back(worker);
            }
            try_start(worker);
            hand_out(server);
        }
    }
}

void EventEngine::end_next_on(std::size_t index) {
    Server& server = servers_[index];
    const Active ended = server.active[server.first];
    if (is_ports(server)) {
        advance(server);
    } else {
        server.work = ended.until;
        server.since = now_;
    }
    server.active[server.first] = server.active.back();
    server.active.pop_back();
    server.first = kNone;
    if (!server.changed) {
        server.changed = true;
        changed_.push_back(index);
    }
    const double bytes_left = index == latency_server_ && shares_link_[tasks_[ended.task].worker] != 0
                                  ? work_[ended.task] - resources_.link_latency_ns
                                  : 0;
    if (bytes_left > 0) {
        put_to_work(servers_[server_of_[tasks_[ended.task].worker]], ended.task, bytes_left);
    } else {
        finish(ended.task);
    }
}

/// Advances the server's counter to the current time.
void EventEngine::advance(Server& server) const {
    if (server.active.empty()) {
        server.work = 0;  // reset, so that a long step loses nothing to rounding
    } else if (is_ports(server)) {
        for (Active& each : server.active) {
            each.until -= (now_ - server.since) * each.speed;
        }
    } else {
        server.work += (now_ - server.since) * server.speeds[server.active.size() - 1];
    }
    server.since = now_;
}

void EventEngine::refresh_changed() {
    for (const std::size_t server : changed_) {
        refresh(server);
    }
    changed_.clear();
}

void EventEngine::refresh(std::size_t index) {
    Server& server = servers_[index];
    server.changed = false;
    if (server.active.empty()) {
        set_next_end(index, kNever);
        return;
    }
    if (is_ports(server)) {
        refresh_ports(server);
        const Active& first = server.active[server.first];
        set_next_end(index, server.since + std::max(first.until, 0.0) / first.speed);
        return;
    }
    if (server.first == kNone) {
        server.first = 0;
        for (std::size_t k = 1; k < server.active.size(); ++k) {
            server.first = server.active[k].until < server.active[server.first].until ? k : server.first;
        }
    }
    const double left = server.active[server.first].until - server.work;
    set_next_end(index, server.since + std::max(left, 0.0) * server.paces[server.active.size() - 1]);
}

/// Shares the ports among the copies that now pass them, and finds the next to end.
void EventEngine::refresh_ports(Server& server) {
    const std::size_t lanes = resources_.server_of_lane.size();
    passing_ports_.clear();
    for (const Active& each : server.active) {
        passing_ports_.push_back(tasks_[each.task].worker - lanes);
    }
    const std::vector<double>& speeds = port_shares_->speeds(passing_ports_);
    server.first = 0;
    for (std::size_t k = 0; k < speeds.size(); ++k) {
        Active& each = server.active[k];
        each.speed = speeds[k];
        const Active& first = server.active[server.first];
        server.first = each.until * first.speed < first.until * each.speed ? k : server.first;
    }
}

void EventEngine::set_next_end(std::size_t server, double time) {
    std::size_t node = num_leaves_ + leaf_of_[server];
    next_end_[node] = time;
    if (num_leaves_ <= kFewLeaves) {
        return;
    }
    for (node /= 2; node > 0; node /= 2) {
        const double least = std::min(next_end_[2 * node], next_end_[2 * node + 1]);
        if (next_end_[node] == least) {
            break;
        }
        next_end_[node] = least;
    }
}
}  // namespace pipescope
