#include "simulator/plan/advice.h"

#include "base/error.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "schedule/placement.h"
#include "schedule/schedules.h"
#include "simulator/plan/planner.h"
#include "simulator/search/automatic_schedule.h"
#include "simulator/search/balanced_pipeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kMostLayersSearched = 1000;    // an exact search's tables grow with the square
constexpr std::int64_t kMostDoubled = 4096;          // micro-batches tried to make a pipeline fit
constexpr std::int64_t kMostFarTasks = 4096;         // micro-batches times lanes tried if the pipeline fits
constexpr std::int64_t kMostCountsTried = 64;        // of micro-batches that do not divide the mini-batch
constexpr std::int64_t kMostForwardsOrdered = 8192;  // by schedule auto, which then takes half a second
constexpr std::size_t kLongestBalance = 24;          // characters in a title

/// The number with one digit behind the point.
std::string one_digit(double value) {
    const std::int64_t tenths = std::llround(std::abs(value) * 10);
    return (value < 0 && tenths != 0 ? "-" : "") + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}
std::string percent_text(double fraction) {
    return one_digit(fraction * 100) + " %";
}

/// As a person would ask for it: no option of a proposed change has more digits.
double with_four_digits(double value) {
    const double unit = value > 0 ? std::pow(10, std::floor(std::log10(value)) - 3) : 1;
    return unit >= 1 ? std::round(value / unit) * unit : std::round(value / unit) / std::round(1 / unit);
}

// Hardware

bool all_alike(const auto& values) {
    return std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end();
}
bool all_different(const std::vector<std::string>& names) {
    return std::set<std::string>(names.begin(), names.end()).size() == names.size();
}

/// "cuda:" of "cuda:12".
std::string device_stem(const std::string& name) {
    return name.substr(0, name.find_last_not_of("0123456789") + 1);
}
bool are_numbered_alike(const std::vector<std::string>& names) {
    return all_different(names) && std::ranges::all_of(names, [&](const auto& name) {
               return device_stem(name) == device_stem(names.front());
           });
}

/// Lanes that another one can join and any one can leave.
bool lanes_are_alike(const Hardware& hardware) {
    return hardware.pairs.empty() && all_alike(hardware.speeds) && all_alike(hardware.memory_limits) &&
           (all_alike(hardware.devices) || are_numbered_alike(hardware.devices));
}

/// Names a device that none of `names` does, after their pattern: "cuda:2" after "cuda:0", "cuda:1".
std::string further_device(const std::vector<std::string>& names, const std::string& like) {
    const std::string stem = device_stem(like);
    for (int number = 0;; ++number) {
        std::string name = stem + std::to_string(number);
        if (std::ranges::find(names, name) == names.end()) {
            return name;
        }
    }
}

/// Gives every lane of an accelerator that is not the first one of its device a device of its own.
Hardware with_own_devices(Hardware hardware) {
    for (std::size_t lane = 1; lane < hardware.devices.size(); ++lane) {
        const std::vector<std::string> before(hardware.devices.begin(),
                                              hardware.devices.begin() + static_cast<std::ptrdiff_t>(lane));
        std::string& own = hardware.devices[lane];
        if (own != kHost && std::ranges::find(before, own) != before.end()) {
            own = further_device(hardware.devices, own);
        }
    }
    return hardware;
}

/// Precondition: lanes_are_alike().
Hardware with_alike_lanes(Hardware hardware, int lanes) {
    const bool apart = all_different(hardware.devices) && std::ranges::count(hardware.devices, kHost) == 0;
    hardware = with_lanes(std::move(hardware), lanes);
    return apart ? with_own_devices(std::move(hardware)) : hardware;
}

/// The most lanes of any process that share its host's cores.
int most_lanes_on_a_host(const Hardware& hardware, int lanes) {
    std::vector<int> of_process(static_cast<std::size_t>(hardware.processes), 0);
    for (int lane = 0; lane < lanes; ++lane) {
        const auto process = static_cast<std::size_t>(process_of(hardware, LaneId{lane}, lanes));
        of_process[process] += runs_on_host(hardware, LaneId{lane}) ? 1 : 0;
    }
    return *std::ranges::max_element(of_process);
}

bool copies_take_links(const PipelineOptions& options, const Simulation& base) {
    const std::vector<SimulatedPartition>& partitions = base.partitions;
    return std::ranges::adjacent_find(partitions, [&](const SimulatedPartition& a, const SimulatedPartition& b) {
               return a.lane != b.lane && !share_device(options.hardware, a.lane, b.lane, num_lanes(options)) &&
                      !link_between(options.hardware, a.lane, b.lane).is_free();
           }) != partitions.end();
}

// Cuts

/// True if the cuts can be sought: each lane has one partition, or those that the schedule needs.
bool has_regular_lanes(const PipelineOptions& options) {
    const std::size_t partitions = options.balance.num_partitions();
    const auto lanes = static_cast<std::size_t>(num_lanes(options));
    if (!runs_one_partition_a_lane(options.schedule)) {
        return partitions == usual_partitions(options.schedule, lanes) &&
               options.placement == placement_of(options.schedule, partitions, lanes);
    }
    return options.placement.empty() || options.placement == placement_in_turn(partitions, partitions);
}

std::string new_cuts_text(const Balance& before, const Balance& after) {
    const std::string old_text = to_string(before);
    const std::string new_text = to_string(after);
    const bool are_short = old_text.size() <= kLongestBalance && new_text.size() <= kLongestBalance;
    return "Balance: " + (are_short ? new_text + " instead of " + old_text : "other cuts");
}

/// Tries the moves one by one.
class Adviser {
public:
    Adviser(const CheckedProfile& profile, const PipelineOptions& options, const std::function<bool()>& cancelled)
        : profile_(profile), options_(options), cancelled_(cancelled), lanes_(num_lanes(options)) {
        advice_.base = find_and_simulate(profile, options, {.noise = false, .memory = true});
        keep_figures_only(advice_.base);
    }

    Advice run() {
        change_checkpoint();
        change_micro_batches();
        change_balance();
        change_schedule();
        change_lanes();
        change_links();
        change_devices();
        advice_.cancelled = stopped_;
        return std::move(advice_);
    }

private:
    void change_checkpoint() {
        for (const Checkpoint mode : {Checkpoint::never, Checkpoint::except_last, Checkpoint::always}) {
            PipelineOptions changed = options_;
            changed.checkpoint = mode;
            try_options(MoveKind::checkpoint,
                        "Checkpoint: " + to_string(mode) + " instead of " + to_string(options_.checkpoint), changed);
        }
    }

    void change_micro_batches() {
        const std::int64_t m = advice_.base.micro_batches;
        const std::int64_t samples = replica_batch(options_);
        std::set<std::int64_t> numbers;
        for (std::int64_t fewer = m - 1; fewer >= 1; --fewer) {
            if (samples % fewer == 0) {
                numbers.insert(fewer);
                break;
            }
        }
        for (std::int64_t more = m + 1; more <= std::min(samples, 4 * m); ++more) {
            if (samples % more == 0) {
                numbers.insert(more);
                break;
            }
        }
        if (m >= 2) {
            numbers.insert(m / 2);
        }
        if (2 * m <= samples) {
            numbers.insert(2 * m);
        }
        for (const std::int64_t number : numbers) {
            try_micro_batches(number);
        }
        // Smaller micro-batches need less memory: doubles them until they fit.
        for (std::int64_t number = 4 * m; !any_fits() && number <= std::min(samples, kMostDoubled); number *= 2) {
            numbers.insert(number);
            try_micro_batches(number);
        }
        numbers.insert(m);
        const auto is_near = [&](std::int64_t number) { return numbers.contains(number); };
        std::vector<std::int64_t> even;
        for (std::int64_t number = 1; number <= std::min(samples, kMostDoubled); ++number) {
            const bool is_cheap = number <= 4 * m || number * lanes_ <= kMostFarTasks || !advice_.base.feasible;
            if (samples % number == 0 && is_cheap && !is_near(number)) {
                even.push_back(number);
            }
        }
        try_best_micro_batches(even);
        if (!any_fits()) {
            std::vector<std::int64_t> uneven;
            for (const std::int64_t number : counts_of_every_size(samples)) {
                if (samples % number != 0 && number <= kMostDoubled && !is_near(number)) {
                    uneven.push_back(number);
                }
            }
            try_best_micro_batches(uneven);
        }
    }
    /// All counts of micro-batches, if they are few; otherwise the fewest for every size of the largest one.
    static std::set<std::int64_t> counts_of_every_size(std::int64_t samples) {
        std::set<std::int64_t> counts;
        for (std::int64_t k = 1; k <= samples; ++k) {
            counts.insert(samples <= kMostCountsTried ? k : (samples + k - 1) / k);
        }
        return counts;
    }
    /// Adds the fastest of the numbers that keep the memory limit, unless a move with other micro-batches is as good.
    void try_best_micro_batches(const std::vector<std::int64_t>& numbers) {
        std::optional<Nanoseconds> best;
        for (const Move& move : advice_.moves) {
            if (move.kind == MoveKind::micro_batches && move.simulation.feasible) {
                best = std::min(best.value_or(move.simulation.step_time), move.simulation.step_time);
            }
        }
        if (advice_.base.feasible) {
            best = std::min(best.value_or(advice_.base.step_time), advice_.base.step_time);
        }
        std::optional<Simulation> fastest;
        for (const std::int64_t number : numbers) {
            PipelineOptions changed = options_;
            changed.chunks = number;
            std::optional<Simulation> simulation = simulated(changed);
            if (simulation && simulation->feasible && (!best || simulation->step_time < *best)) {
                best = simulation->step_time;
                fastest = std::move(simulation);
            }
        }
        if (fastest) {
            const std::string title = micro_batches_title(fastest->micro_batches);
            add(MoveKind::micro_batches, title, *std::move(fastest), "");
        }
    }
    std::string micro_batches_title(std::int64_t number) const {
        return "Micro-batches: " + std::to_string(number) + " instead of " + std::to_string(advice_.base.micro_batches);
    }
    void try_micro_batches(std::int64_t number) {
        PipelineOptions changed = options_;
        changed.chunks = number;
        try_options(MoveKind::micro_batches, micro_batches_title(number), changed);
    }
    /// True if the base or other micro-batches keep the memory limit.
    bool any_fits() const {
        return advice_.base.feasible || std::ranges::any_of(advice_.moves, [](const Move& move) {
                   return move.kind == MoveKind::micro_batches && move.simulation.feasible;
               });
    }

    void change_balance() {
        if (lanes_ > 1 && has_regular_lanes(options_)) {
            try_balanced(MoveKind::balance, "", options_, lanes_);
        }
    }

    void change_schedule() {
        for (const Schedule& schedule : runnable_schedules()) {
            // On one lane only the order of forwards and whole backwards can differ.
            const bool needs_lanes = !runs_one_partition_a_lane(schedule) || splits_backward(schedule);
            if (schedule == options_.schedule || runs_one_lane_at_a_time(schedule) || (lanes_ == 1 && needs_lanes)) {
                continue;
            }
            const PipelineOptions changed = with_schedule(schedule);
            // Such a schedule runs any placement, so it also runs that of a file.
            const bool keeps_cuts = runs_one_partition_a_lane(schedule) &&
                                    (runs_one_partition_a_lane(options_.schedule) || options_.schedule.file());
            if (keeps_cuts) {
                try_options(MoveKind::schedule, schedule_title(schedule), changed);
            } else if (has_regular_lanes(options_)) {
                try_balanced(MoveKind::schedule, schedule_title(schedule), changed, lanes_);
            }
        }
        change_to_automatic();
    }
    /// Searches an order for the present cuts and placement. Leaves it out if it is as good as the present one or as a
    /// named one. If the best is a named one that was not tried, adds that.
    void change_to_automatic() {
        const auto partitions = static_cast<std::int64_t>(options_.balance.num_partitions());
        if (lanes_ == 1 || options_.schedule == Schedule::automatic ||
            advice_.base.micro_batches * partitions > kMostForwardsOrdered) {
            return;
        }
        std::optional<Simulation> simulation = simulated(with_schedule(Schedule::automatic));
        if (!simulation) {
            return;
        }
        const auto is_as_good = [&](const Simulation& other) {
            return other.options.balance == options_.balance && other.feasible >= simulation->feasible &&
                   other.step_time <= simulation->step_time && highest_peak(other) <= highest_peak(*simulation);
        };
        const bool is_needless = is_as_good(advice_.base) || std::ranges::any_of(advice_.moves, [&](const Move& move) {
                                     return move.kind == MoveKind::schedule && is_as_good(move.simulation);
                                 });
        if (!is_needless) {
            const Schedule found =
                simulation->options.schedule.file() ? Schedule(Schedule::automatic) : simulation->options.schedule;
            add(MoveKind::schedule, schedule_title(found), *std::move(simulation), "");
        }
    }
    PipelineOptions with_schedule(const Schedule& schedule) const {
        PipelineOptions changed = options_;
        changed.schedule = schedule;
        changed.backward_order = takes_backward_order(schedule) ? options_.backward_order : BackwardOrder::last_first;
        return changed;
    }
    std::string schedule_title(const Schedule& schedule) const {
        return "Schedule: " + to_string(schedule) + " instead of " + to_string(options_.schedule);
    }

    void change_lanes() {
        if (!has_regular_lanes(options_) || !lanes_are_alike(options_.hardware)) {
            return;
        }
        for (const int lanes : {lanes_ - 1, lanes_ + 1}) {
            if (lanes < 1 ||
                usual_partitions(options_.schedule, static_cast<std::size_t>(lanes)) > profile_->layers.size()) {
                continue;
            }
            PipelineOptions changed = options_;
            changed.hardware = with_alike_lanes(options_.hardware, lanes);
            const bool on_host = runs_on_host(options_.hardware, LaneId{0});
            try_balanced(
                MoveKind::lanes,
                "Lanes: " + std::to_string(lanes) + " instead of " + std::to_string(lanes_) + ", with new cuts",
                changed, lanes, lanes > lanes_ && !on_host ? "needs another device" : "");
        }
    }

    void change_links() {
        if (!copies_take_links(options_, advice_.base)) {
            return;
        }
        PipelineOptions changed = options_;
        bool are_measured = false;  // no option scales a table of measured times
        changed.hardware = with_links(options_.hardware, [&are_measured](Link link) {
            are_measured = are_measured || !link.times.empty();
            link.bytes_per_second = with_four_digits(2 * link.bytes_per_second);
            link.latency_ns = with_four_digits(link.latency_ns / 2);
            return link;
        });
        if (!are_measured) {
            try_options(MoveKind::links, "Links: twice as fast", changed, "needs faster links");
        }
        changed.hardware = with_links(options_.hardware, [](const Link& link) {
            Link free;
            free.sharing = link.sharing;
            free.protocol = link.protocol;
            free.sends = link.sends;
            free.place = link.place;
            return free;
        });
        try_options(MoveKind::links, "Links: copies for free", changed,
                    "upper bound: no faster link can save more than this");
    }

    void change_devices() {
        PipelineOptions changed = options_;
        changed.hardware = with_own_devices(options_.hardware);
        try_options(MoveKind::devices, "Devices: one for each lane", changed, "needs more devices");
        const int wanted = most_lanes_on_a_host(options_.hardware, lanes_);
        const int cores = options_.hardware.host_cores;
        if (cores > 0 && cores < wanted) {
            changed.hardware = options_.hardware;
            changed.hardware.host_cores = wanted;
            try_options(
                MoveKind::cores,
                "Cores: " + std::to_string(wanted) + " instead of " + std::to_string(cores) + ", one for each lane",
                changed, "needs more cores");
        }
    }

    bool stop() {
        stopped_ = stopped_ || (cancelled_ && cancelled_());
        return stopped_;
    }

    /// Adds the move, unless it changes nothing or its options are refused.
    void try_options(MoveKind kind, const std::string& title, const PipelineOptions& changed,
                     const std::string& note = "") {
        if (std::optional<Simulation> simulation = simulated(changed)) {
            add(kind, title, *std::move(simulation), note);
        }
    }
    /// Empty if the options are those of the base, such a pipeline cannot run, or its order would be searched for too
    /// long.
    std::optional<Simulation> simulated(const PipelineOptions& changed) {
        if (changed == options_ || is_searched_long(changed) || stop()) {
            return std::nullopt;
        }
        try {
            Simulation simulation = find_and_simulate(profile_, changed, {.noise = false, .memory = true});
            keep_figures_only(simulation);
            return simulation;
        } catch (const UsageError&) {
            return std::nullopt;
        }
    }

    /// True if schedule auto orders many forwards, and more than those of the base.
    bool is_searched_long(const PipelineOptions& changed) const {
        const auto forwards = [](const PipelineOptions& options) {
            return static_cast<std::int64_t>(micro_batch_sizes(options).size() * options.balance.num_partitions());
        };
        return changed.schedule == Schedule::automatic &&
               forwards(changed) > std::max(kMostForwardsOrdered, forwards(options_));
    }

    /// Like try_options(), with the best cuts for that many lanes. An empty title: that of new cuts.
    void try_balanced(MoveKind kind, const std::string& title, PipelineOptions changed, int lanes,
                      const std::string& note = "") {
        changed.placement.clear();
        // Cuts are sought for steps that do not overlap.
        if (options_.update == Update::staggered || stop() || !can_be_balanced(profile_, changed, lanes)) {
            return;
        }
        if (!tables_) {
            tables_.emplace(profile_, widest_options());
        }
        const BalanceAlgorithm algorithm =
            profile_->layers.size() <= kMostLayersSearched ? BalanceAlgorithm::optimal : BalanceAlgorithm::minmax;
        try {
            Simulation simulation = balanced_pipeline(profile_, changed, lanes, algorithm, *tables_).simulation;
            const Balance& balance = simulation.options.balance;
            if (kind == MoveKind::balance && balance == options_.balance) {
                return;
            }
            const std::string new_cuts = new_cuts_text(options_.balance, balance);
            add(kind, title.empty() ? new_cuts : title, std::move(simulation), note);
        } catch (const UsageError&) {
            return;  // such a pipeline cannot run
        }
    }

    PipelineOptions widest_options() const {
        PipelineOptions widest = options_;
        if (lanes_are_alike(options_.hardware)) {
            widest.hardware = with_alike_lanes(options_.hardware, lanes_ + 1);
        }
        return widest;
    }

    void add(MoveKind kind, const std::string& title, Simulation simulation, std::string note) {
        if (simulation.extrapolated && !advice_.base.extrapolated) {
            const std::int64_t samples = micro_batch_sizes(simulation.options).front();
            note += (note.empty() ? "" : "; ") +
                    ("extrapolated: micro-batches of " + counted(samples, "sample", "samples") + " were not profiled");
        }
        Move move;
        move.kind = kind;
        move.title = title;
        move.note = std::move(note);
        move.hypothetical = is_for_comparison_only(simulation.options.schedule) ||
                            (kind == MoveKind::links && !copies_take_links(simulation.options, simulation));
        PipelineOptions asked = simulation.options;
        if (options_.schedule == Schedule::automatic && kind != MoveKind::schedule) {
            asked.schedule = Schedule::automatic;  // not the order found
        }
        move.changes = changed_options(options_, asked);
        move.simulation = std::move(simulation);
        advice_.moves.push_back(std::move(move));
    }

    const CheckedProfile& profile_;
    const PipelineOptions& options_;
    const std::function<bool()>& cancelled_;
    int lanes_;
    bool stopped_ = false;
    std::optional<SearchTables> tables_;  // of the base's micro-batches, which all searches share
    Advice advice_;
};

// Sentences and order

/// "lane 0 needs 5.00 GiB, 1.00 GiB above its limit", of the lane that exceeds its limit most; empty if none does.
std::string over_limit_text(const Simulation& simulation) {
    const std::vector<Shortfall> found = shortfalls(simulation);
    if (found.empty()) {
        return {};
    }
    const Shortfall& worst = found.front();
    return "lane " + std::to_string(worst.lane.value()) + " needs " + format_bytes(worst.peak) + ", " +
           format_bytes(worst.bytes()) + " above its limit";
}
std::string situation_text(const Simulation& base) {
    if (!base.feasible) {
        return over_limit_text(base);
    }
    const auto works_less = [](const SimulatedLane& a, const SimulatedLane& b) { return a.busy < b.busy; };
    if (base.lanes.size() < 2) {
        return "one lane does all the work";
    }
    const auto most = std::ranges::max_element(base.lanes, works_less);
    const std::string bubble_text = "the bubble is " + percent_text(expected_figures(base).bubble);
    const double mean = mean_busy_ns(base);
    const double above = mean > 0 ? static_cast<double>(most->busy.count()) / mean - 1 : 0;
    if (above < 0.01) {
        return bubble_text + "; all lanes work equally long";
    }
    return bubble_text + "; lane " + std::to_string(most - base.lanes.begin()) + " is the bottleneck: it works " +
           percent_text(above) + " longer than the mean lane";
}

/// Explains the step by work and waiting: its pipeline takes the lanes' mean work divided by 1 - bubble.
std::string why_text(const Simulation& base, const Simulation& simulation) {
    const StepChange change = step_change(base, simulation);
    std::vector<std::string> parts;
    if (std::abs(change.work - 1) > kPlanTie) {
        parts.push_back("the lanes work " + percent_text(std::abs(change.work - 1)) +
                        (change.work < 1 ? " less" : " more"));
    }
    if (std::abs(change.bubble) > kPlanTie) {
        parts.push_back("the bubble " + std::string(change.bubble < 0 ? "shrinks" : "grows") + " by " +
                        one_digit(std::abs(change.bubble) * 100) + " points");
    }
    if (parts.empty()) {
        parts.emplace_back("the lanes work and wait as long as before");
    }
    std::string text = parts.size() == 2 ? parts[0] + ", and " + parts[1] : parts[0];
    const std::string over = over_limit_text(simulation);
    return over.empty() ? text : text + "; " + over;
}

/// Two standard errors of relative_change(): the expected steps are means of drawn ones. 0 without noise.
double uncertainty(const Advice& advice, const Move& move) {
    const double before = advice.base.noise ? advice.base.noise->mean_error_ns : 0;
    const double after = move.simulation.noise ? move.simulation.noise->mean_error_ns : 0;
    return 2 * std::hypot(before, after) / std::max(1.0, static_cast<double>(expected_step(advice.base).count()));
}

MoveEffect effect_of(const Advice& advice, const Move& move) {
    const bool fits = move.simulation.feasible;
    if (!advice.base.feasible) {
        return fits ? MoveEffect::fits : MoveEffect::over_limit;
    }
    const bool faster = relative_change(advice, move) < -std::max(kPlanTie, uncertainty(advice, move));
    return !faster ? MoveEffect::none : fits ? MoveEffect::faster : MoveEffect::over_limit;
}
}  // namespace

std::string to_string(MoveKind kind) {
    constexpr std::array kNames{"checkpoint", "micro_batches", "balance", "schedule",
                                "lanes",      "links",         "devices", "cores"};
    return kNames.at(static_cast<std::size_t>(kind));
}

std::string to_string(MoveEffect effect) {
    constexpr std::array kNames{"fits", "faster", "over_limit", "none"};
    return kNames.at(static_cast<std::size_t>(effect));
}

bool helps(MoveEffect effect) {
    return effect == MoveEffect::fits || effect == MoveEffect::faster;
}

void rank_moves(Advice& advice) {
    advice.situation = situation_text(advice.base);
    for (Move& move : advice.moves) {
        move.effect = effect_of(advice, move);
        move.why = why_text(advice.base, move.simulation);
        if (is_within_noise(advice, move)) {
            move.why += "; two standard errors are " + percent_text(uncertainty(advice, move)) + ", so it may be noise";
        }
    }
    const bool by_memory = !advice.base.feasible;
    std::ranges::stable_sort(advice.moves, [&](const Move& a, const Move& b) {
        if (a.effect != b.effect) {
            return a.effect < b.effect;
        }
        if (a.hypothetical != b.hypothetical) {
            return b.hypothetical;
        }
        if (by_memory && a.effect == MoveEffect::over_limit) {
            return largest_shortfall(a.simulation) < largest_shortfall(b.simulation);
        }
        return expected_step(a.simulation) < expected_step(b.simulation);
    });
}

Advice advise(const CheckedProfile& profile, const PipelineOptions& options, const std::function<bool()>& cancelled) {
    Advice advice = Adviser(profile, options, cancelled).run();
    rank_moves(advice);
    return advice;
}

void leave_out(Advice& advice, MoveKind kind) {
    std::erase_if(advice.moves, [kind](const Move& move) { return move.kind == kind; });
}

void add_noise(const CheckedProfile& profile, Advice& advice, const std::function<bool()>& cancelled) {
    if (!has_noise(profile)) {
        return;
    }
    Advice noisy = advice;
    add_noise(profile, noisy.base);
    for (Move& move : noisy.moves) {
        if (cancelled && cancelled()) {
            return;
        }
        add_noise(profile, move.simulation);
    }
    rank_moves(noisy);
    advice = std::move(noisy);
}

bool is_within_noise(const Advice& advice, const Move& move) {
    return move.effect == MoveEffect::none && relative_change(advice, move) < -kPlanTie;
}

std::optional<bool> is_within_model_error(const Advice& advice, const Move& move) {
    return advice.model_error ? std::optional(advice.model_error->hides(relative_change(advice, move))) : std::nullopt;
}

double relative_change(const Advice& advice, const Move& move) {
    const auto [before, after] = comparable_figures(advice.base, move.simulation);
    return before.step.count() > 0
               ? static_cast<double>(after.step.count()) / static_cast<double>(before.step.count()) - 1
               : 0;
}
}  // namespace pipescope
