#pragma once

#include "schedule/core_queue.h"
#include "schedule/task_graph.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// What tasks share while they run. A server is a device, the host's cores or a link.
struct SharedResources {
    /// By server: entry k is the speed of each of k + 1 tasks at work, against its own duration. {1} is a device of
    /// one's own; {1, .5} one that two lanes share evenly at every moment. Where lanes are more than there are entries,
    /// the entries are cores that they take in turns, a task each, in the order of CoreQueue: {1, 1} for five lanes is
    /// five lanes on two cores. A channel's server has as many entries as it has channels.
    std::vector<std::vector<double>> speeds;
    std::vector<std::size_t> server_of_lane;
    std::vector<std::size_t> server_of_channel;  ///< by position in TaskGraph::channels()
    /// The first part of a copy's duration, in ns, where channels share a server: it passes at full speed, and takes
    /// nothing from other copies.
    double link_latency_ns = 0;
    /// Time the host needs to launch a task, by task; empty: nothing is launched. A process launches its lanes' tasks
    /// one after the other in the graph's order, ahead of the device if it can; a task starts when it is launched too.
    std::vector<double> launch_ns;
    std::vector<std::size_t> process_of_lane;  ///< from 0; as long as there are lanes, where launch_ns is not empty
    /// Micro-batches between the start of their first forward and the end of their last backward; 0: any number. Lanes
    /// and links pass over the tasks of micro-batches that are not let in yet, and come back to them.
    int most_in_flight = 0;
};

/// A task graph on the virtual clock where tasks slow each other down. Gives what TaskClock gives where they do not.
///
/// Idea: processor sharing by virtual work. All tasks on a server progress equally fast, so a server keeps one counter
/// of work done for each; a task ends when the counter reaches the value at its start plus its own work, and a change
/// of how many share it changes the counter's speed only. Where lanes take cores in turns they ask in the order in
/// which an engine's lanes do: what a task's end lets start before the next task of its own lane. Events are ends of
/// tasks; the next one is the least of the servers', kept in a tournament where there are many. A channel whose copies
/// are all free changes nothing and is left out: what waits for a copy waits for the task that it copies from. Cost:
/// O(events (dependents + active on the server + log servers)), no allocation after the first run. Threading: one
/// thread at a time; it keeps its state. Source: processor sharing as in SimGrid's model of CPUs and links (LMM with
/// equal weights).
class EventEngine {
public:
    /// Precondition: `resources` fits the graph; the graph outlives nothing, it is copied into flat arrays.
    EventEngine(const TaskGraph& graph, SharedResources resources);

    std::size_t num_tasks() const noexcept { return num_tasks_; }
    /// Fills in when each task starts and ends, in ns from 0; `durations` are those of tasks that have their server to
    /// themselves. Throws Error if most_in_flight lets the step never end.
    void run(std::span<const double> durations, std::span<double> starts, std::span<double> ends);

private:
    using Index = std::uint32_t;
    struct Active {
        double until;  ///< the server's counter at the task's end
        Index task;
    };
    /// What the clock asks of a task again and again, in one place of memory.
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
        std::optional<CoreQueue> turns;  ///< of the lanes, where they are more than may be at work
        double work = 0;                 ///< done for each task since the server was last idle
        double since = 0;                ///< when `work` was right
        std::size_t first = 0;           ///< of `active`, the next to end; kNone: to be looked for
        bool changed = false;
    };

    void build_orders(const TaskGraph& graph);
    void build_launches(const TaskGraph& graph);
    void build_dependents(const TaskGraph& graph);
    void build_passing(const TaskGraph& graph);
    void prepare();
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
    void set_next_end(std::size_t server, double time);

    SharedResources resources_;
    std::size_t num_tasks_;  ///< of the graph; launches stand behind them
    // Workers run their orders one by one: the lanes, then the channels, then the processes' launchers.
    std::vector<TaskState> tasks_;        // launches included
    std::vector<std::size_t> server_of_;  // by worker
    std::vector<char> takes_turns_;       // by worker, for the cores of its server
    std::vector<char> shares_link_;       // by worker: a channel with others on its server, and a latency
    std::size_t latency_server_ = 0;      // where the copies of such channels are first; each at full speed
    std::vector<Index> order_;            // all workers' tasks, one worker after the other
    std::vector<Index> order_first_;      // by worker; one more entry at the end
    std::vector<Index> all_dependents_;
    std::vector<Index> all_dependents_first_;  // by task; one more entry at the end
    std::vector<char> may_pass_;               // by worker: a channel whose copies end in the order of their sources
    std::vector<Index> source_;                // by task: of a copy on such a channel
    std::vector<Index> needs_;                 // how many tasks each waits for
    std::vector<char> enters_;                 // a micro-batch with this task
    std::vector<char> leaves_;
    std::vector<std::int32_t> micro_batch_of_;  // by task; -1: all, or a launch
    Index entry_lane_ = 0;

    // Of a run, and of the next one if the same workers take time.
    std::vector<char> takes_time_;   // by worker: some task of it
    std::vector<Index> passing_;     // tasks left out, ascending
    std::vector<Index> dependents_;  // without those

    // Of a run.
    std::vector<Server> servers_;
    std::vector<double> next_end_;  // a tournament: leaves are the used servers', each node the least below it
    std::size_t num_leaves_ = 1;
    std::vector<Index> leaf_of_;  // by server that is used
    std::vector<std::size_t> server_of_leaf_;
    std::vector<Index> position_;  // by worker, in order_
    std::vector<char> busy_;       // by worker
    std::vector<char> taken_;      // by task; where most_in_flight lets workers leave their order
    std::vector<char> is_in_;      // by micro-batch
    std::vector<Index> instant_;   // tasks of no duration that just started
    std::vector<Index> released_;  // lanes that just ended a task and hold their core
    std::vector<Index> queued_;    // by lane, the task that waits for a core
    std::vector<std::size_t> changed_;
    std::vector<double> own_work_, own_start_, own_end_;  // by task; empty where there are no launches
    std::span<const double> work_;                        // by task, launches included: the caller's or the above
    std::span<double> start_, end_;                       // likewise
    std::size_t finished_ = 0;
    int in_flight_ = 0;
    double now_ = 0;
};
}  // namespace pipescope
