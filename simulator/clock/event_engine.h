#pragma once

#include "schedule/core_queue.h"
#include "schedule/task_graph.h"
#include "simulator/clock/port_shares.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// Resources that tasks share while they run. A server is a device, the host's cores or a link.
struct SharedResources {
    /// By server: entry k is the speed of each of k + 1 running tasks, relative to its own duration. {1} is a device of
    /// one's own; {1, .5} is one that two lanes share evenly at every moment. If a server has more lanes than entries,
    /// the entries are cores that the lanes take in turns, one task each, in the order of CoreQueue: {1, 1} for five
    /// lanes is five lanes on two cores. A channel's server has as many entries as it has channels.
    std::vector<std::vector<double>> speeds;
    std::vector<std::size_t> server_of_lane;
    std::vector<std::size_t> server_of_channel;  ///< by position in TaskGraph::channels()
    /// A server whose copies pass two ports each (PortShares); empty: all copies of a server share it equally.
    std::optional<std::size_t> ports = {};
    std::vector<PortRoute> route_of_channel = {};  ///< one entry per channel if there are ports
    /// First part of a copy's duration, in ns: its latency, used if channels share a server. It passes at full speed
    /// and takes nothing from other copies.
    double link_latency_ns = 0;
    /// By channel: true if a copy starts only once its receiver's lane has ended the task before the first one that
    /// waits for the copy. Empty: none is so.
    std::vector<bool> is_received_late = {};
    /// Time the host needs to launch each task; empty: nothing is launched. A process launches its lanes' tasks one
    /// after the other in the graph's order, ahead of the device if it can. A task cannot start before its launch ends.
    std::vector<double> launch_ns;
    std::vector<std::size_t> process_of_lane;  ///< from 0; one entry per lane, unless launch_ns is empty
    /// True if each run says when every task is launched. Then launch_ns must be empty.
    bool has_releases = false;
    /// Limit of micro-batches between the start of their first forward and the end of their last backward; 0: no limit.
    /// Lanes and links skip the tasks of micro-batches not yet admitted and come back to them.
    int most_in_flight = 0;
};

/// Runs a task graph on the virtual clock if tasks slow each other down. Agrees with TaskClock if they do not.
///
/// Idea: processor sharing by virtual work. All tasks on a server progress equally fast, so a server keeps one counter
/// of work done per task. A task ends when the counter reaches its value at the start plus the task's own work. A
/// change in the number of running tasks only changes the counter's speed. Copies behind ports are few and differ in
/// speed, so each keeps the work it has left. Lanes that take cores in turns ask in the
/// engine's order: tasks that an ending task unblocks ask before the next task of its own lane. Events are ends of
/// tasks; the next one is the minimum over the servers, kept in a tournament if there are many. A channel whose copies
/// are all free changes nothing and is left out: tasks that wait for a copy wait for the copy's source instead.
/// Cost: O(events (dependents + active on the server + log servers)), no allocation after the first run. Threading: one
/// thread at a time; it keeps its state. Source: processor sharing as in SimGrid's model of CPUs and links (LMM with
/// equal weights).
class EventEngine {
public:
    /// Precondition: `resources` fits the graph. Copies the graph into flat arrays; it need not outlive this call.
    EventEngine(const TaskGraph& graph, SharedResources resources);

    std::size_t num_tasks() const noexcept { return num_tasks_; }
    /// Fills in each task's start and end, in ns from 0. `durations` are those of tasks alone on their server. Throws
    /// Error if most_in_flight makes the step never end. No task starts before its entry of `released`, which is empty
    /// unless SharedResources::has_releases.
    void run(std::span<const double> durations, std::span<double> starts, std::span<double> ends,
             std::span<const double> released = {});

private:
    using Index = std::uint32_t;
    struct Active {
        double until;  ///< the server's counter at the task's end; behind ports, the work that is left
        Index task;
        double speed = 0;  ///< behind ports
    };
    /// The task fields that the clock reads often, kept together for the cache.
    struct TaskState {
        Index worker = 0;
        Index missing = 0;           ///< tasks it still waits for
        Index dependents_first = 0;  ///< in dependents_
        Index dependents_end = 0;
    };
    struct Server {
        std::vector<double> speeds;
        std::vector<double> paces;  ///< 1 / speed
        std::vector<Active> active;
        std::optional<CoreQueue> turns;  ///< the lanes' queue, if there are more lanes than cores
        double work = 0;                 ///< work done per task since the server was last idle
        double since = 0;                ///< time at which `work` was up to date
        std::size_t first = 0;           ///< index in `active` of the next to end; kNone: not known yet
        bool changed = false;
    };

    void build_orders(const TaskGraph& graph);
    void build_launches(const TaskGraph& graph);
    void build_dependents(const TaskGraph& graph);
    std::vector<std::vector<Index>> late_receives(const TaskGraph& graph) const;
    void build_passing(const TaskGraph& graph);
    void prepare();
    void prepare_launches(std::span<const double> durations, std::span<const double> released);
    void prepare_workers();
    void pass_through();
    void prepare_tournament();
    std::size_t next_leaf() const;
    Index next_of(Index worker) const;
    void try_start(Index worker);
    void start(Index task);
    void finish(Index task);
    void put_to_work(Server& server, Index task, double work);
    void hand_out(Server& server);
    void settle();
    void end_next_on(std::size_t server);
    void advance(Server& server) const;
    void refresh_changed();
    void refresh(std::size_t server);
    void refresh_ports(Server& server);
    bool is_ports(const Server& server) const { return resources_.ports && &server == &servers_[*resources_.ports]; }
    void set_next_end(std::size_t server, double time);

    SharedResources resources_;
    std::size_t num_tasks_;  ///< in the graph; launches follow them
    // Workers run their orders one task at a time: first the lanes, then the channels, then the processes' launchers.
    std::vector<TaskState> tasks_;        // launches included
    std::vector<std::size_t> server_of_;  // by worker
    std::vector<char> takes_turns_;       // by worker, for the cores of its server
    std::vector<char> shares_link_;       // by worker: a channel that shares its server and has a latency
    std::size_t latency_server_ = 0;      // where copies of such channels spend their latency, at full speed
    std::vector<Index> order_;            // tasks of all workers, one worker after the other
    std::vector<Index> order_first_;      // by worker; one more entry at the end
    std::vector<Index> all_dependents_;
    std::vector<Index> all_dependents_first_;  // by task; one more entry at the end
    std::vector<char> may_pass_;               // by worker: a channel whose copies end in the order of their sources
    std::vector<Index> source_;                // by task: the task that a copy on such a channel waits for
    std::vector<Index> needs_;                 // by task: number of tasks it waits for
    std::vector<char> enters_;                 // by task: a micro-batch enters, or leaves, with it
    std::vector<char> leaves_;
    std::vector<std::int32_t> micro_batch_of_;  // by task; -1: all, or a launch
    Index entry_lane_ = 0;

    // State of a run, reused by the next run if the same workers take time.
    std::vector<char> takes_time_;   // by worker: true if any of its tasks takes time
    std::vector<Index> passing_;     // tasks left out, ascending
    std::vector<Index> dependents_;  // dependents without those tasks

    // State of a run.
    std::vector<Server> servers_;
    std::optional<PortShares> port_shares_;
    std::vector<std::size_t> passing_ports_;  // channels
    std::vector<double> next_end_;  // a tournament: leaves are the used servers', each node is the minimum below it
    std::size_t num_leaves_ = 1;
    std::vector<Index> leaf_of_;  // by used server
    std::vector<std::size_t> server_of_leaf_;
    std::vector<Index> position_;  // by worker, in order_
    std::vector<char> busy_;       // by worker
    std::vector<char> taken_;      // by task; used if most_in_flight lets workers leave their order
    std::vector<char> is_in_;      // by micro-batch
    std::vector<Index> instant_;   // tasks of zero duration that just started
    std::vector<Index> released_;  // lanes that just ended a task and hold their core
    std::vector<Index> queued_;    // by lane, the task that waits for a core
    std::vector<std::size_t> changed_;
    std::vector<double> own_work_, own_start_, own_end_;  // by task; empty without launches
    std::span<const double> work_;                        // by task, launches included: the caller's, or own_work_
    std::span<double> start_, end_;                       // likewise
    std::size_t finished_ = 0;
    int in_flight_ = 0;
    double now_ = 0;
};
}  // namespace pipescope
