#include "profiler/recorder/recording.h"

#include "profiler/recorder/fork_lock.h"
#include "trace/store/trace_records.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace pipescope {
constinit std::atomic<std::uint64_t> running_recording{0};

namespace {
/// State shared by the running recording and the program's threads. Outlives every recording and thread.
struct Shared {
    Shared() { hold_across_forks(mutex); }

    std::mutex mutex;
    bool claimed = false;
    std::uint64_t last_number = 0;
    std::vector<std::shared_ptr<ThreadLog>> new_logs;
    std::shared_ptr<ThreadLog> main_log;  // exit handlers run on the main thread after its thread-locals are destroyed
    std::uint64_t last_range_id = 0;
    std::unordered_map<std::uint64_t, RangeEvent> open_ranges;  // may be ended by any thread
};

Shared& shared() {
    static Shared& instance = *std::make_unique<Shared>().release();  // never destroyed: threads may outlive main()
    return instance;
}

/// Ring size of the running recording. Set before the recording's number.
std::atomic<std::size_t> entries_of_rings{0};

/// The thread's log, in a form without construction, so that the hot path needs no check.
struct Current {
    std::uint64_t recording = 0;
    ThreadLog* log = nullptr;
    bool thread_ending = false;
};
thread_local constinit Current current;

/// Keeps the log while the thread lives, and tells the recorder when it ends. Not for the main thread.
class LogOwner {
public:
    ~LogOwner() {
        release();
        // Other thread-local destructors may still emit ranges; from here on they are not recorded.
        current = {0, nullptr, true};
    }
    void take(std::shared_ptr<ThreadLog> log) {
        release();
        log_ = std::move(log);
    }

private:
    void release() {
        if (log_) {
            log_->set_ended();
        }
    }
    std::shared_ptr<ThreadLog> log_;
};
thread_local LogOwner owner;

/// A forked child has no drain thread, so it records nothing.
void forget_in_child() {
    running_recording.store(0, std::memory_order_relaxed);
}

std::string name_of_this_thread() {
    std::array<char, 32> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    return name.data();
}

/// Uses as many entries as memory allows. Throws if hardly any fit.
std::shared_ptr<ThreadLog> make_log(std::size_t ring_entries) {
    constexpr std::size_t kFewest = 64;
    for (;; ring_entries /= 2) {
        try {
            return std::make_shared<ThreadLog>(static_cast<std::uint32_t>(gettid()), name_of_this_thread(),
                                               ring_entries);
        } catch (const std::bad_alloc&) {
            if (ring_entries <= kFewest) {
                throw;
            }
        }
    }
}

ThreadLog* open_log(std::uint64_t recording) noexcept {
    if (current.thread_ending) {
        return nullptr;
    }
    try {
        const bool is_main = gettid() == getpid();
        std::shared_ptr<ThreadLog> log = make_log(entries_of_rings.load(std::memory_order_relaxed));
        {
            const std::scoped_lock lock(shared().mutex);
            if (running_recording.load(std::memory_order_relaxed) != recording) {
                return nullptr;
            }
            shared().new_logs.push_back(log);
            if (is_main) {
                shared().main_log = log;  // nobody reads an earlier recording's log
            }
        }
        current = {recording, log.get(), false};
        if (!is_main) {
            owner.take(std::move(log));
        }
        return current.log;
    } catch (const std::exception&) {
        return nullptr;  // out of memory: training continues without recording this thread
    }
}
}  // namespace

Recording::Recording() {
    static const int registered = pthread_atfork(nullptr, nullptr, forget_in_child);
    static_cast<void>(registered);
    const std::scoped_lock lock(shared().mutex);
    if (shared().claimed) {
        throw TraceError("another recorder is recording; one may record at a time in a process; stop that one first");
    }
    shared().claimed = true;
}

Recording::~Recording() {
    stop();
    const std::scoped_lock lock(shared().mutex);
    shared().new_logs.clear();
    shared().claimed = false;
}

void Recording::start(std::size_t ring_entries) {
    const std::scoped_lock lock(shared().mutex);
    entries_of_rings.store(ring_entries, std::memory_order_relaxed);
    running_recording.store(++shared().last_number, std::memory_order_release);
}

std::vector<RangeEvent> Recording::stop() {
    const std::scoped_lock lock(shared().mutex);
    running_recording.store(0, std::memory_order_release);
    std::vector<RangeEvent> open;
    for (const auto& [id, range] : shared().open_ranges) {
        open.push_back(range);
    }
    std::ranges::sort(open, [](const RangeEvent& a, const RangeEvent& b) { return a.range_id < b.range_id; });
    shared().open_ranges.clear();
    return open;
}

std::vector<std::shared_ptr<ThreadLog>> Recording::take_new_logs() {
    const std::scoped_lock lock(shared().mutex);
    return std::exchange(shared().new_logs, {});
}

ThreadLog* log_of_this_thread() noexcept {
    const std::uint64_t recording = running_recording.load(std::memory_order_acquire);
    if (recording == 0) {
        return nullptr;
    }
    return current.recording == recording ? current.log : open_log(recording);
}

std::uint64_t open_range(const RangeEvent& range) {
    const std::scoped_lock lock(shared().mutex);
    if (running_recording.load(std::memory_order_relaxed) == 0) {
        return 0;
    }
    const std::uint64_t id = ++shared().last_range_id;  // unique, so ids of earlier recordings match nothing
    RangeEvent& kept = shared().open_ranges.emplace(id, range).first->second;
    kept.range_id = id;
    return id;
}

std::optional<RangeEvent> take_range(std::uint64_t id) {
    const std::scoped_lock lock(shared().mutex);
    const auto node = shared().open_ranges.extract(id);
    return node.empty() ? std::nullopt : std::optional(node.mapped());
}
}  // namespace pipescope
