#include "profiler/recorder/load_meter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// Reads utime and stime. The name in parentheses before them may contain spaces and parentheses.
std::optional<std::int64_t> time_of_process(const std::filesystem::path& stat) {
    std::ifstream file(stat);
    std::string line;
    if (!std::getline(file, line) || line.rfind(')') == std::string::npos) {
        return std::nullopt;
    }
    std::istringstream fields(line.substr(line.rfind(')') + 1));
    std::string skipped;
    constexpr int kBeforeUserTime = 11;  // from state to cmajflt
    for (int k = 0; k < kBeforeUserTime; ++k) {
        fields >> skipped;
    }
    std::int64_t user = 0;
    std::int64_t system = 0;
    return fields >> user >> system ? std::optional(user + system) : std::nullopt;
}

/// Reads "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345", in us.
std::optional<std::int64_t> waiting_time(const std::filesystem::path& pressure) {
    std::ifstream file(pressure);
    for (std::string line; std::getline(file, line);) {
        const std::size_t total = line.find("total=");
        std::int64_t us = 0;
        if (line.starts_with("some") && total != std::string::npos &&
            std::istringstream(line.substr(total + 6)) >> us) {
            return us;
        }
    }
    return std::nullopt;
}
std::optional<CoreTimes> read(const std::vector<int>& cores, const std::filesystem::path& proc) {
    const std::optional<std::int64_t> own = time_of_process(proc / "self" / "stat");
    if (!own) {
        return std::nullopt;
    }
    CoreTimes times;
    times.own = *own;
    std::ifstream file(proc / "stat");
    for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string name;
        fields >> name;
        if (!name.starts_with("cpu") || name == "cpu") {  // "cpu" is the sum of all cores
            continue;
        }
        int core = -1;
        std::istringstream(name.substr(3)) >> core;
        if (!cores.empty() && std::ranges::find(cores, core) == cores.end()) {
            continue;
        }
        // Fields: user nice system idle iowait irq softirq steal. user includes the time of guests.
        std::array<std::int64_t, 8> ticks{};
        for (std::int64_t& each : ticks) {
            fields >> each;
        }
        times.busy += ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
        times.stolen += ticks[7];
        times.total += ticks[0] + ticks[1] + ticks[2] + ticks[3] + ticks[4] + ticks[5] + ticks[6] + ticks[7];
        ++times.cores;
    }
    times.waiting_us = waiting_time(proc / "pressure" / "cpu");
    return times.cores > 0 ? std::optional(times) : std::nullopt;
}

/// Empty for less than a second of the cores' time.
std::optional<MachineLoad> load_between(const CoreTimes& start, const CoreTimes& now) {
    const std::int64_t ticks_per_second = sysconf(_SC_CLK_TCK);
    if (now.cores != start.cores || now.total - start.total < ticks_per_second) {
        return std::nullopt;
    }
    const auto total = static_cast<double>(now.total - start.total);
    const auto share = [&](std::int64_t ticks) { return std::clamp(static_cast<double>(ticks) / total, 0.0, 1.0); };
    MachineLoad load;
    load.others = share((now.busy - start.busy) - (now.own - start.own));
    load.stolen = share(now.stolen - start.stolen);
    if (now.waiting_us && start.waiting_us) {
        const double elapsed_us = total / now.cores / static_cast<double>(ticks_per_second) * 1e6;
        load.pressure = std::clamp(static_cast<double>(*now.waiting_us - *start.waiting_us) / elapsed_us, 0.0, 1.0);
    }
    return load;
}

Nanoseconds time_between(const CoreTimes& start, const CoreTimes& now) {
    const std::int64_t ns_per_tick = 1'000'000'000 / sysconf(_SC_CLK_TCK);
    return Nanoseconds{(now.total - start.total) * ns_per_tick / now.cores};
}
}  // namespace

LoadMeter::LoadMeter(std::vector<int> cores, std::filesystem::path proc)
    : cores_(std::move(cores)), proc_(std::move(proc)), start_(read(cores_, proc_)) {}

std::optional<MachineLoad> LoadMeter::load() const {
    const std::optional<CoreTimes> now = read(cores_, proc_);
    return start_ && now ? load_between(*start_, *now) : std::nullopt;
}

StepLoadMeter::StepLoadMeter(std::vector<int> cores, std::filesystem::path proc)
    : cores_(std::move(cores)), proc_(std::move(proc)) {
    if (const std::optional<CoreTimes> first = read(cores_, proc_)) {
        readings_.push_back(*first);
    }
}

std::optional<StepLoad> StepLoadMeter::end_step(Nanoseconds now) {
    constexpr Nanoseconds kBetweenReadings{100'000'000};
    if (readings_.empty() || (last_ && now - *last_ < kBetweenReadings)) {
        return std::nullopt;
    }
    const std::optional<CoreTimes> reading = read(cores_, proc_);
    if (!reading) {
        return std::nullopt;
    }
    last_ = now;
    if (reading->cores != readings_.back().cores) {
        readings_.clear();
    }
    while (readings_.size() > 1 && load_between(readings_[1], *reading)) {
        readings_.pop_front();
    }
    readings_.push_back(*reading);
    const std::optional<MachineLoad> load = load_between(readings_.front(), *reading);
    return load ? std::optional(StepLoad{*load, time_between(readings_.front(), *reading)}) : std::nullopt;
}
}  // namespace pipescope
