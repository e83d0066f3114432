// Measures the recorder's guarantees: no loss at 100,000 ranges per second and thread, exact counts of losses under
// overload, and usable traces of killed processes. Prints a line for each; exits with 1 if a guarantee is broken.
//   recorder_gates [KILLS]     (50)

#include "base/sample_statistics.h"
#include "profiler/recorder/recorder.h"
#include "tests/profiler/recorder/killed_recording.h"
#include "trace/store/trace_reader.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

fs::path scratch_file() {
    return fs::temp_directory_path() / fmt::format("pipescope-gates-{}.sqlite", getpid());
}

void remove_scratch() {
    for (const char* suffix : {"", "-wal", "-shm"}) {
        fs::remove(scratch_file().string() + suffix);
    }
}

/// Maximum variation of the difference between wall clock and recording clock.
std::int64_t clock_drift_ns(const std::vector<ClockRecord>& clocks) {
    if (clocks.empty()) {
        return 0;
    }
    const auto difference = [](const ClockRecord& each) { return each.realtime - each.monotonic; };
    const auto [least, most] = std::minmax_element(
        clocks.begin(), clocks.end(), [&](const auto& a, const auto& b) { return difference(a) < difference(b); });
    return difference(*most) - difference(*least);
}

/// Emits pairs at a steady rate in bursts of a millisecond; 0: as fast as possible.
void emit(std::int64_t ranges, std::int64_t per_second) {
    const std::int64_t burst = per_second == 0 ? ranges : per_second / 1000;
    const std::int64_t begin = recording_clock_ns();
    for (std::int64_t done = 0; done < ranges;) {
        for (std::int64_t k = 0; k < burst && done < ranges; ++k, ++done) {
            nvtxRangePushA("range");
            nvtxRangePop();
        }
        if (per_second != 0) {
            const std::int64_t due = begin + done * 1'000'000'000 / per_second;
            const timespec until{due / 1'000'000'000, due % 1'000'000'000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
        }
    }
}

struct Counts {
    std::int64_t recorded = 0;
    std::int64_t dropped = 0;
    std::int64_t open = 0;
    bool each_thread_adds_up = true;
};

/// Leaves one range per thread open, which counts too.
Counts record_threads(int threads, std::int64_t ranges, std::int64_t per_second, std::size_t ring) {
    RecorderOptions options;
    options.path = scratch_file();
    options.if_exists = IfExists::replace;
    options.ring_entries = ring;
    options.devices = false;
    Recorder recorder(options);
    std::vector<std::thread> all;
    for (int k = 0; k < threads; ++k) {
        all.emplace_back([&] {
            emit(ranges, per_second);
            nvtxRangePushA("left open");
        });
    }
    for (std::thread& each : all) {
        each.join();
    }
    recorder.stop();
    Counts counts;
    for (const DropRecord& drop : TraceReader(options.path).drops()) {
        counts.recorded += drop.recorded;
        counts.dropped += drop.dropped;
        counts.open += drop.open_at_exit;
        counts.each_thread_adds_up &= drop.recorded + drop.dropped + drop.open_at_exit == ranges + 1;
    }
    remove_scratch();
    return counts;
}

bool check_exactness() {
    constexpr int kThreads = 2;
    constexpr std::int64_t kRanges = 500'000;
    const Counts counts = record_threads(kThreads, kRanges, 100'000, 1 << 15);
    const bool kept = counts.each_thread_adds_up && counts.dropped == 0 && counts.open == kThreads;
    fmt::print("exactness: {} threads x {} ranges at 100,000/s: {} recorded + {} dropped + {} open; {}\n", kThreads,
               kRanges + 1, counts.recorded, counts.dropped, counts.open, kept ? "kept" : "BROKEN");
    return kept;
}

bool check_overload() {
    constexpr int kThreads = 2;
    constexpr std::int64_t kRanges = 1'000'000;
    const Counts counts = record_threads(kThreads, kRanges, 0, 1 << 12);
    const bool kept = counts.each_thread_adds_up && counts.dropped > 0;
    fmt::print("overload: {} threads x {} ranges, rings of 4,096: {} recorded + {} dropped + {} open; {}\n", kThreads,
               kRanges + 1, counts.recorded, counts.dropped, counts.open, kept ? "kept" : "BROKEN");
    return kept;
}

/// Reads all clocks at the start, every second and at the end, and checks their drift.
bool check_clocks() {
    RecorderOptions options;
    options.path = scratch_file();
    options.if_exists = IfExists::replace;
    options.devices = false;
    Recorder recorder(options);
    constexpr int kSeconds = 3;
    const timespec while_it_records{kSeconds, 0};
    nanosleep(&while_it_records, nullptr);
    recorder.stop();
    const std::vector<ClockRecord> clocks = TraceReader(options.path).clocks();
    const bool kept = clocks.size() >= kSeconds + 1;
    fmt::print("clocks: {} tuples in {} s, {} ns of drift between the wall clock and the recording's; {}\n",
               clocks.size(), kSeconds, clock_drift_ns(clocks), kept ? "kept" : "BROKEN");
    remove_scratch();
    return kept;
}

/// Kills half of them in the middle of large transactions, with a long drain period and large rings.
bool check_kills(int kills) {
    std::mt19937_64 random(7);
    std::vector<std::int64_t> tails;
    std::int64_t lost = 0;
    std::int64_t rows = 0;
    int unreadable = 0;
    for (int k = 0; k < kills; ++k) {
        const bool large = k % 2 == 1;
        Kill how;
        how.after_ns = std::uniform_int_distribution<std::int64_t>(0, 600'000'000)(random);
        how.drain_period = std::chrono::milliseconds{large ? 200 : 20};
        how.ring_entries = large ? std::size_t{1} << 20 : std::size_t{1} << 15;
        how.pause_ns = large ? 0 : 10'000;
        try {
            const Remains remains = kill_recording(scratch_file(), how);
            rows += remains.rows;
            if (!large) {
                tails.push_back(remains.lost_tail_ns);
                lost = std::max(lost, remains.lost_ranges);
            }
        } catch (const std::exception& error) {
            ++unreadable;
            fmt::print("  kill {}: {}\n", k, error.what());
        }
        remove_scratch();
    }
    constexpr double kPeriod = 20e6;
    const double worst =
        tails.empty() ? 0 : static_cast<double>(*std::max_element(tails.begin(), tails.end())) / kPeriod;
    const double middle = tails.empty() ? 0 : static_cast<double>(median(tails)) / kPeriod;
    const bool kept = unreadable == 0 && worst <= 2;
    fmt::print(
        "crash: {} SIGKILLs, half in large transactions: {} unreadable, {} rows kept; of the small ones the lost tail "
        "is "
        "{:.2f} drain periods in the median, {:.2f} at worst, {} ranges at most; {}\n",
        kills, unreadable, rows, middle, worst, lost, kept ? "kept" : "BROKEN");
    return kept;
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    const int kills = argc > 1 ? std::atoi(argv[1]) : 50;
    // Runs first, since forks of a process with threads are unsafe.
    bool kept = pipescope::check_kills(kills);
    kept &= pipescope::check_exactness();
    kept &= pipescope::check_overload();
    kept &= pipescope::check_clocks();
    return kept ? 0 : 1;
}
