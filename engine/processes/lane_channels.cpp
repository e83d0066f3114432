#include "engine/processes/lane_channels.h"

#include "engine/lanes/process_end.h"
#include "engine/lanes/task_ranges.h"
#include "schedule/quantities.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

namespace pipescope {
namespace {
constexpr int kStartTag = 1;
constexpr int kLossTag = 2;
constexpr int kFirstCopyTag = 16;

std::string to_string(LaneChannels::Start start) {
    return start.purpose == LaneChannels::Purpose::training ? "step()" : "forward()";
}
}  // namespace

/// A channel with the thread that receives from it.
struct LaneChannels::Incoming {
    Incoming(Connections& connections, int from, int tag, const std::string& name)
        : channel(connections, from, tag), thread(name, [] {
              at::get_num_threads();
              at::set_num_threads(1);  // a pool of its own would keep the cores from Gloo's thread
          }) {}

    IncomingChannel channel;
    std::mutex mutex;
    std::condition_variable idle;
    bool busy = false;  // guarded by mutex
    Worker thread;      // last: its jobs use the above
};

LaneChannels::LaneChannels(std::shared_ptr<Processes> processes, const TaskGraph& example)
    : processes_(std::move(processes)),
      num_lanes_(example.num_lanes()),
      first_(rank_of(example.shape().lane_of(PartitionId{0}))),
      last_(rank_of(example.shape().lane_of(PartitionId{example.shape().num_partitions - 1}))) {
    if (processes_->size() > num_lanes_) {
        throw UsageError("the model runs on " + counted(num_lanes_, "lane", "lanes") + " in " +
                         counted(processes_->size(), "process", "processes") +
                         "; each process needs at least one lane; start fewer processes, or cut the model into more "
                         "partitions");
    }
    connections_ = processes_->connect();
    completions_ = std::make_unique<Worker>("sent", [] {});
    const int here = processes_->rank();
    for (const Channel& channel : example.channels()) {
        const int from = rank_of(channel.from);
        const int to = rank_of(channel.to);
        const int tag = kFirstCopyTag + channel.from.value() * num_lanes_ + channel.to.value();
        if (from == here && to != here) {
            copies_out_[{channel.from, channel.to}] = outgoing(to, tag);
        } else if (from != here && to == here) {
            copies_in_[{channel.from, channel.to}] =
                incoming(from, tag, std::to_string(channel.from.value()) + " to " + std::to_string(channel.to.value()));
        }
    }
    for (int rank = 0; rank < processes_->size(); ++rank) {
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
    completions_.reset();  // what was sent has left this process
    connections_->cancel_all();
    processes_->retire(std::move(connections_));
}

std::unique_ptr<OutgoingChannel> LaneChannels::outgoing(int to, int tag) {
    return std::make_unique<OutgoingChannel>(*connections_, to, tag, *completions_,
                                             [processes = processes_.get(), to] { processes->lost(to); });
}

std::unique_ptr<LaneChannels::Incoming> LaneChannels::incoming(int from, int tag, const std::string& name) {
    return std::make_unique<Incoming>(*connections_, from, tag, name);
}

std::vector<LaneId> LaneChannels::lanes_here() const {
    std::vector<LaneId> here;
    for (int lane = 0; lane < num_lanes_; ++lane) {
        if (is_here(LaneId{lane})) {
            here.push_back(LaneId{lane});
        }
    }
    return here;
}

LaneChannels::Start LaneChannels::start(Start own) {
    processes_->check();
    ++run_;
    if (is_first_here()) {
        for (auto& [rank, channel] : starts_out_) {
            send_guarded(*channel, rank, {run_, 0, {static_cast<std::int64_t>(own.purpose), own.batch}});
        }
        return own;
    }
    Start all = own;
    const AtRest until_it_comes;
    try {
        const std::optional<Message> message = start_in_->channel.receive();
        if (!message) {
            processes_->check();
            throw ProcessError("the model was closed while it waited for its next run");
        }
        check_run(*message, run_, first_);
        all = {static_cast<Purpose>(message->numbers.at(0)), message->numbers.at(1)};
    } catch (const ConnectionLost&) {
        throw ProcessError(processes_->lost(first_));
    }
    if (all.purpose != own.purpose) {
        throw UsageError(processes_->name_of(processes_->rank()) + " calls " + to_string(own) + ", and " +
                         processes_->name_of(first_) + " calls " + to_string(all) +
                         "; a model runs on all processes at once; call the same on all");
    }
    return all;
}

void LaneChannels::receive(const TaskGraph& graph, const std::function<bool(TaskKind)>& kinds, bool loss,
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
            [copy = receiver.copy](Message message) {
                const std::optional<TaskKey> key = unpack(message.key);
                if (!key || !is_copy(key->kind)) {
                    throw EngineError("a message of another process names no copy; all must run the same build");
                }
                const TaskRange range(*key);
                copy(*key, std::move(message.tensors));
            },
            receiver.stop);
    }
    if (loss && loss_in_) {
        take(
            *loss_in_, run_, 1,
            [this, then = receiver.loss](Message message) {
                if (message.numbers.at(0) != 0) {
                    processes_->set_to_stop();
                }
                then(message.tensors.at(0));
            },
            receiver.stop);
    }
}

void LaneChannels::take(Incoming& in, std::int64_t run, std::size_t count, const std::function<void(Message)>& deliver,
                        const std::function<void()>& stop) {
    if (count == 0) {
        return;
    }
    {
        const std::lock_guard lock(in.mutex);
        in.busy = true;
    }
    in.thread.post([this, &in, run, count, deliver, stop] {
        try {
            for (std::size_t k = 0; k < count; ++k) {
                std::optional<Message> message = in.channel.receive();
                if (!message) {
                    stop();
                    break;
                }
                const AtWork at_work;
                check_run(*message, run, in.channel.from());
                deliver(std::move(*message));
            }
        } catch (const ConnectionLost&) {
            processes_->lost(in.channel.from());
            stop();
        } catch (const std::exception& error) {
            processes_->fail(processes_->name_of(processes_->rank()) + ": " + error.what());
            stop();
        }
        {
            const std::lock_guard lock(in.mutex);
            in.busy = false;
        }
        in.idle.notify_all();
    });
}

void LaneChannels::check_run(const Message& message, std::int64_t run, int from) const {
    if (message.run != run) {
        throw EngineError(processes_->name_of(from) + " is in run " + std::to_string(message.run) +
                          " of the model, and " + processes_->name_of(processes_->rank()) + " in run " +
                          std::to_string(run) +
                          "; a model runs on all processes at once; call it equally often on all");
    }
}

void LaneChannels::send_guarded(OutgoingChannel& channel, int to, const Message& message) {
    try {
        channel.send(message);
    } catch (const ConnectionLost&) {
        throw ProcessError(processes_->lost(to));
    }
}

void LaneChannels::send(const TaskKey& key, const Task& copy, Tensors tensors) {
    send_guarded(*copies_out_.at({copy.lane, copy.receiver}), rank_of(copy.receiver),
                 {run_, pack(key), {}, std::move(tensors)});
}

void LaneChannels::send_loss(const at::Tensor& loss) {
    const bool stops = processes_->is_asked_to_stop();
    if (stops) {
        processes_->set_to_stop();
    }
    for (auto& [rank, channel] : losses_out_) {
        send_guarded(*channel, rank, {run_, 0, {stops ? 1 : 0}, {loss}});
    }
}

void LaneChannels::finish() {
    const AtRest until_all_came;
    const auto wait = [](Incoming& in) {
        std::unique_lock lock(in.mutex);
        in.idle.wait(lock, [&] { return !in.busy; });
    };
    for (auto& [lanes, in] : copies_in_) {
        wait(*in);
    }
    if (loss_in_) {
        wait(*loss_in_);
    }
}
}  // namespace pipescope
