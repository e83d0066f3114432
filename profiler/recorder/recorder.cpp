#include "profiler/recorder/recorder.h"

#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "base/thread_start.h"
#include "profiler/recorder/device_recording.h"
#include "profiler/recorder/nvtx_handler.h"
#include "profiler/recorder/range_sink.h"
#include "profiler/recorder/recording.h"
#include "profiler/recorder/recording_clock.h"
#include "profiler/recorder/shared_libraries.h"
#include "profiler/recorder/write_requests.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace pipescope {
namespace {
constexpr std::int64_t kClockPeriodNs = 1'000'000'000;

std::string process_name() {
    std::ifstream file("/proc/self/comm");
    std::string name;
    std::getline(file, name);
    return valid_text(name);
}

/// The user's setting from the environment, for programs without recorder options. Throws TraceError.
std::size_t ring_entries(const RecorderOptions& options) {
    const char* wanted = std::getenv("PIPESCOPE_RING_ENTRIES");
    if (options.ring_entries != 0 || wanted == nullptr || *wanted == '\0') {
        return options.ring_entries == 0 ? kRingEntries : options.ring_entries;
    }
    const std::string_view text(wanted);
    const auto entries = number_in<std::size_t>(text);
    if (!entries || *entries == 0) {
        throw TraceError(
            fmt::format("PIPESCOPE_RING_ENTRIES is {}; it must be a whole number above 0; {} is what a thread has by "
                        "itself",
                        text, kRingEntries));
    }
    return *entries;
}

/// A thread's log, with the counts of the drain thread.
struct Emitter {
    std::shared_ptr<ThreadLog> log;
    std::uint64_t dropped_counted = 0;
};
}  // namespace

struct Recorder::Impl {
    explicit Impl(RecorderOptions given);
    ~Impl();

    /// True in a forked child: drain thread and file belong to the parent and must not be used.
    bool in_forked_child() const { return getpid() != owner_pid; }

    void drain_thread();
    void fail();
    /// Waits for the next period, a flush or the end. Returns the number of the last requested flush.
    std::uint64_t wait_for_work();
    void write_pass();
    void finish();
    void fetch_new_logs();
    void write_records(Emitter& emitter, const ThreadLog::Snapshot& snapshot);
    void count_drops(Emitter& emitter, std::uint64_t dropped);
    void write_left_open(const RangeEvent& range);
    void write_start();
    void write_end();
    void write_clocks_when_due();
    void flush();
    void stop();

    // Claims the recording before creating the file, so that a second recorder is refused before it changes anything.
    Recording recording;
    const RecorderOptions options;
    const std::size_t entries;
    const std::int64_t owner_pid = getpid();
    TraceWriter writer;
    const std::int64_t origin = recording_clock_ns();
    RangeSink sink;
    const std::int64_t deferred_before = deferred_submissions();
    std::optional<DeviceRecording> devices;
    WriteRequests requests;

    // Used by the drain thread only.
    std::vector<Emitter> emitters;
    std::vector<RangeEvent> open_across_threads;
    std::int64_t next_clock_ns = 0;
    std::int64_t passes = 0;

    std::mutex mutex;  // guards the following members
    std::condition_variable work;
    std::condition_variable flushed;
    std::uint64_t flush_asked = 0;
    std::uint64_t flush_done = 0;
    bool stopping = false;
    std::exception_ptr failure;

    std::mutex stop_mutex;
    std::jthread thread;
};

Recorder::Impl::Impl(RecorderOptions given)
    : options(std::move(given)),
      entries(ring_entries(options)),
      writer(options.path, options.if_exists),
      sink(writer, NameRegistry::of_process(), origin, owner_pid) {
    write_start();
    if (options.devices) {
        devices.emplace(writer, DeviceCaptureOptions{.origin = origin, .pid = owner_pid});
    }
    writer.commit();
    // Blocks signals in the drain thread, so that the program's handlers do not run there.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread = start_thread(
            "the recording", [this] { drain_thread(); }, [this] { fail(); });
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    recording.start(entries);
}

Recorder::Impl::~Impl() {
    if (thread.joinable()) {
        try {
            stop();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "pipescope: the trace is incomplete: %s\n", printable(error.what()).c_str());
        }
    }
}

void Recorder::Impl::write_start() {
    const ClockRecord clocks = read_clocks();
    // Wall clock at `origin`, which is shortly before the tuple.
    writer.set_start(clocks.realtime - (clocks.monotonic - origin));
    writer.add_clock(clocks);
    next_clock_ns = clocks.monotonic + kClockPeriodNs;
    writer.add_process(owner_pid << 24, owner_pid, process_name());
    if (const auto missing = missed_ranges_diagnostic()) {
        writer.add_diagnostic(*missing);
    }
}

void Recorder::Impl::drain_thread() {
    pthread_setname_np(pthread_self(), "pipescope-drain");
    bool last = false;
    while (!last) {
        const std::uint64_t flush = wait_for_work();
        bool failed = false;
        {
            const std::scoped_lock lock(mutex);
            last = stopping;
            failed = failure != nullptr;
        }
        try {
            if (!failed && last) {
                finish();
            } else if (!failed) {
                write_pass();
            }
        } catch (...) {
            fail();
        }
        const std::scoped_lock lock(mutex);
        flush_done = flush;
        flushed.notify_all();
    }
}

/// Keeps the exception of the drain thread; training continues, and stop() reports the error. Stops recording, because
/// the rings are no longer drained.
void Recorder::Impl::fail() {
    {
        const std::scoped_lock lock(mutex);
        failure = std::current_exception();
    }
    flushed.notify_all();
    recording.stop();
}

std::uint64_t Recorder::Impl::wait_for_work() {
    std::unique_lock lock(mutex);
    work.wait_for(lock, options.drain_period, [&] { return stopping || flush_asked > flush_done; });
    return flush_asked;
}

void Recorder::Impl::fetch_new_logs() {
    for (std::shared_ptr<ThreadLog>& log : recording.take_new_logs()) {
        sink.write_thread_name(log->tid(), log->thread_name());
        sink.counts_of(log->tid());  // a row for every emitting thread, also without losses
        emitters.push_back({std::move(log)});
    }
}

void Recorder::Impl::write_pass() {
    ++passes;
    fetch_new_logs();
    // Steps before heads: once a step has a row, all its ranges are in the file, even if the process is killed here.
    const std::vector<StepRecord> steps = requests.take_steps();
    // Heads before requests and names: whatever was requested or named before a range started is then known when the
    // range is written.
    std::vector<std::optional<ThreadLog::Snapshot>> ended;
    std::vector<std::uint64_t> heads;
    for (const Emitter& emitter : emitters) {
        ended.push_back(emitter.log->ended() ? std::optional(emitter.log->snapshot()) : std::nullopt);
        heads.push_back(ended.back() ? ended.back()->head : emitter.log->head());
    }
    requests.write(writer, sink);
    sink.write_new_names();
    std::vector<Emitter> living;
    for (std::size_t k = 0; k < emitters.size(); ++k) {
        if (ended[k]) {
            write_records(emitters[k], *ended[k]);
        } else {
            write_records(emitters[k], {heads[k], emitters[k].log->dropped(), 0, 0, {}});
            living.push_back(std::move(emitters[k]));
        }
    }
    emitters = std::move(living);
    for (const StepRecord& step : steps) {
        writer.add_step(step);
    }
    write_clocks_when_due();
    if (devices) {
        devices->write_when_due(recording_clock_ns());
    }
    writer.commit();
}

void Recorder::Impl::write_records(Emitter& emitter, const ThreadLog::Snapshot& snapshot) {
    const std::uint32_t tid = emitter.log->tid();
    DropRecord& counts = sink.counts_of(tid);
    emitter.log->drain(snapshot.head, [&](const RangeEvent& range) {
        sink.write(range, tid);
        ++counts.recorded;
        counts.truncated += range.truncated ? 1 : 0;
    });
    for (const RangeEvent& range : snapshot.open) {
        write_left_open(range);
    }
    count_drops(emitter, snapshot.dropped);
    if (snapshot.is_stuck) {
        writer.add_diagnostic({"warning", "nvtx",
                               fmt::format("thread {} was stopped while it emitted a range: its open ranges are "
                                           "unknown and missing",
                                           tid)});
    }
    if (snapshot.last_drop != 0) {
        writer.add_diagnostic(
            {"warning", "nvtx",
             fmt::format("thread {} lost {} between {} and {} ns: its ring of {} entries was "
                         "full; figures over that time are too small; record with PIPESCOPE_RING_ENTRIES={}",
                         tid, counted(snapshot.dropped, "range", "ranges"), snapshot.first_drop - origin,
                         snapshot.last_drop - origin, emitter.log->ring_entries(), 8 * emitter.log->ring_entries())});
    }
}

void Recorder::Impl::count_drops(Emitter& emitter, std::uint64_t dropped) {
    if (dropped != emitter.dropped_counted) {
        sink.counts_of(emitter.log->tid()).dropped += static_cast<std::int64_t>(dropped - emitter.dropped_counted);
        emitter.dropped_counted = dropped;
        sink.write_counts_of(emitter.log->tid());  // immediately, so that a killed run's trace has them too
    }
}

void Recorder::Impl::write_left_open(const RangeEvent& range) {
    sink.write(range, range.start_tid);
    ++sink.counts_of(range.start_tid).open_at_exit;
}

void Recorder::Impl::finish() {
    ++passes;
    fetch_new_logs();
    std::vector<ThreadLog::Snapshot> snapshots;
    for (const Emitter& emitter : emitters) {
        snapshots.push_back(emitter.log->snapshot());
    }
    requests.write(writer, sink);
    sink.write_new_names();
    for (std::size_t k = 0; k < emitters.size(); ++k) {
        write_records(emitters[k], snapshots[k]);
    }
    for (const RangeEvent& range : open_across_threads) {
        write_left_open(range);
    }
    for (const StepRecord& step : requests.take_steps()) {
        writer.add_step(step);
    }
    sink.write_counts();
    if (const std::int64_t deferred = deferred_submissions() - deferred_before; deferred > 0) {
        writer.add_diagnostic(
            {"warning", "nvtx",
             fmt::format("the program submitted {} with times of its own clocks, which are not recorded",
                         counted(deferred, "event or batch", "events or batches"))});
    }
    if (devices) {
        devices->finish();
    }
    write_end();
    writer.close();
}

void Recorder::Impl::write_end() {
    writer.add_clock(read_clocks());
    writer.add_overhead({"drain thread", "cpu_ns", thread_cpu_ns()});
    writer.add_overhead({"drain thread", "rows", sink.rows()});
    writer.add_overhead({"drain thread", "passes", passes});
}

void Recorder::Impl::write_clocks_when_due() {
    if (recording_clock_ns() >= next_clock_ns) {
        const ClockRecord clocks = read_clocks();
        writer.add_clock(clocks);
        next_clock_ns = clocks.monotonic + kClockPeriodNs;
    }
}

void Recorder::Impl::flush() {
    if (in_forked_child()) {
        return;
    }
    std::unique_lock lock(mutex);
    const std::uint64_t wanted = ++flush_asked;
    work.notify_one();
    flushed.wait(lock, [&] { return flush_done >= wanted || stopping || failure != nullptr; });
}

void Recorder::Impl::stop() {
    if (in_forked_child()) {
        return;
    }
    const std::scoped_lock only_one(stop_mutex);
    if (!thread.joinable()) {
        return;
    }
    std::vector<RangeEvent> open = recording.stop();
    {
        const std::scoped_lock lock(mutex);
        open_across_threads = std::move(open);
        stopping = true;
    }
    work.notify_one();
    thread.join();
    flushed.notify_all();
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
}

Recorder::Recorder(RecorderOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Recorder::~Recorder() {
    if (impl_->in_forked_child()) {
        static_cast<void>(impl_.release());
    }
}

void Recorder::set_pipeline(const std::vector<LaneInfo>& lanes, const PipelineShape& shape) {
    shape.check();
    impl_->flush();  // earlier ranges belong to the earlier pipeline
    impl_->requests.add([=](TraceWriter& writer, RangeSink& sink) {
        writer.set_lanes(lanes);
        sink.set_shape(shape);
    });
}

void Recorder::set_run(std::string_view key, std::string_view json) {
    require_run_json(key, json);  // checked here, so that the caller gets the error
    impl_->requests.add([key = std::string(key), json = std::string(json)](TraceWriter& writer, RangeSink&) {
        writer.set_run(key, json);
    });
}

void Recorder::set_profile(std::string_view json) {
    impl_->requests.add([json = std::string(json)](TraceWriter& writer, RangeSink&) { writer.set_profile(json); });
}

void Recorder::add_step(const StepRecord& step) {
    impl_->requests.add(step);
}

void Recorder::add_memory(const MemorySample& sample) {
    impl_->requests.add(sample);
}

void Recorder::add_diagnostic(const DiagnosticRecord& diagnostic) {
    impl_->requests.add([=](TraceWriter& writer, RangeSink&) { writer.add_diagnostic(diagnostic); });
}

std::int64_t Recorder::origin_ns() const {
    return impl_->origin;
}

Nanoseconds Recorder::now() const {
    return Nanoseconds{recording_clock_ns() - impl_->origin};
}
void Recorder::flush() {
    impl_->flush();
}
void Recorder::stop() {
    impl_->stop();
}
}  // namespace pipescope
