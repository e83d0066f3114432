#include "engine/processes/lane_channels.h"

#include "base/quantities.h"
#include "engine/device/lane_link.h"
#include "engine/lanes/process_end.h"
#include "engine/processes/device_plugin.h"
#include "engine/processes/device_plugins.h"
#include "engine/processes/ring_sum.h"
#include "schedule/all_reduce.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <string>

namespace pipescope {
namespace {
constexpr int kStartTag = 1;
constexpr int kLossTag = 2;
constexpr int kFirstCopyTag = 16;
constexpr int kFirstRingTag = 1 << 24;  // above the pairs of lanes

std::string to_string(LaneChannels::Start start) {
    switch (start.purpose) {
        case LaneChannels::Purpose::values: return "forward()";
        case LaneChannels::Purpose::training: return "step()";
        case LaneChannels::Purpose::norm: return "clip_grad_norm_()";
        case LaneChannels::Purpose::any: return "any_process(), as the unscaling of gradients does";
    }
    return "a function that only a newer PipeScope has";
}
}  // namespace

/// A channel's own thread.
class ChannelThread {
public:
    explicit ChannelThread(const std::string& name)
        : thread_(name, [] {
              at::get_num_threads();
              at::set_num_threads(1);  // a pool of its own would keep the cores from Gloo's thread
          }) {}

    void post(std::function<void()> job) {
        {
            const std::lock_guard lock(mutex_);
            ++open_;
        }
        thread_.post([this, job = std::move(job)] {
            job();
            {
                const std::lock_guard lock(mutex_);
                --open_;
            }
            idle_.notify_all();
        });
    }
    /// Blocks until all jobs have ended.
    void wait() {
        std::unique_lock lock(mutex_);
        idle_.wait(lock, [this] { return open_ == 0; });
    }

private:
    std::mutex mutex_;
    std::condition_variable idle_;
    int open_ = 0;   // guarded by mutex_
    Worker thread_;  // last: its jobs use the above
};

struct LaneChannels::Incoming {
    Incoming(Connections& connections, int from, int tag, const std::string& name)
        : channel(connections, from, tag), thread(name) {}

    IncomingChannel channel;
    ChannelThread thread;
};

struct LaneChannels::Outgoing {
    std::unique_ptr<OutgoingChannel> channel;
    std::unique_ptr<ChannelThread> thread = nullptr;  ///< from the first message on that must be waited for
};

/// A lane's device in another process.
class LaneChannels::Peer final : public PeerDevice {
public:
    Peer(Processes& processes, int rank, DeviceConnection& connection)
        : processes_(processes), rank_(rank), connection_(connection) {}

    void send(const at::Tensor& bytes) override {
        processes_.exchange(rank_, [&] { return connection_.send(bytes), true; });
    }
    void receive(const at::Tensor& bytes) override {
        processes_.exchange(rank_, [&] { return connection_.receive(bytes), true; });
    }
    /// Blocks until all of it has passed.
    void wait() {
        processes_.exchange(rank_, [&] { return connection_.wait(); });
    }
    /// Waits likewise, but also ends when the group has ended.
    void finish() {
        try {
            wait();
        } catch (const ProcessError&) {
            // Everybody knows.
        }
    }

private:
    Processes& processes_;
    const int rank_;
    DeviceConnection& connection_;
};

ReplicaRanks replica_ranks(const Processes& processes, int replicas, int num_lanes) {
    if (replicas < 1 || processes.size() % replicas != 0) {
        throw UsageError("the replicas are " + std::to_string(replicas) + " in " +
                         counted(processes.size(), "process", "processes") +
                         "; each needs the same number of processes; use a number of replicas that divides theirs");
    }
    const int count = processes.size() / replicas;
    if (count > num_lanes) {
        throw UsageError("the model runs on " + counted(num_lanes, "lane", "lanes") + " in " +
                         counted(count, "process", "processes") + (replicas > 1 ? " of each replica" : "") +
                         "; each process needs at least one lane; start fewer processes, or cut the model into more "
                         "partitions");
    }
    const int replica = processes.rank() / count;
    return {replica, replicas, replica * count, count, num_lanes};
}

LaneChannels::LaneChannels(std::shared_ptr<Processes> processes, const TaskGraph& example, Reduction reduction)
    : processes_(std::move(processes)),
      ranks_(replica_ranks(*processes_, example.shape().replicas, example.num_lanes())),
      reduction_(reduction),
      first_(rank_of(example.shape().lane_of(PartitionId{0}))),
      last_(rank_of(example.shape().lane_of(PartitionId{example.shape().num_partitions - 1}))) {
    connections_ = processes_->connect();
    completions_ = std::make_unique<Worker>("sent", [] {});
    const int here = processes_->rank();
    for (const Channel& channel : example.channels()) {
        const int from = rank_of(channel.from);
        const int to = rank_of(channel.to);
        const int tag = kFirstCopyTag + channel.from.value() * ranks_.num_lanes + channel.to.value();
        if (from != to) {
            pairs_.emplace_back(channel.from, channel.to);
        }
        if (from == here && to != here) {
            copies_out_[{channel.from, channel.to}] = std::make_unique<Outgoing>(Outgoing{outgoing(to, tag)});
        } else if (from != here && to == here) {
            copies_in_[{channel.from, channel.to}] =
                incoming(from, tag, std::to_string(channel.from.value()) + " to " + std::to_string(channel.to.value()));
        }
    }
    for (int rank = ranks_.first; rank < ranks_.first + ranks_.count; ++rank) {
        if (rank != here && is_first_here()) {
            starts_out_.emplace_back(rank, outgoing(rank, kStartTag));
        }
        if (rank != here && is_last_here()) {
            losses_out_.emplace_back(rank, outgoing(rank, kLossTag));
        }
    }
    if (!is_first_here()) {
        start_in_ = incoming(first_, kStartTag, "start");
    }
    if (!is_last_here()) {
        loss_in_ = incoming(last_, kLossTag, "loss");
    }
}

LaneChannels::~LaneChannels() {
    for (const auto& peer : peers_) {
        peer->finish();
    }
    copies_out_.clear();   // their threads send, too
    completions_.reset();  // what was sent has left this process
    connections_->cancel_all();
    processes_->retire(std::move(connections_));
}

namespace {
/// The facts that a process tells the others about a lane's device.
struct LaneDeviceFact {
    std::string device;    // empty: the host
    std::string identity;  // by the plugin
    std::string obstacle;  // why the plugin cannot connect it
};

LaneDeviceFact fact_of(c10::Device device, const std::string& way) {
    LaneDeviceFact fact;
    if (device.is_cpu()) {
        return fact;
    }
    fact.device = device.str();
    const bool is_nccl = way == "auto" || way == "nccl";
    if (is_nccl && !device.is_cuda()) {
        fact.obstacle = "NCCL connects CUDA devices only; use CUDA devices, or send device messages through the host";
        return fact;
    }
    try {
        const DevicePlugin& plugin = device_plugin(way);
        if (c10::DeviceTypeName(device.type(), true) != plugin.device_type) {
            fact.obstacle = std::string(plugin.name) + " connects devices of type " + plugin.device_type +
                            " only; use those, or send device messages through the host";
        } else {
            fact.identity = plugin.identity(device);
        }
    } catch (const std::exception& error) {
        fact.obstacle = error.what();
    }
    return fact;
}

constexpr char kFieldEnd = '\x1f';  // no field holds it

std::string packed(const LaneDeviceFact& fact) {
    return fact.device + kFieldEnd + fact.identity + kFieldEnd + fact.obstacle + kFieldEnd;
}

LaneDeviceFact take_fact(const std::string& from, std::size_t& at) {
    LaneDeviceFact fact;
    for (std::string* const field : {&fact.device, &fact.identity, &fact.obstacle}) {
        const std::size_t end = from.find(kFieldEnd, at);
        *field = from.substr(at, end - at);
        at = end + 1;
    }
    return fact;
}
}  // namespace

/// The pairs whose devices can be connected, in the same order in all processes.
std::vector<LaneChannels::LanePair> LaneChannels::direct_pairs(const PipelineDevices& devices, const std::string& way) {
    std::string mine;
    for (int k = 0; k < ranks_.num_lanes; ++k) {
        if (is_here(LaneId{k})) {
            mine += packed(fact_of(devices.of(LaneId{k}).device(), way));
        }
    }
    const std::vector<std::string> all = processes_->gather(mine);
    std::vector<LaneDeviceFact> facts;
    std::map<int, std::size_t> places;  // how far each rank's facts were taken
    for (int k = 0; k < ranks_.num_lanes; ++k) {
        const int rank = rank_of(LaneId{k});
        facts.push_back(take_fact(all[static_cast<std::size_t>(rank)], places[rank]));
    }
    std::vector<LanePair> direct;
    for (const LanePair& pair : pairs_) {
        const auto& [from, to] = pair;
        const LaneDeviceFact& first = facts[from.index()];
        const LaneDeviceFact& second = facts[to.index()];
        if (first.device.empty() || second.device.empty()) {
            continue;
        }
        const auto name_of = [this, &facts](LaneId lane) {
            return "lane " + std::to_string(lane.value()) + " of " + processes_->name_of(rank_of(lane)) + " on " +
                   facts[lane.index()].device;
        };
        std::string obstacle;
        for (const LaneId lane : {from, to}) {
            if (obstacle.empty() && !facts[lane.index()].obstacle.empty()) {
                obstacle = name_of(lane) + ": " + facts[lane.index()].obstacle;
            }
        }
        if (obstacle.empty() && first.identity == second.identity) {
            obstacle = name_of(from) + " and " + name_of(to) + " are one device (" + first.identity +
                       "); it cannot be connected with itself; give each process a device of its own, or send device "
                       "messages by auto, which takes the way through the host here";
        }
        if (obstacle.empty()) {
            direct.push_back(pair);
        } else if (way != "auto") {
            throw EngineError(obstacle);
        }
    }
    return direct;
}

void LaneChannels::connect_devices(PipelineDevices& devices, const std::string& way) {
    if (way == "host") {
        return;
    }
    processes_->together([&] {
        for (const auto& [from, to] : direct_pairs(devices, way)) {
            if (is_here(from) || is_here(to)) {
                connect_lanes(from, to, devices, way);
            }
        }
    });
}

/// Returns once a first byte has arrived. All processes connect their pairs in one order, so none waits for another in
/// a circle.
void LaneChannels::connect_lanes(LaneId from, LaneId to, PipelineDevices& devices, const std::string& way) {
    const bool sends = is_here(from);
    const c10::Device device = devices.of(sends ? from : to).device();
    const int rank = rank_of(sends ? to : from);
    const std::string name = "lane " + std::to_string(from.value()) + " to " + std::to_string(to.value()) +
                             " of replica " + std::to_string(ranks_.replica);
    DeviceConnection& connection = connections_->connect_devices(
        device_plugin(way), name, sends ? DeviceConnection::End::sends : DeviceConnection::End::receives, device,
        processes_->options().patience);
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>(*processes_, rank, connection));
    devices.set_peer(from, to, peer);
    const LaneLink& link = devices.link(from, to);
    link.wait(
        StreamEvent::record(current_stream(device)));  // as at the start of a run: memory may be an earlier model's
    link.run({}, [&] {
        const auto byte = at::TensorOptions().device(device).dtype(at::kByte);
        sends ? peer.send(at::zeros({1}, byte)) : peer.receive(at::empty({1}, byte));
    });
    peer.wait();
}

std::unique_ptr<OutgoingChannel> LaneChannels::outgoing(int to, int tag) {
    return std::make_unique<OutgoingChannel>(*connections_, to, tag, *completions_,
                                             [processes = processes_.get(), to] { processes->lost(to); });
}

std::unique_ptr<LaneChannels::Incoming> LaneChannels::incoming(int from, int tag, const std::string& name) {
    return std::make_unique<Incoming>(*connections_, from, tag, name);
}

LaneChannels::Start LaneChannels::start(Start own) {
    processes_->check();
    ++run_;
    batch_ = own.batch;
    if (is_first_here()) {
        for (auto& [rank, channel] : starts_out_) {
            send(*channel, rank, PackedMessage({run_, 0, {static_cast<std::int64_t>(own.purpose), own.batch}}));
        }
        return own;
    }
    Start all = own;
    const AtRest until_it_comes;
    const ReceivedMessage message = next(*start_in_, run_);
    all = {static_cast<Purpose>(message.numbers().at(0)), message.numbers().at(1)};
    if (all.purpose != own.purpose) {
        throw UsageError(processes_->name_of(processes_->rank()) + " calls " + to_string(own) + ", and " +
                         processes_->name_of(first_) + " calls " + to_string(all) +
                         "; a model runs on all processes at once; call the same on all");
    }
    batch_ = all.batch;
    return all;
}

std::vector<double> LaneChannels::gather(Purpose purpose, const std::vector<double>& mine) {
    start({purpose, 0});
    const int here = processes_->rank() - ranks_.first;
    const RingPlace place{here, ranks_.count, ranks_.first + (here + ranks_.count - 1) % ranks_.count,
                          ranks_.first + (here + 1) % ranks_.count};
    // Each process adds its part to zeros, which changes no bit.
    const auto add_up = [&](std::vector<double>& values) {
        const at::Tensor all = at::from_blob(values.data(), static_cast<std::int64_t>(values.size()), at::kDouble);
        const AtRest until_all_sent;
        processes_->exchange(place.previous,
                             [&] { return ring_sum(*connections_, place, kFirstRingTag + ranks_.num_lanes + 1, all); });
    };
    std::vector<double> counts(static_cast<std::size_t>(ranks_.count));
    counts[static_cast<std::size_t>(here)] = static_cast<double>(mine.size());
    add_up(counts);
    const auto mine_in_counts = counts.begin() + here;
    std::vector<double> all(static_cast<std::size_t>(std::reduce(counts.begin(), counts.end())));
    std::ranges::copy(mine, all.begin() + static_cast<std::ptrdiff_t>(std::reduce(counts.begin(), mine_in_counts)));
    add_up(all);
    return all;
}

void LaneChannels::receive(const TaskGraph& graph, const std::function<bool(TaskKind)>& kinds, int losses,
                           Receiver receiver) {
    for (auto& [lanes, incoming] : copies_in_) {
        std::size_t count = 0;
        for (const Channel& channel : graph.channels()) {
            if (LanePair{channel.from, channel.to} == lanes) {
                count += static_cast<std::size_t>(
                    std::count_if(channel.order.begin(), channel.order.end(),
                                  [&](TaskIndex task) { return kinds(graph.tasks()[task].key.kind); }));
            }
        }
        take(
            *incoming, run_, count,
            [copy = receiver.copy](const ReceivedMessage& message) {
                const std::optional<TaskKey> key = unpack(message.key());
                if (!key || !is_copy(key->kind)) {
                    throw EngineError("a message of another process names no copy; all must run the same build");
                }
                copy(*key, message);
            },
            receiver.stop);
    }
    if (loss_in_) {
        take(
            *loss_in_, run_, static_cast<std::size_t>(losses),
            [this, then = receiver.loss](const ReceivedMessage& message) {
                if (message.numbers().at(0) != 0) {
                    processes_->set_to_stop();
                }
                then(message.tensors().at(0));
            },
            receiver.stop);
    }
}

void LaneChannels::take(Incoming& in, std::int64_t run, std::size_t count,
                        const std::function<void(const ReceivedMessage&)>& deliver, const std::function<void()>& stop) {
    if (count == 0) {
        return;
    }
    in.thread.post([this, &in, run, count, deliver, stop] {
        try {
            for (std::size_t k = 0; k < count; ++k) {
                const ReceivedMessage message = next(in, run);
                const AtWork at_work;
                deliver(message);
            }
        } catch (...) {
            processes_->fail_by_exception();
            stop();
        }
    });
}

/// Waits for the next message of a run.
ReceivedMessage LaneChannels::next(Incoming& in, std::int64_t run) const {
    const int from = in.channel.from();
    std::optional<ReceivedMessage> message;
    processes_->exchange(from, [&] {
        message = in.channel.receive();
        return message.has_value();
    });
    if (message->run() != run) {
        throw EngineError(processes_->name_of(from) + " is in run " + std::to_string(message->run()) +
                          " of the model, and " + processes_->name_of(processes_->rank()) + " in run " +
                          std::to_string(run) +
                          "; a model runs on all processes at once; call it equally often on all");
    }
    return *message;
}

void LaneChannels::send(OutgoingChannel& channel, int to, const PackedMessage& message) const {
    processes_->exchange(to, [&] {
        channel.send(message);
        return true;
    });
}

PackedMessage LaneChannels::pack(const TaskKey& key, Tensors tensors, const std::vector<char>& shares,
                                 const LaneLink* to_host) const {
    return PackedMessage({run_, pipescope::pack(key), {shares.begin(), shares.end()}, std::move(tensors)}, to_host);
}

void LaneChannels::send(const Task& copy, PackedMessage message, const StreamEvent& ready,
                        std::function<void()> failed) {
    Outgoing& out = *copies_out_.at({copy.lane, copy.receiver});
    const int to = rank_of(copy.receiver);
    if (!ready) {
        send(*out.channel, to, message);
        return;
    }
    if (!out.thread) {
        out.thread = std::make_unique<ChannelThread>(std::to_string(copy.lane.value()) + " to " +
                                                     std::to_string(copy.receiver.value()));
    }
    const auto kept = std::make_shared<const PackedMessage>(std::move(message));  // a job can be copied
    out.thread->post([this, &out, to, kept, ready, failed = std::move(failed)] {
        const AtWork at_work;
        try {
            ready.synchronize();
            send(*out.channel, to, *kept);
        } catch (...) {
            failed();
        }
    });
}

void LaneChannels::send_loss(const at::Tensor& loss) {
    const bool stops = processes_->is_asked_to_stop();
    if (stops) {
        processes_->set_to_stop();
    }
    for (auto& [rank, channel] : losses_out_) {
        send(*channel, rank, PackedMessage({run_, 0, {stops ? 1 : 0}, {loss}}));
    }
}

void LaneChannels::sum(std::optional<LaneId> lane, const at::Tensor& values) {
    const int size = processes_->size();
    const RingPlace place{ranks_.replica, ranks_.replicas, (processes_->rank() + size - ranks_.count) % size,
                          (processes_->rank() + ranks_.count) % size};
    const int tag = kFirstRingTag + (lane ? lane->value() : ranks_.num_lanes);
    const AtRest until_all_sent;
    processes_->exchange(place.previous, [&] { return ring_sum(*connections_, place, tag, values); });
}

void LaneChannels::reduce(std::optional<LaneId> lane, const std::vector<at::Tensor>& like, Tensors& values) {
    const at::NoGradGuard no_grad;
    // First how many samples there are, and which of the tensors exist anywhere; also how far each replica is.
    std::vector<double> count(values.size() + 2);
    double& samples = count[values.size()];
    double& runs = count[values.size() + 1];
    samples = static_cast<double>(batch_);
    runs = static_cast<double>(run_);
    for (std::size_t k = 0; k < values.size(); ++k) {
        if (values[k].defined() && values[k].layout() != c10::kStrided) {
            throw EngineError("a gradient is " + std::string(values[k].toString()) +
                              "; replicas sum dense gradients; make it dense, or train one replica");
        }
        count[k] = values[k].defined() ? 1 : 0;
    }
    sum(lane, at::from_blob(count.data(), static_cast<std::int64_t>(count.size()), at::kDouble));
    if (runs != static_cast<double>(run_) * ranks_.replicas) {
        throw EngineError("replica " + std::to_string(ranks_.replica) + " makes call " + std::to_string(run_) +
                          " of the model, and another replica a different one; call the same functions of the model, "
                          "such as clip_grad_norm_(), equally often on all ranks");
    }
    const bool is_mean = reduction_ == Reduction::mean;
    const double weight = is_mean ? static_cast<double>(batch_) / samples : 1.0;
    Tensors parts;  // of one data type, for one bucket
    std::int64_t bytes = 0;
    const auto sum_parts = [&] {
        if (!parts.empty()) {
            sum_parts_in_bucket(lane, parts, weight);
        }
        parts.clear();
        bytes = 0;
    };
    for (std::size_t k = 0; k < values.size(); ++k) {
        if (count[k] == 0) {
            continue;
        }
        if (!values[k].defined()) {
            values[k] = at::zeros_like(like[k]);
        }
        // The last bucket apart, all are full: a tensor is cut where it must, unless its order in memory forbids it.
        const at::Tensor rest = values[k].is_contiguous() ? values[k].view(-1) : values[k];
        if (!parts.empty() && parts.front().scalar_type() != rest.scalar_type()) {
            sum_parts();
        }
        const auto size = static_cast<std::int64_t>(rest.element_size());
        for (std::int64_t from = 0; from < rest.numel();) {
            const std::int64_t room = (kAllReduceBucket - bytes + size - 1) / size;
            const std::int64_t taken = rest.dim() == 1 ? std::min(room, rest.numel() - from) : rest.numel();
            parts.push_back(rest.dim() == 1 ? rest.narrow(0, from, taken) : rest);
            from += taken;
            bytes += taken * size;
            if (bytes >= kAllReduceBucket) {
                sum_parts();
            }
        }
    }
    sum_parts();
}

/// In host memory: the bucket, and in ring_sum() a replica's share of it.
void LaneChannels::sum_parts_in_bucket(std::optional<LaneId> lane, const Tensors& parts, double weight) {
    std::int64_t size = 0;
    for (const at::Tensor& part : parts) {
        size += part.numel();
    }
    const at::Tensor bucket = host_buffer(size, parts.front());
    const auto for_each_place = [&](const auto& copy) {
        std::int64_t from = 0;
        for (const at::Tensor& part : parts) {
            copy(part, bucket.narrow(0, from, part.numel()).view(part.sizes()));
            from += part.numel();
        }
    };
    for_each_place([](const at::Tensor& part, const at::Tensor& place) { place.copy_(part, /*non_blocking=*/true); });
    if (!parts.front().is_cpu()) {
        StreamEvent::record(current_stream(parts.front().device())).synchronize();
    }
    if (weight != 1.0) {
        bucket.mul_(weight);
    }
    sum(lane, bucket);
    for_each_place([](const at::Tensor& part, const at::Tensor& place) { part.copy_(place, /*non_blocking=*/true); });
}

void LaneChannels::finish() {
    const AtRest until_all_came;
    for (auto& [lanes, in] : copies_in_) {
        in->thread.wait();
    }
    if (loss_in_) {
        loss_in_->thread.wait();
    }
    for (auto& [lanes, out] : copies_out_) {
        if (out->thread) {
            out->thread->wait();
        }
    }
}
}  // namespace pipescope
