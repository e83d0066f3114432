#pragma once

#include "base/ids.h"
#include "engine/engine_error.h"
#include "schedule/task_key.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
class Connections;

/// A process's place in a group.
struct ProcessOptions {
    int rank = 0;  ///< 0 to size - 1
    int size = 1;
    std::string rendezvous = "127.0.0.1:29500";  ///< host:port of the store where the processes meet
    /// True if somebody else, such as torchrun, hosts the store. Otherwise rank 0 does.
    bool store_is_hosted = false;
    /// A socket bound to the rendezvous port and listening, for the process that hosts the store; -1: it binds one.
    int listening = -1;
    std::string run = "0";                     ///< separates trainings that meet at one store
    int attempt = 0;                           ///< of this training; counts restarts, and separates them too
    std::chrono::milliseconds patience{7000};  ///< for the others to arrive
    /// A process that shows no sign of life for this long is taken for dead.
    std::chrono::milliseconds silence{10000};
    /// Called every few milliseconds while the processes meet; may throw to give up. May be empty.
    std::function<void()> while_waiting = {};
    /// Ends this process by std::quick_exit(1) if it has not ended by itself this long after the group has failed: a
    /// thread may be inside a layer for long. Rank 0, whose store the others read the cause in, may take 1 s longer.
    /// Zero: never.
    std::chrono::milliseconds end_after{0};
};

/// A group of processes that train one model together (GPipeOptions::processes). Lane k of L belongs to rank
/// k * size / L. With R replicas of the pipeline, replica r has the ranks from r * size / R on, and its lane k belongs
/// to the (k * size / R / L)-th of them.
///
/// The first failure of any process, be it an exception of a layer or its death, ends the group: each process gets the
/// same cause from everything it calls.
/// Threading: all methods from any thread, but the collective ones in the same order in all processes, so from one
/// thread at a time. Errors: ProcessError; once a method has thrown one, failure() has its cause.
/// Ownership: models hold their group. The destructor tells the others that this process leaves in good order, and
/// waits until all leave; during an exception it tells them that this process failed.
class Processes {
public:
    /// Meets the other processes; returns once all are there. From then on this process ignores SIGPIPE, unless it
    /// handles it. Throws UsageError for options that cannot be, and
    /// ProcessError, within `patience` and a second, that names the missing rank, a rank that is there twice, or a
    /// rendezvous that cannot be.
    static std::shared_ptr<Processes> join(const ProcessOptions& options);
    ~Processes();
    Processes(const Processes&) = delete;
    Processes& operator=(const Processes&) = delete;

    const ProcessOptions& options() const noexcept;
    int rank() const noexcept;
    int size() const noexcept;
    /// "rank 3 (host b)"
    std::string name_of(int rank) const;
    const std::string& host_of(int rank) const;
    /// Equal in all processes of this group, and most likely in no others.
    const std::string& run_id() const noexcept;

    /// Collective: throws ProcessError on every rank, with both values, unless all ranks say the same. Each pair is the
    /// name of a thing, such as "balance", and its value.
    void agree(const std::vector<std::pair<std::string, std::string>>& facts);
    /// Collective: returns once all have called it.
    void barrier();
    /// Collective: what each rank says, by rank.
    std::vector<std::string> gather(const std::string& mine);

    /// Asks all processes to stop training in good order.
    void ask_to_stop();
    /// True once any process has asked, from the same step() on in every process. GPipe::step() brings the news.
    bool is_to_stop() const noexcept;

    /// The group ends with the text's first line as the cause, unless it has ended before. True if this call, or an
    /// earlier one in this process, gave the first cause.
    bool fail(const std::string& text);
    /// fail() with the exception that is being handled, after this process's name and `where`. A ProcessError changes
    /// nothing. True if the exception is the first cause, or a ProcessError.
    bool fail_by_exception(const std::string& where = "");
    /// Cause of the group's end; empty while it lives.
    std::optional<std::string> failure() const;
    /// Throws ProcessError with the cause if the group has ended.
    void check() const;
    /// Calls `run`. Its exception ends the group. Throws that exception if it is the first cause, otherwise
    /// ProcessError.
    template <class Run>
    auto together(const Run& run) {
        check();
        try {
            return run();
        } catch (...) {
            if (fail_by_exception()) {
                throw;
            }
        }
        throw ProcessError(*failure());
    }

    // For the engine.

    /// Calls `transfers`, which sends to `peer` or waits for it, and returns false if that was canceled. Until it
    /// returns, the peer must not leave the group. Throws ProcessError if the connection was lost or canceled.
    void exchange(int peer, const std::function<bool()>& transfers);
    /// Notes what this process does, for the others' messages if it dies.
    void note(const TaskKey& task) noexcept;
    /// The last partition's process decides when all stop, and tells them with the loss.
    bool is_asked_to_stop() const noexcept;
    void set_to_stop() noexcept;
    /// Collective: connections of their own for a model, canceled once the group ends.
    std::shared_ptr<Connections> connect();
    /// Closes them once every rank has called this for them, so messages to a slower rank still arrive. Does not wait
    /// for that.
    void retire(std::shared_ptr<Connections> connections);
    /// The connection to `peer` was lost: the group ends, because of that rank unless another cause came first.
    void lost(int peer);

private:
    struct Group;
    explicit Processes(std::unique_ptr<Group> group);
    std::unique_ptr<Group> group_;
};
}  // namespace pipescope
