#include "simulator/plan/schedule_comparison.h"

#include "base/error.h"
#include "base/printable.h"
#include "schedule/schedules.h"
#include "simulator/search/automatic_schedule.h"
#include "simulator/search/balanced_pipeline.h"
#include "simulator/search/search_tables.h"

#include <algorithm>
#include <functional>
#include <set>

namespace pipescope {
namespace {
/// Copies between devices in the timeline, plus the ring's parts of the gradients.
Bytes communicated_bytes(const Simulation& simulation, const CheckedProfile& profile) {
    const PipelineOptions& options = simulation.options;
    Bytes copies = 0;
    for (const Slice& slice : simulation.timeline.slices) {
        copies += slice.bytes;
    }
    Bytes gradients = 0;
    for (const LayerProfile& layer : profile->layers) {
        gradients += layer.gradient_bytes;
    }
    const int others = num_weight_copies(options) - 1;
    const double all = static_cast<double>(options.replicas) * static_cast<double>(copies) +
                       2.0 * others * static_cast<double>(gradients);
    constexpr double kMost = 9e18;  // fits 64 bits
    if (all > kMost) {
        throw UsageError("it would move " + shortest(all) +
                         " bytes in a step; at most 9e18 can be counted; correct the profile");
    }
    return options.replicas * copies + 2 * others * gradients;
}

/// Adds ways to use the lanes, one by one. If its options rule a way out, notes it instead of throwing.
class Comparing {
public:
    Comparing(const CheckedProfile& profile, const PipelineOptions& options) : profile_(profile), options_(options) {
        options_.placement.clear();
        options_.replicas = 1;
        options_.weight_copies = 0;
        options_.backward_order = BackwardOrder::last_first;
        lanes_ = static_cast<int>(options.balance.num_partitions());
        m_ = std::min(options.chunks, options.batch);
    }

    void add_pipeline(const std::string& name, const Schedule& schedule, Checkpoint checkpoint, std::string note = "") {
        PipelineOptions options = options_;
        options.schedule = schedule;
        options.checkpoint = checkpoint;
        options.most_in_flight = needs_loss_inside(schedule) ? options.most_in_flight : 0;
        add(
            name, [&] { return options; }, std::move(note));
    }

    /// Several partitions on each lane.
    void add_several_a_lane(const Schedule& schedule) {
        const std::string name = to_string(schedule);
        PipelineOptions options = options_;
        options.schedule = schedule;
        if (!can_be_balanced(profile_, options, lanes_)) {
            result_.left_out.push_back({name, "it needs " + needs_of(schedule)});
            return;
        }
        const auto placed = [&] {  // refuses some, such as staggered updates of copies
            return placed_options(profile_, options, lanes_, BalanceAlgorithm::optimal, {},
                                  SearchTables(profile_, options));
        };
        add(name, placed,
            is_bidirectional(schedule) ? "two partitions per lane, each held by two lanes" : "two partitions per lane");
    }

    /// `replicas` pipelines of lanes / replicas partitions, each with its part of the mini-batch.
    void add_replicas(int replicas) {
        const int partitions = lanes_ / replicas;
        const std::string name = partitions == 1
                                     ? "data-parallel"
                                     : std::to_string(replicas) + " x " + std::to_string(partitions) + " data x gpipe";
        if (options_.batch % replicas != 0) {
            result_.left_out.push_back({name, "a batch of " + std::to_string(options_.batch) +
                                                  " cannot be divided by " + std::to_string(replicas)});
            return;
        }
        if (!lanes_are_alike()) {
            result_.left_out.push_back({name, "the lanes share a device, or differ in speed or memory"});
            return;
        }
        PipelineOptions options = options_;
        options.schedule = Schedule::gpipe;
        options.most_in_flight = 0;
        options.hardware = with_lanes(options_.hardware, partitions);
        options.balance = balance_of(options, partitions);
        options.replicas = replicas;
        options.chunks = std::max<std::int64_t>(1, m_ / replicas);
        options.checkpoint = partitions == 1 ? Checkpoint::never : options_.checkpoint;
        add(
            name, [&] { return options; }, partitions == 1 ? "the whole model on each lane" : "");
    }

    ScheduleComparison take() { return std::move(result_); }

private:
    bool lanes_are_alike() const {
        const Hardware& hardware = options_.hardware;
        const std::set<std::string> devices(hardware.devices.begin(), hardware.devices.end());
        const std::set<double> speeds(hardware.speeds.begin(), hardware.speeds.end());
        const std::set<Bytes> limits(hardware.memory_limits.begin(), hardware.memory_limits.end());
        return devices.size() == hardware.devices.size() && speeds.size() <= 1 && limits.size() <= 1;
    }

    /// Ignores the memory limit, since the table shows whether it is exceeded.
    Balance balance_of(PipelineOptions options, int partitions) const {
        if (partitions == lanes_) {
            return options_.balance;
        }
        options.hardware.speeds.clear();
        options.hardware.memory_limit.reset();
        options.hardware.memory_limits.clear();
        return find_balance(profile_, options, partitions, BalanceAlgorithm::optimal).balance;
    }

    /// `options_of` may refuse, too.
    void add(const std::string& name, const std::function<PipelineOptions()>& options_of, std::string note) {
        try {
            const PipelineOptions options = options_of();
            ComparedSchedule compared{name, simulate(profile_, options, {.noise = true, .memory = true})};
            compared.synchronous = is_synchronous(options.schedule);
            add_lower_bound(profile_, compared.simulation);
            compared.communicated_bytes =
                communicated_bytes(compared.synchronous ? compared.simulation : draining(options), profile_);
            compared.note = std::move(note);
            result_.schedules.push_back(std::move(compared));
        } catch (const UsageError& error) {
            result_.left_out.push_back({name, error.what()});
        }
    }

    /// Holds each copy of a mini-batch once. A steady-state window would cut copies at both ends.
    Simulation draining(PipelineOptions options) const {
        options.schedule = Schedule::one_f_one_b;
        return simulate(profile_, options, {.noise = false, .memory = false});
    }

    const CheckedProfile& profile_;
    PipelineOptions options_;
    int lanes_ = 1;
    std::int64_t m_ = 1;
    ScheduleComparison result_;
};
}  // namespace

ScheduleComparison compare_schedules(const CheckedProfile& profile, const PipelineOptions& options) {
    PipelineOptions checked = options;
    checked.schedule = Schedule::gpipe;
    checked.placement.clear();
    checked.most_in_flight = 0;
    check_options(checked, profile->layers.size());
    check_memory_known(profile, checked.hardware);
    const auto lanes = static_cast<int>(options.balance.num_partitions());
    Comparing comparing(profile, options);
    const std::vector<Schedule> schedules = all_schedules();
    for (const Schedule& schedule : schedules) {
        if (runs_one_lane_at_a_time(schedule)) {
            comparing.add_pipeline(to_string(schedule), schedule, Checkpoint::never,
                                   "one lane at a time, checkpoint never");
        }
    }
    if (lanes > 1) {
        comparing.add_replicas(lanes);
    }
    for (int replicas = lanes / 2; replicas > 1; --replicas) {
        if (lanes % replicas == 0) {
            comparing.add_replicas(replicas);
        }
    }
    const Schedule usual;
    for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        comparing.add_pipeline(to_string(usual) + ", " + to_string(mode), usual, mode);
    }
    for (const Schedule& schedule : schedules) {
        if (!runs_one_partition_a_lane(schedule)) {
            comparing.add_several_a_lane(schedule);
        } else if (schedule != usual && is_synchronous(schedule) && !runs_one_lane_at_a_time(schedule)) {
            comparing.add_pipeline(to_string(schedule), schedule, options.checkpoint);
        }
    }
    for (const Schedule& schedule : schedules) {
        if (!is_synchronous(schedule)) {
            comparing.add_pipeline(
                to_string(schedule), schedule, options.checkpoint,
                "asynchronous: gradients of weights of different age, several versions of them held");
        }
    }
    return comparing.take();
}
}  // namespace pipescope
