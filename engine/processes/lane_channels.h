#pragma once

#include "engine/device/pipeline_devices.h"
#include "engine/device/stream_event.h"
#include "engine/engine_error.h"
#include "engine/engine_options.h"
#include "engine/processes/channel.h"
#include "engine/processes/processes.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// The ranks of this process's replica, which run the lanes of one pipeline.
struct ReplicaRanks {
    int replica = 0;
    int replicas = 1;
    int first = 0;
    int count = 1;
    int num_lanes = 1;

    int rank_of(LaneId lane) const { return first + static_cast<int>(std::int64_t{lane.value()} * count / num_lanes); }
};
/// Throws UsageError unless the replicas divide the processes, and each process gets a lane.
ReplicaRanks replica_ranks(const Processes& processes, int replicas, int num_lanes);

/// A model's lanes in other processes: what goes to them and comes from them in a run.
///
///     rank of partition 0      start: purpose and batch ──▶ all others
///     a copy's sender          tensors ──▶ its receiver's rank, on the channel of the two lanes
///     rank of the last one     loss ──▶ all others; it also opens the backward phase, where the graph says so
///
/// Lanes only send and never wait for it. One thread for each incoming channel receives, so no order of sends and
/// receives can be wrong. Tensors of an accelerator are sent once they are on the host: a thread of the channel waits
/// for that, not the lane. Or they go directly to the other accelerator, by a connection of the channel: the lane
/// enqueues them and sends the message without them; the channel's thread there enqueues the receive.
/// Invariant: work on a device waits only for work that was enqueued before it, on any device. One exception: a send
/// waits for its receive, which is enqueued later. So no other work may be queued after a send: the streams of
/// connections and links share no queue of their device (cuda_runtime.cpp).
/// Threading: send() from lanes, one at a time for each sending lane; the others on the caller's thread.
/// Errors: ProcessError once the group has ended.
class LaneChannels {
public:
    /// What a process calls on the model.
    enum class Purpose : std::int64_t { values, training, norm, any };
    struct Start {
        Purpose purpose;
        std::int64_t batch;
    };
    /// Called on the channel's thread.
    struct Receiver {
        std::function<void(const TaskKey& copy, const ReceivedMessage& message)> copy;  ///< numbers: the shares
        std::function<void(at::Tensor loss)> loss;
        std::function<void()> stop;  ///< the group has ended: nothing more comes
    };

    /// Collective. `example`: a graph of the model; every other differs in its number of micro-batches only.
    LaneChannels(std::shared_ptr<Processes> processes, const TaskGraph& example, Reduction reduction);
    ~LaneChannels();

    Processes& processes() const noexcept { return *processes_; }
    bool is_here(LaneId lane) const { return rank_of(lane) == processes_->rank(); }
    bool is_first_here() const noexcept { return first_ == processes_->rank(); }
    bool is_last_here() const noexcept { return last_ == processes_->rank(); }

    const ReplicaRanks& ranks() const noexcept { return ranks_; }

    /// Collective, after the devices are there: lets the links to and from other processes reach the accelerators
    /// there, as `way` says (check_device_messages). Throws EngineError, in all processes, if that cannot be.
    void connect_devices(PipelineDevices& devices, const std::string& way);

    /// Begins a run. own.batch: the batch in the process of partition 0; 0 elsewhere. Returns the batch and purpose of
    /// all. Throws UsageError if the processes call different functions.
    Start start(Start own);
    /// Collective over the processes of a pipeline, as a run of its own: what all of them say, in the order of their
    /// ranks. Throws UsageError if they call different functions. Blocks.
    std::vector<double> gather(Purpose purpose, const std::vector<double>& mine);
    /// Receives the copies of `kinds` and `losses` losses of the current run, until finish().
    void receive(const TaskGraph& graph, const std::function<bool(TaskKind)>& kinds, int losses, Receiver receiver);
    /// The message of a copy. `shares`: what the receiver must know of the tensors' memory; arrives as it is.
    /// `to_host`: see PackedMessage.
    PackedMessage pack(const TaskKey& key, Tensors tensors, const std::vector<char>& shares,
                       const LaneLink* to_host) const;
    /// Sends a copy's message, or once `ready` has passed lets a thread of the channel send it. If that fails, calls
    /// `failed` there, while the exception is handled.
    void send(const Task& copy, PackedMessage message, const StreamEvent& ready, std::function<void()> failed);
    void send_loss(const at::Tensor& loss);
    /// Collective over the replicas, for each lane, or without a lane for the last partition's processes: combines the
    /// tensors as the reduction says, sums or means weighted by each replica's samples. An undefined tensor counts as
    /// zero; those that are undefined in all replicas stay so. Those of one device are summed on the host: call it
    /// where the thread's current stream there follows what made them. Blocks.
    void reduce(std::optional<LaneId> lane, const std::vector<at::Tensor>& like, Tensors& values);
    /// Blocks until all of receive() has come and all of send() has left, or the group has ended.
    void finish();

private:
    struct Incoming;
    struct Outgoing;
    class Peer;
    using LanePair = std::pair<LaneId, LaneId>;

    int rank_of(LaneId lane) const { return ranks_.rank_of(lane); }
    void sum(std::optional<LaneId> lane, const at::Tensor& values);
    std::vector<LanePair> direct_pairs(const PipelineDevices& devices, const std::string& way);
    void connect_lanes(LaneId from, LaneId to, PipelineDevices& devices, const std::string& way);
    void sum_parts_in_bucket(std::optional<LaneId> lane, const Tensors& parts, double weight);
    std::unique_ptr<OutgoingChannel> outgoing(int to, int tag);
    std::unique_ptr<Incoming> incoming(int from, int tag, const std::string& name);
    void take(Incoming& channel, std::int64_t run, std::size_t count,
              const std::function<void(const ReceivedMessage&)>& deliver, const std::function<void()>& stop);
    ReceivedMessage next(Incoming& in, std::int64_t run) const;
    void send(OutgoingChannel& channel, int to, const PackedMessage& message) const;

    const std::shared_ptr<Processes> processes_;
    const ReplicaRanks ranks_;
    const Reduction reduction_;
    const int first_;  // rank of partition 0
    const int last_;   // rank of the last partition
    std::int64_t run_ = 0;
    std::int64_t batch_ = 0;       // of this replica, in the current run
    std::vector<LanePair> pairs_;  // of lanes in two processes of this pipeline, in the same order in all
    std::shared_ptr<Connections> connections_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::unique_ptr<Worker> completions_;
    std::map<LanePair, std::unique_ptr<Outgoing>> copies_out_;
    std::map<LanePair, std::unique_ptr<Incoming>> copies_in_;
    std::vector<std::pair<int, std::unique_ptr<OutgoingChannel>>> starts_out_, losses_out_;  // by rank
    std::unique_ptr<Incoming> start_in_, loss_in_;
};
}  // namespace pipescope
