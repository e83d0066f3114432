#pragma once

#include "profiler/recorder/recorder.h"
#include "profiler/recorder/recording_clock.h"
#include "trace/store/trace_reader.h"

#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <thread>

namespace pipescope {
/// Parameters of a killed recording of two busy threads: when it was killed, and how it drained.
struct Kill {
    std::int64_t after_ns = 0;  ///< since its recorder started
    Nanoseconds drain_period{0};
    std::size_t ring_entries = 1 << 15;
    std::int64_t pause_ns = 0;  ///< of each thread between two ranges
};

/// Remains of the killed recording.
struct Remains {
    std::int64_t rows = 0;
    std::int64_t lost_tail_ns = 0;  ///< from the end of the last range in the file to the kill
    std::int64_t lost_ranges = 0;   ///< that had ended by then and are not in the file
};

/// Progress of the killed process, in shared memory.
struct SharedProgress {
    std::atomic<bool> started{false};
    std::atomic<std::int64_t> emitted{0};
};

inline void emit_until_killed(SharedProgress& progress, std::int64_t pause_ns) {
    for (;;) {
        nvtxRangePushA("range");
        nvtxRangePop();
        progress.emitted.fetch_add(1, std::memory_order_relaxed);
        if (pause_ns > 0) {
            const timespec pause{0, pause_ns};
            nanosleep(&pause, nullptr);
        }
    }
}

/// Records into `path` in a separate process, kills it, and recovers the trace. Throws TraceError if the trace cannot
/// be opened or its integrity check fails.
inline Remains kill_recording(const std::filesystem::path& path, const Kill& how) {
    void* memory = mmap(nullptr, sizeof(SharedProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::runtime_error("no shared memory");
    }
    auto& progress = *new (memory) SharedProgress;
    const pid_t child = fork();
    if (child == 0) {
        RecorderOptions options;
        options.path = path;
        options.drain_period = how.drain_period;
        options.ring_entries = how.ring_entries;
        options.devices = false;
        Recorder recorder(options);
        recorder.set_run("clock", std::to_string(recording_clock_ns() - recorder.now().count()));
        recorder.flush();
        progress.started = true;
        std::thread other([&] { emit_until_killed(progress, how.pause_ns); });
        emit_until_killed(progress, how.pause_ns);
    }
    while (!progress.started.load()) {
        usleep(1000);
    }
    const timespec wait{how.after_ns / 1'000'000'000, how.after_ns % 1'000'000'000};
    nanosleep(&wait, nullptr);
    kill(child, SIGKILL);
    const std::int64_t killed = recording_clock_ns();
    waitpid(child, nullptr, 0);
    const std::int64_t emitted = progress.emitted.load();
    munmap(memory, sizeof(SharedProgress));

    const Recovery recovery = recover_trace(path);  // checks the integrity
    const TraceReader reader(path);
    Remains remains;
    remains.lost_tail_ns = killed - std::stoll(reader.run().at("clock")) - recovery.recorded_until_ns;
    remains.rows = recovery.ranges;
    std::int64_t dropped = 0;
    for (const DropRecord& drop : reader.drops()) {
        dropped += drop.dropped;
    }
    remains.lost_ranges = emitted - remains.rows - dropped;
    return remains;
}
}  // namespace pipescope
