#include "simulator/search/schedule_search.h"

#include "base/stop_check.h"
#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
using Ns = std::int64_t;
constexpr Ns kNotYet = std::numeric_limits<Ns>::max();

/// Tasks visited by all rules and swaps together. Some 50 ns each.
constexpr std::size_t kSearchVisits = 14'000;
constexpr std::size_t kLeastRules = 5;
/// As many of the visits again go to recomputes in pauses, and to this many rules.
constexpr std::size_t kRecomputeVisits = 6'000;
constexpr std::size_t kRecomputeRules = 3;
/// Pipelines of at most this many tasks are searched completely, if that takes at most this many nodes.
constexpr std::size_t kFewTasks = 40;
constexpr int kMostNodes = 60'000;

enum class StepKind : std::uint8_t { forward, backward, weight, recompute };
constexpr std::size_t kStepKinds = 4;
using StepCounts = std::array<int, kStepKinds>;

/// A task of a lane. Its micro-batch is the number of such tasks before it: micro-batches run in ascending order.
struct OrderStep {
    StepKind kind;
    std::int32_t partition;

    friend bool operator==(const OrderStep&, const OrderStep&) = default;
};
/// By lane. An order has steps for all recomputes, or for none: then each backward starts with its own.
using Order = std::vector<std::vector<OrderStep>>;

/// The costs, with what follows from them.
struct ScheduleProblem {
    explicit ScheduleProblem(const ScheduleCosts& of) : ScheduleProblem(of, of.micro_batches - 1) {}
    /// With except_last, the micro-batch at that place of the order is the one that is not recomputed.
    ScheduleProblem(const ScheduleCosts& of, int kept_place)
        : costs(of),
          num_lanes(of.num_lanes()),
          kept(kept_place),
          recomputed(static_cast<std::size_t>(of.micro_batches) + 1, 0) {
        partitions_of.resize(static_cast<std::size_t>(num_lanes));
        reserved_behind.resize(of.partitions.size());
        for (int i = 0; i < m(); ++i) {
            recomputed[static_cast<std::size_t>(i)] =
                is_checkpointed(of.checkpoint, MicroBatchId{micro_batch_at(i)}, m()) ? 1 : 0;
        }
        recomputes_any = std::ranges::find(recomputed, 1) != recomputed.end();
        most_bytes =
            of.limits.empty() ? std::vector(partitions_of.size(), std::numeric_limits<Bytes>::max()) : of.limits;
        for (std::size_t j = of.partitions.size(); j-- > 0;) {
            auto& on_lane = partitions_of[of.partitions[j].lane.index()];
            for (const int later : on_lane) {
                reserved_behind[j] += of.partitions[static_cast<std::size_t>(later)].saved;
            }
            on_lane.insert(on_lane.begin(), static_cast<int>(j));
        }
    }

    /// For the larger micro-batches.
    const ScheduleCosts::Partition& at(int j) const { return costs.partitions[static_cast<std::size_t>(j)]; }
    const ScheduleCosts::Partition& at(int j, int i) const { return costs.at(j, i); }
    int num_partitions() const { return static_cast<int>(costs.partitions.size()); }
    int m() const { return costs.micro_batches; }
    /// Without recomputes.
    std::size_t num_tasks() const { return 3 * costs.partitions.size() * static_cast<std::size_t>(m()); }
    bool recomputes() const { return is_recomputed(0); }
    /// With recomputes.
    std::size_t num_steps() const {
        std::size_t steps = num_tasks();
        for (int i = 0; i < m(); ++i) {
            steps += is_recomputed(i) ? costs.partitions.size() : 0;
        }
        return steps;
    }
    bool is_recomputed(int i) const { return recomputes_any && recomputed[static_cast<std::size_t>(i)] != 0; }
    /// The place of the micro-batch that is recomputed after that many others.
    int recomputed_place(int others) const {
        return others + (costs.checkpoint == Checkpoint::except_last && others >= kept ? 1 : 0);
    }
    /// The micro-batch at a place of the order.
    int micro_batch_at(int place) const { return place == kept ? m() - 1 : place - (place > kept ? 1 : 0); }
    /// Of the micro-batch at place i.
    Ns forward(int j, int i) const { return at(j, i).forward + (is_recomputed(i) ? 0 : at(j, i).kept_more); }
    Ns recompute(int j, int i) const { return is_recomputed(i) ? at(j, i).recompute : 0; }
    std::optional<Bytes> limit(std::size_t lane) const {
        return costs.limits.empty() ? std::nullopt : std::optional(costs.limits.at(lane));
    }

    const ScheduleCosts& costs;
    int num_lanes;
    int kept;
    std::vector<char> recomputed;  // by place, and one that is not
    bool recomputes_any = false;
    std::vector<Bytes> most_bytes;                // by lane: the limit, or what none exceeds
    std::vector<std::vector<int>> partitions_of;  // by lane, ascending
    /// Bytes that a lane keeps for the later partitions of a micro-batch that enters partition j: without them, two
    /// micro-batches could each hold what the other one needs.
    std::vector<Bytes> reserved_behind;
};

/// A step that is being planned: what each lane has run so far, and when.
class LaneSweep {
public:
    /// With `keeps_room`, a forward leaves room for what its micro-batch needs later, so that the lanes can go on.
    explicit LaneSweep(const ScheduleProblem& problem, bool keeps_room = true)
        : problem_(&problem),
          keeps_room_(keeps_room),
          m_(static_cast<std::size_t>(problem.m())),
          free_(static_cast<std::size_t>(problem.num_lanes), 0),
          begin_(free_.size(), kNotYet),
          used_(free_.size(), 0),
          in_flight_(free_.size(), 0),
          done_(problem.costs.partitions.size(), StepCounts{}),
          forward_arrives_(problem.costs.partitions.size() * m_, kNotYet),
          gradient_arrives_(forward_arrives_.size(), kNotYet),
          link_free_(free_.size() * free_.size(), 0) {
        std::fill_n(forward_arrives_.begin(), m_, 0);
    }

    Ns free(std::size_t lane) const { return free_[lane]; }
    /// When what a task needs has arrived, of tasks whose neighbours have run; kNotYet for others.
    const std::vector<Ns>& forward_arrivals() const { return forward_arrives_; }
    const std::vector<Ns>& gradient_arrivals() const { return gradient_arrives_; }
    int in_flight(std::size_t lane) const { return in_flight_[lane]; }
    int done(StepKind kind, int j) const { return done_[static_cast<std::size_t>(j)][static_cast<std::size_t>(kind)]; }
    /// Place of the micro-batch of the partition's next task of that kind.
    int next(StepKind kind, int j) const {
        const int others = done(kind, j);
        return kind == StepKind::recompute ? problem_->recomputed_place(others) : others;
    }
    /// True if the partition's next backward has to recompute first: no step of its own has.
    bool must_recompute(int j) const { return must_recompute(j, done(StepKind::backward, j)); }
    /// The objective of the search, for a step whose tasks have all run.
    Ns length() const {
        const std::vector<Ns>& updates = problem_->costs.updates;
        if (updates.empty()) {
            return *std::ranges::max_element(free_);
        }
        Ns longest = 0;
        for (std::size_t lane = 0; lane < free_.size(); ++lane) {
            longest = std::max(longest, length_of(lane));
        }
        return longest;
    }
    /// From the lane's first task to the end of its update.
    Ns length_of(std::size_t lane) const {
        return free_[lane] - std::min(begin_[lane], free_[lane]) + problem_->costs.updates[lane];
    }

    /// When the partition's next task of that kind can start, were its lane free; kNotYet if that is unknown or the
    /// lane has no memory for it. Inlined, as a call for a known kind is a few instructions.
    [[gnu::always_inline]] Ns ready(StepKind kind, int j) const {
        const int i = next(kind, j);
        if (i >= problem_->m()) {
            return kNotYet;
        }
        const Ns arrives = arrival(kind, j, i);
        if (arrives == kNotYet) {
            return kNotYet;
        }
        const std::size_t lane = problem_->at(j).lane.index();
        bool may_run = true;
        switch (kind) {
            case StepKind::forward: may_run = fits_forward(j, i, lane); break;
            case StepKind::backward: may_run = !must_recompute(j, i) || fits(lane, recomputed_bytes(j, i)); break;
            case StepKind::weight: may_run = i < done(StepKind::backward, j); break;
            case StepKind::recompute: may_run = may_recompute(j, i, lane); break;
        }
        return may_run ? arrives : kNotYet;
    }

    /// The duration of the partition's next task of that kind.
    [[gnu::always_inline]] Ns duration(StepKind kind, int j) const {
        const int i = next(kind, j);
        const ScheduleCosts::Partition& at = problem_->at(j, i);
        switch (kind) {
            case StepKind::forward: return problem_->forward(j, i);
            case StepKind::backward: return at.backward + (must_recompute(j, i) ? at.recompute : 0);
            case StepKind::weight: return at.backward_weight;
            case StepKind::recompute: return at.recompute;
        }
        return 0;
    }

    struct Ran {
        Ns start;
        Ns end;
        int touched = -1;  ///< lane that a tensor is sent to; -1: none
    };
    /// Runs the partition's next task of that kind, a backward with its recompute if that has not run. Precondition:
    /// ready() is known.
    [[gnu::always_inline]] Ran run(StepKind kind, int j) {
        const int i = next(kind, j);
        const ScheduleCosts::Partition& at = problem_->at(j, i);
        const std::size_t lane = at.lane.index();
        Ran ran{std::max(free_[lane], arrival(kind, j, i)), 0};
        switch (kind) {
            case StepKind::forward:
                ran.end = ran.start + problem_->forward(j, i);
                used_[lane] += problem_->is_recomputed(i) ? at.input : at.saved;
                ++in_flight_[lane];
                if (j + 1 == problem_->num_partitions()) {
                    gradient_arrives_[place(j, i)] = ran.end;
                } else {
                    const std::size_t to = problem_->at(j + 1).lane.index();
                    forward_arrives_[place(j + 1, i)] = send(lane, to, ran.end, at.copy);
                    ran.touched = static_cast<int>(to);
                }
                break;
            case StepKind::backward: {
                Ns begin = ran.start;
                if (must_recompute(j, i)) {
                    begin = std::max(ran.start + at.recompute, gradient_arrives_[place(j, i)]);
                    used_[lane] += recomputed_bytes(j, i);
                    ++count(StepKind::recompute, j);
                }
                ran.end = begin + at.backward;
                --in_flight_[lane];
                if (j > 0) {
                    const std::size_t to = problem_->at(j - 1).lane.index();
                    gradient_arrives_[place(j - 1, i)] = send(lane, to, ran.end, problem_->at(j - 1, i).copy);
                    ran.touched = static_cast<int>(to);
                }
                break;
            }
            case StepKind::weight:
                ran.end = ran.start + at.backward_weight;
                used_[lane] -= at.saved;
                break;
            case StepKind::recompute:
                ran.end = ran.start + at.recompute;
                used_[lane] += recomputed_bytes(j, i);
                break;
        }
        begin_[lane] = std::min(begin_[lane], ran.start);
        free_[lane] = ran.end;
        ++count(kind, j);
        return ran;
    }

    std::size_t place(int j, int i) const { return static_cast<std::size_t>(j) * m_ + static_cast<std::size_t>(i); }
    bool has_arrived(StepKind kind, int j, int i) const {
        return (kind == StepKind::forward ? forward_arrives_ : gradient_arrives_)[place(j, i)] != kNotYet;
    }

private:
    int& count(StepKind kind, int j) { return done_[static_cast<std::size_t>(j)][static_cast<std::size_t>(kind)]; }
    bool recomputes_early() const { return problem_->costs.recompute_start == RecomputeStart::early; }
    bool must_recompute(int j, int i) const { return problem_->is_recomputed(i) && next(StepKind::recompute, j) <= i; }
    /// When what the task needs has arrived; kNotYet if that is unknown.
    [[gnu::always_inline]] Ns arrival(StepKind kind, int j, int i) const {
        switch (kind) {
            case StepKind::forward: return forward_arrives_[place(j, i)];
            case StepKind::backward: {
                const Ns arrives = gradient_arrives_[place(j, i)];
                const bool begins_before = arrives != kNotYet && must_recompute(j, i) && recomputes_early();
                return begins_before ? std::max<Ns>(0, arrives - problem_->recompute(j, i)) : arrives;
            }
            case StepKind::weight: return 0;
            case StepKind::recompute: return recomputes_early() ? 0 : gradient_arrives_[place(j, i)];
        }
        return kNotYet;
    }
    [[gnu::noinline]] bool may_recompute(int j, int i, std::size_t lane) const {
        return i < done(StepKind::forward, j) && problem_->is_recomputed(i) && fits(lane, recomputed_bytes(j, i));
    }
    Bytes recomputed_bytes(int j, int i) const {
        return problem_->is_recomputed(i) ? problem_->at(j, i).saved - problem_->at(j, i).input : 0;
    }
    bool fits(std::size_t lane, Bytes more) const { return used_[lane] + more <= problem_->most_bytes[lane]; }
    bool fits_forward(int j, int i, std::size_t lane) const {
        const ScheduleCosts::Partition& at = problem_->at(j, i);
        if (!keeps_room_) {
            return fits(lane, problem_->is_recomputed(i) ? at.input : at.saved);
        }
        // A recompute must find room, too.
        const Bytes own = problem_->is_recomputed(i) ? std::max(at.input, at.saved) : at.saved;
        return fits(lane, own + problem_->reserved_behind[static_cast<std::size_t>(j)]) &&
               (!problem_->recomputes_any || problem_->is_recomputed(i) || leaves_room_to_recompute(lane, at.saved));
    }
    /// True if that many bytes more leave room for each recompute before them, once the weights' gradients are done.
    [[gnu::noinline]] bool leaves_room_to_recompute(std::size_t lane, Bytes more) const {
        Bytes waiting = 0;
        Bytes recompute = 0;
        for (const int j : problem_->partitions_of[lane]) {
            for (int i = done(StepKind::weight, j); i < done(StepKind::backward, j); ++i) {
                waiting += problem_->at(j, i).saved;
            }
            if (const int i = next(StepKind::recompute, j); i < done(StepKind::forward, j)) {
                recompute = std::max(recompute, recomputed_bytes(j, i));
            }
        }
        return fits(lane, more - waiting + recompute);
    }
    Ns send(std::size_t from, std::size_t to, Ns at, Ns copy) {
        if (from == to || copy == 0) {
            return at;
        }
        Ns& link = link_free_[from * free_.size() + to];
        link = std::max(link, at) + copy;
        return link;
    }

    const ScheduleProblem* problem_;
    bool keeps_room_;
    std::size_t m_;
    std::vector<Ns> free_;                                // by lane
    std::vector<Ns> begin_;                               // of the first task, by lane
    std::vector<Bytes> used_;                             // by lane
    std::vector<int> in_flight_;                          // by lane, from forward to backward
    std::vector<StepCounts> done_;                        // by partition
    std::vector<Ns> forward_arrives_, gradient_arrives_;  // by partition and micro-batch
    std::vector<Ns> link_free_;                           // by sending and receiving lane
};

/// When a lane recomputes: right before the backward, or also in a pause, there as the last or the first choice.
enum class Recompute { with_backward, last_in_pause, first_in_pause };

/// How a free lane chooses its next task.
struct OrderRule {
    std::vector<int> most_in_flight;  ///< by lane
    bool forward_first = false;       ///< up to most_in_flight; otherwise a backward that is ready goes first
    double fill = 1;                  ///< a backward_weight starts if this share of it fits before the next task
    bool deep_first = false;          ///< of several partitions, the one nearest to the loss goes first
    bool weight_first = false;        ///< a backward_weight starts as soon as it can
    Recompute recompute = Recompute::with_backward;
};

/// Arrivals in an earlier plan, by partition and micro-batch. A lane that expects a task soon does not begin a long
/// backward_weight.
struct Forecast {
    std::vector<Ns> forward_arrives, gradient_arrives;
};

struct OrderChoice {
    Ns start = kNotYet;
    OrderStep step{StepKind::forward, -1};
};

/// The partition whose next recompute ends before the pause does, if there is memory; -1: none. The deepest one, whose
/// gradient comes first.
int recompute_for_pause(const ScheduleProblem& problem, const LaneSweep& planner, std::size_t lane, Ns pause_end) {
    const Ns now = planner.free(lane);
    int found = -1;
    for (const int j : problem.partitions_of[lane]) {
        if (planner.ready(StepKind::recompute, j) <= now &&
            (pause_end == kNotYet || now + planner.duration(StepKind::recompute, j) <= pause_end)) {
            found = j;
        }
    }
    return found;
}

OrderChoice choose(const ScheduleProblem& problem, const LaneSweep& planner, const OrderRule& rule, std::size_t lane,
                   const Forecast* forecast) {
    const Ns now = planner.free(lane);
    OrderChoice forward, backward;
    int pending = -1;
    Ns pending_ns = 0;
    const bool may_enter = planner.in_flight(lane) < rule.most_in_flight[lane];
    for (const int j : problem.partitions_of[lane]) {
        const auto consider = [&](OrderChoice& best, StepKind kind) {
            const Ns ready = planner.ready(kind, j);
            if (ready == kNotYet) {
                return;
            }
            const Ns start = std::max(now, ready);
            if (start < best.start || (start == best.start && rule.deep_first)) {
                best = {start, {kind, j}};
            }
        };
        consider(backward, StepKind::backward);
        if (may_enter) {
            consider(forward, StepKind::forward);
        }
        if (pending < 0 && planner.ready(StepKind::weight, j) != kNotYet) {
            pending = j;
            pending_ns = planner.duration(StepKind::weight, j);
        }
    }
    OrderChoice next = backward;
    if (forward.start < backward.start || (rule.forward_first && forward.start == backward.start)) {
        next = forward;
    }
    if (pending >= 0 && rule.weight_first) {
        return {now, {StepKind::weight, pending}};
    }
    int recompute = -1;
    if (rule.recompute != Recompute::with_backward && next.start > now) {
        recompute = recompute_for_pause(problem, planner, lane, next.start);
    }
    const OrderChoice otherwise = recompute < 0 ? next : OrderChoice{now, {StepKind::recompute, recompute}};
    if (recompute >= 0 && rule.recompute == Recompute::first_in_pause) {
        return otherwise;
    }
    if (pending >= 0 && next.start > now) {
        if (forecast != nullptr) {
            const Ns soon = now + std::llround(rule.fill * static_cast<double>(pending_ns));
            for (const int j : problem.partitions_of[lane]) {
                const auto expects = [&](StepKind kind, const std::vector<Ns>& arrivals) {
                    const int i = planner.done(kind, j);
                    return i < problem.m() && planner.ready(kind, j) == kNotYet && !planner.has_arrived(kind, j, i) &&
                           arrivals[planner.place(j, i)] > now && arrivals[planner.place(j, i)] < soon;
                };
                if (expects(StepKind::backward, forecast->gradient_arrives) ||
                    (may_enter && expects(StepKind::forward, forecast->forward_arrives))) {
                    return otherwise;
                }
            }
        }
        const bool fits = next.start == kNotYet ||
                          static_cast<double>(next.start - now) >= rule.fill * static_cast<double>(pending_ns);
        if (fits) {
            return {now, {StepKind::weight, pending}};
        }
    }
    return otherwise;
}

struct FoundOrder {
    Order order;
    Ns step = kNotYet;
};

/// List scheduling by a rule. The step is kNotYet if the lanes cannot go on.
/// `forecast`: of an earlier plan; takes that of this one.
FoundOrder plan_by(const ScheduleProblem& problem, const OrderRule& rule, Forecast& forecast) {
    LaneSweep planner(problem);
    const Forecast* expected = forecast.forward_arrives.empty() ? nullptr : &forecast;
    const auto lanes = static_cast<std::size_t>(problem.num_lanes);
    FoundOrder plan{Order(lanes), kNotYet};
    std::vector<OrderChoice> next(lanes);
    std::vector<Ns> starts(lanes);
    const auto look = [&](std::size_t lane) {
        next[lane] = choose(problem, planner, rule, lane, expected);
        starts[lane] = next[lane].start;
    };
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        plan.order[lane].reserve(2 * problem.num_tasks() / lanes);
        look(lane);
    }
    for (std::size_t left = problem.num_tasks(); left > 0;) {
        check_stop();
        auto lane = static_cast<std::size_t>(std::ranges::min_element(starts) - starts.begin());
        if (starts[lane] == kNotYet && expected != nullptr) {  // all wait for what the forecast was wrong about
            const Forecast* const kept = std::exchange(expected, nullptr);
            for (std::size_t each = 0; each < lanes; ++each) {
                look(each);
            }
            expected = kept;
            lane = static_cast<std::size_t>(std::ranges::min_element(starts) - starts.begin());
        }
        if (starts[lane] == kNotYet) {
            return plan;
        }
        const OrderStep step = next[lane].step;
        if (rule.recompute != Recompute::with_backward && step.kind == StepKind::backward &&
            planner.must_recompute(step.partition)) {
            plan.order[lane].push_back({StepKind::recompute, step.partition});
        }
        const LaneSweep::Ran ran = planner.run(step.kind, step.partition);
        plan.order[lane].push_back(step);
        left -= step.kind == StepKind::recompute ? 0 : 1;
        look(lane);
        if (ran.touched >= 0 && static_cast<std::size_t>(ran.touched) != lane) {
            look(static_cast<std::size_t>(ran.touched));
        }
    }
    plan.step = planner.length();
    forecast = {planner.forward_arrivals(), planner.gradient_arrivals()};
    return plan;
}

/// Adds a step for each recompute to the order, right before its backward.
Order with_recomputes(const ScheduleProblem& problem, const Order& order) {
    Order all(order.size());
    std::vector<StepCounts> count(problem.costs.partitions.size(), StepCounts{});
    for (std::size_t lane = 0; lane < order.size(); ++lane) {
        for (const OrderStep& step : order[lane]) {
            StepCounts& done = count[static_cast<std::size_t>(step.partition)];
            const auto of = [&done](StepKind kind) -> int& { return done[static_cast<std::size_t>(kind)]; };
            if (step.kind == StepKind::backward && problem.is_recomputed(of(step.kind)) &&
                problem.recomputed_place(of(StepKind::recompute)) <= of(step.kind)) {
                all[lane].push_back({StepKind::recompute, step.partition});
                ++of(StepKind::recompute);
            }
            all[lane].push_back(step);
            ++of(step.kind);
        }
    }
    return all;
}

// ---- Bound ----

/// Costs of one size whose bound holds for those of two: the smaller ones, and what the larger ones take beyond them.
/// Recomputes, which depend on the mode, do not count for the larger ones.
ScheduleCosts least_costs(ScheduleCosts costs) {
    // Every forward is the shortest; `larger` has what the others take beyond it.
    const auto shorten = [&](std::vector<ScheduleCosts::Partition>& partitions, int first, int end) {
        for (ScheduleCosts::Partition& each : partitions) {
            Ns kept = 0;
            for (int i = first; i < end; ++i) {
                kept += is_checkpointed(costs.checkpoint, MicroBatchId{i}, costs.micro_batches) ? 0 : 1;
            }
            const Ns others = end - first - kept;
            const Ns less = kept == 0 ? 0 : others == 0 ? each.kept_more : std::min<Ns>(0, each.kept_more);
            each.larger += kept * (each.kept_more - less) - others * less;
            each.forward += less;
            each.kept_more = 0;
        }
    };
    const bool has_two = !costs.smaller.empty();
    shorten(costs.partitions, 0, has_two ? costs.num_larger : costs.micro_batches);
    shorten(costs.smaller, costs.num_larger, costs.micro_batches);
    if (!has_two) {
        return costs;
    }
    ScheduleCosts least = costs;
    least.smaller.clear();
    const auto work = [](const ScheduleCosts::Partition& at) { return at.forward + at.backward + at.backward_weight; };
    for (std::size_t j = 0; j < costs.partitions.size(); ++j) {
        const ScheduleCosts::Partition& large = costs.partitions[j];
        ScheduleCosts::Partition& each = least.partitions[j];
        each = costs.smaller[j];
        each.larger += large.larger + costs.num_larger * std::max<Ns>(0, work(large) - work(each));
        each.forward = std::min(each.forward, large.forward);
        each.recompute = std::min(each.recompute, large.recompute);
        each.backward = std::min(each.backward, large.backward);
        each.backward_weight = std::min(each.backward_weight, large.backward_weight);
        each.copy = std::min(each.copy, large.copy);
        each.saved = std::min(each.saved, large.saved);
    }
    return least;
}

/// Time from the end of backward (i, j) to the end of the step, at least: the way back, and the weights' gradients.
std::vector<Ns> tails(const ScheduleCosts& costs) {
    std::vector<Ns> tail;
    for (std::size_t j = 0; j < costs.partitions.size(); ++j) {
        const Ns own = costs.partitions[j].backward_weight;
        const Ns way_back = j == 0 ? 0 : costs.partitions[j - 1].copy + costs.partitions[j - 1].backward + tail[j - 1];
        tail.push_back(std::max(own, way_back));
    }
    return tail;
}

/// By partition, the time before its first forward can start.
std::vector<Ns> heads(const ScheduleCosts& costs) {
    std::vector<Ns> head{0};
    for (std::size_t j = 1; j < costs.partitions.size(); ++j) {
        head.push_back(head.back() + costs.partitions[j - 1].forward + costs.partitions[j - 1].copy);
    }
    return head;
}

/// By partition, the time from the start of forward (i, j) to the end of backward (i, j), at least.
std::vector<Ns> round_trips(const ScheduleCosts& costs) {
    std::vector<Ns> trip(costs.partitions.size());
    for (std::size_t j = trip.size(); j-- > 0;) {
        const ScheduleCosts::Partition& at = costs.partitions[j];
        trip[j] = at.forward + at.backward + (j + 1 < trip.size() ? trip[j + 1] + 2 * at.copy : 0);
    }
    return trip;
}

/// Work of a lane's tasks of all micro-batches.
Ns work_of(const ScheduleProblem& problem, std::size_t lane, bool with_weights) {
    Ns work = 0;
    for (const int j : problem.partitions_of[lane]) {
        const ScheduleCosts::Partition& at = problem.at(j);
        work += problem.m() * (at.forward + at.backward + (with_weights ? at.backward_weight : 0));
        work += with_weights ? at.larger : 0;
        for (int i = 0; i < problem.m(); ++i) {
            work += problem.recompute(j, i);
        }
    }
    return work;
}

/// Work of a lane until the end of its last backward, at least: forwards, backwards, and the weights' gradients but for
/// those of as many micro-batches as the memory limit lets wait. For micro-batches of one size.
Ns work_before_last_gradient(const ScheduleProblem& problem, std::size_t lane) {
    const Ns without = work_of(problem, lane, false);
    std::vector<Ns> weights;  // that take time, one for each partition
    Bytes least = std::numeric_limits<Bytes>::max();
    for (const int j : problem.partitions_of[lane]) {
        if (const ScheduleCosts::Partition& at = problem.at(j); at.backward_weight > 0) {
            weights.push_back(at.backward_weight);
            least = std::min(least, at.saved);
        }
    }
    const auto limit = problem.limit(lane);
    if (!limit || weights.empty() || least <= 0 || *limit < least) {
        return without;
    }
    std::ranges::sort(weights, std::greater());
    Ns after = 0;
    Ns all = 0;
    Bytes may_wait = *limit / least;
    for (const Ns each : weights) {  // the longest ones wait
        const Ns waiting = std::min<Ns>(problem.m(), may_wait);
        may_wait -= waiting;
        after += waiting * each;
        all += problem.m() * each;
    }
    return without + all - after;
}

/// Under a limit of k micro-batches at a time, the (q k + 1)-th forward waits for q round trips.
Ns memory_bound(const ScheduleProblem& problem, int j, Ns head, Ns trip, Ns tail) {
    const ScheduleCosts::Partition& at = problem.at(j);
    const auto limit = problem.limit(at.lane.index());
    const bool is_plain =
        problem.costs.checkpoint == Checkpoint::never && problem.partitions_of[at.lane.index()].size() == 1;
    if (!limit || !is_plain || at.saved <= 0 || *limit < at.saved) {
        return 0;
    }
    const Ns k = *limit / at.saved;
    const Ns rounds = (problem.m() - 1) / k;
    const Ns rest = (problem.m() - 1) % k;
    return head + rounds * (trip + at.backward_weight) + rest * at.forward + trip + tail;
}

// ---- Improvement by swaps ----

/// The times of an order's tasks, and what each waited for.
class OrderClock {
public:
    explicit OrderClock(const ScheduleProblem& problem) : problem_(problem) {}

    /// The step, or kNotYet if the order deadlocks or exceeds the memory.
    Ns run(const Order& order) {
        LaneSweep planner(problem_);
        const std::size_t lanes = order.size();
        std::vector<std::size_t> at(lanes, 0);
        ran_.assign(lanes, {});
        std::vector<std::size_t> waiting(lanes);
        std::iota(waiting.rbegin(), waiting.rend(), std::size_t{0});
        while (!waiting.empty()) {
            check_stop();
            const std::size_t lane = waiting.back();
            waiting.pop_back();
            while (at[lane] < order[lane].size()) {
                const OrderStep& step = order[lane][at[lane]];
                if (planner.ready(step.kind, step.partition) == kNotYet) {
                    break;
                }
                const LaneSweep::Ran ran = planner.run(step.kind, step.partition);
                ran_[lane].push_back(ran);
                ++at[lane];
                if (ran.touched >= 0 && static_cast<std::size_t>(ran.touched) != lane) {
                    waiting.push_back(static_cast<std::size_t>(ran.touched));
                }
            }
        }
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            if (at[lane] < order[lane].size()) {
                return kNotYet;
            }
        }
        longest_ = longest_lane(planner);
        return planner.length();
    }

    /// Pairs of neighbours, as lane and place of the second, that run without a pause right before something that the
    /// step's end waits for. Latest first.
    std::vector<std::pair<std::size_t, std::size_t>> critical_pairs(const Order& order) const {
        std::vector<std::pair<std::size_t, std::size_t>> pairs;
        const std::size_t m = static_cast<std::size_t>(problem_.m());
        std::vector<std::pair<std::size_t, std::size_t>> places(kStepKinds * problem_.costs.partitions.size() * m);
        const auto index = [&](StepKind kind, int j, int i) {
            return (static_cast<std::size_t>(kind) * problem_.costs.partitions.size() + static_cast<std::size_t>(j)) *
                       m +
                   static_cast<std::size_t>(i);
        };
        std::vector<StepCounts> count(problem_.costs.partitions.size(), StepCounts{});
        std::vector<std::vector<int>> micro_batch(order.size());
        for (std::size_t lane = 0; lane < order.size(); ++lane) {
            for (std::size_t k = 0; k < order[lane].size(); ++k) {
                const OrderStep& step = order[lane][k];
                const int i = count[static_cast<std::size_t>(step.partition)][static_cast<std::size_t>(step.kind)]++;
                places[index(step.kind, step.partition, i)] = {lane, k};
                micro_batch[lane].push_back(i);
            }
        }
        std::size_t lane = longest_;
        std::size_t k = order[lane].size() - 1;
        while (true) {
            const OrderStep& step = order[lane][k];
            const bool follows = k > 0 && ran_[lane][k - 1].end == ran_[lane][k].start;
            if (follows) {
                pairs.emplace_back(lane, k);
                --k;
                continue;
            }
            const int i = micro_batch[lane][k];
            const int last = problem_.num_partitions() - 1;
            if (step.kind == StepKind::forward && step.partition > 0) {
                std::tie(lane, k) = places[index(StepKind::forward, step.partition - 1, i)];
            } else if (step.kind == StepKind::backward || step.kind == StepKind::recompute) {
                std::tie(lane, k) = step.partition == last ? places[index(StepKind::forward, last, i)]
                                                           : places[index(StepKind::backward, step.partition + 1, i)];
            } else {
                return pairs;
            }
        }
    }

private:
    /// The lane that makes the step as long as it is.
    std::size_t longest_lane(const LaneSweep& planner) const {
        const bool has_updates = !problem_.costs.updates.empty();
        std::size_t longest = 0;
        for (std::size_t lane = 1; lane < ran_.size(); ++lane) {
            const bool is_longer = has_updates ? planner.length_of(lane) > planner.length_of(longest)
                                               : planner.free(lane) > planner.free(longest);
            longest = is_longer ? lane : longest;
        }
        return longest;
    }

    const ScheduleProblem& problem_;
    std::vector<std::vector<LaneSweep::Ran>> ran_;  // by lane and place
    std::size_t longest_ = 0;
};

/// Moves one recompute among these critical pairs into the pause before them, if that shortens the step. Returns true
/// if one did.
bool recompute_in_pause(OrderClock& clock, FoundOrder& plan,
                        const std::vector<std::pair<std::size_t, std::size_t>>& pairs, std::size_t& tries) {
    for (std::size_t p = 0; p < pairs.size() && tries > 0; ++p) {
        const auto [lane, from] = pairs[p];
        std::vector<OrderStep>& steps = plan.order[lane];
        if (steps[from].kind != StepKind::recompute) {
            continue;
        }
        std::size_t first = p;  // of the tasks that run without a pause
        while (first + 1 < pairs.size() && pairs[first + 1] == std::pair(lane, pairs[first].second - 1)) {
            ++first;
        }
        const auto place = [&steps](std::size_t k) { return steps.begin() + static_cast<std::ptrdiff_t>(k); };
        const std::size_t to = pairs[first].second - 1;
        const std::size_t own_forward = static_cast<std::size_t>(
            std::count(steps.begin(), place(from), OrderStep{StepKind::recompute, steps[from].partition}));
        const auto forwards = std::count(steps.begin(), place(to), OrderStep{StepKind::forward, steps[from].partition});
        if (static_cast<std::size_t>(forwards) <= own_forward) {
            continue;
        }
        --tries;
        std::rotate(place(to), place(from), place(from) + 1);
        if (const Ns step = clock.run(plan.order); step < plan.step) {
            plan.step = step;
            return true;
        }
        std::rotate(place(to), place(to) + 1, place(from) + 1);
    }
    return false;
}

/// Swaps neighbours on the critical path as long as that shortens the step.
void improve(const ScheduleProblem& problem, FoundOrder& plan, Ns bound, std::size_t visits) {
    OrderClock clock(problem);
    std::size_t tries = visits / problem.num_tasks();
    bool improved = true;
    while (improved && plan.step > bound && tries > 0) {
        improved = false;
        clock.run(plan.order);
        const auto pairs = clock.critical_pairs(plan.order);
        improved = recompute_in_pause(clock, plan, pairs, tries);
        if (improved) {
            continue;
        }
        for (const auto& [lane, second] : pairs) {
            OrderStep& one = plan.order[lane][second - 1];
            OrderStep& other = plan.order[lane][second];
            if (one == other) {
                continue;
            }
            if (tries-- == 0) {
                return;
            }
            std::swap(one, other);
            const Ns step = clock.run(plan.order);
            if (step < plan.step) {
                plan.step = step;
                improved = true;
                break;
            }
            std::swap(one, other);
            if (tries == 0) {
                return;
            }
        }
    }
}

// ---- Complete search ----

/// Branch and bound over active schedules: the lane whose next task could end first must run one of the tasks that
/// could start before that.
class CompleteSearch {
public:
    /// With recomputes as tasks of their own, or each with its backward.
    CompleteSearch(const ScheduleProblem& problem, FoundOrder& best, Ns bound, bool moves_recomputes)
        : problem_(problem),
          best_(best),
          bound_(bound),
          moves_recomputes_(moves_recomputes),
          tails_(tails(least_costs(problem.costs))),
          order_(best.order.size()) {}

    /// True if no order is better than the best.
    bool run() {
        visit(LaneSweep(problem_, !moves_recomputes_), moves_recomputes_ ? problem_.num_steps() : problem_.num_tasks());
        return nodes_ <= kMostNodes || best_.step <= bound_;
    }

private:
    Ns bound_of(const LaneSweep& planner) const {
        Ns least = 0;
        for (std::size_t lane = 0; lane < problem_.partitions_of.size(); ++lane) {
            Ns all = planner.free(lane);
            Ns back = all;
            Ns tail = kNotYet;
            Ns begin = kNotYet;
            for (const int j : problem_.partitions_of[lane]) {
                const int m = problem_.m();
                Ns forwards = 0;
                for (int i = planner.done(StepKind::forward, j); i < m; ++i) {
                    forwards += problem_.forward(j, i);
                }
                Ns backwards = 0;
                for (int i = planner.done(StepKind::backward, j); i < m; ++i) {
                    backwards += problem_.at(j, i).backward;
                }
                for (int i = planner.next(StepKind::recompute, j); i < m; ++i) {
                    backwards += problem_.recompute(j, i);
                }
                Ns weights = 0;
                for (int i = planner.done(StepKind::weight, j); i < m; ++i) {
                    weights += problem_.at(j, i).backward_weight;
                }
                all += forwards + backwards + weights;
                back += forwards + backwards;
                if (planner.done(StepKind::backward, j) < m) {
                    tail = std::min(tail, tails_[static_cast<std::size_t>(j)]);
                }
                for (const StepKind kind : kinds_) {
                    begin = std::min(begin, ready(planner, kind, j));
                }
            }
            const Ns idle = begin == kNotYet ? 0 : std::max<Ns>(0, begin - planner.free(lane));
            least = std::max({least, all + idle, tail == kNotYet ? 0 : back + idle + tail});
        }
        return least;
    }

    void visit(const LaneSweep& planner, std::size_t left) {
        check_stop();
        if (++nodes_ > kMostNodes || best_.step <= bound_) {
            return;
        }
        if (left == 0) {
            if (planner.length() < best_.step) {
                best_ = {order_, planner.length()};
            }
            return;
        }
        if (bound_of(planner) >= best_.step) {
            return;
        }
        Ns first_end = kNotYet;
        std::size_t lane = 0;
        for (std::size_t each = 0; each < problem_.partitions_of.size(); ++each) {
            for (const int j : problem_.partitions_of[each]) {
                for (const StepKind kind : kinds_) {
                    if (const Ns at = ready(planner, kind, j); at != kNotYet) {
                        const Ns end = std::max(planner.free(each), at) + planner.duration(kind, j);
                        if (end < first_end) {
                            first_end = end;
                            lane = each;
                        }
                    }
                }
            }
        }
        if (first_end == kNotYet) {
            return;
        }
        for (const int j : problem_.partitions_of[lane]) {
            for (const StepKind kind : kinds_) {
                const Ns at = ready(planner, kind, j);
                if (at == kNotYet || (at >= first_end && planner.free(lane) < at)) {
                    continue;
                }
                LaneSweep next = planner;
                next.run(kind, j);
                order_[lane].push_back({kind, j});
                visit(next, left - 1);
                order_[lane].pop_back();
            }
        }
    }

    Ns ready(const LaneSweep& planner, StepKind kind, int j) const {
        const bool waits = moves_recomputes_ && kind == StepKind::backward && planner.must_recompute(j);
        return waits ? kNotYet : planner.ready(kind, j);
    }

    const ScheduleProblem& problem_;
    FoundOrder& best_;
    const Ns bound_;
    const bool moves_recomputes_;
    const std::vector<StepKind> kinds_ =
        moves_recomputes_ ? std::vector{StepKind::backward, StepKind::forward, StepKind::recompute, StepKind::weight}
                          : std::vector{StepKind::backward, StepKind::forward, StepKind::weight};
    const std::vector<Ns> tails_;
    Order order_;
    int nodes_ = 0;
};

/// True if some shortest schedule is active and runs each partition's micro-batches in ascending order, so that the
/// complete search cannot miss it. With one partition a lane, equal micro-batches can trade names, and a task that
/// moves into a pause before it delays no other and takes no memory that another waits for.
bool ascending_is_best(const ScheduleProblem& problem) {
    const bool one_each = problem.num_lanes == problem.num_partitions();
    const Checkpoint mode = problem.costs.checkpoint;
    return one_each && problem.costs.smaller.empty() &&
           (mode == Checkpoint::never || (mode == Checkpoint::always && problem.costs.limits.empty()));
}

// ---- Rules ----

std::vector<OrderRule> rules_for(const ScheduleProblem& problem) {
    const auto lanes = static_cast<std::size_t>(problem.num_lanes);
    const std::vector<Ns> trip = round_trips(problem.costs);
    Ns period = 1;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        period = std::max(period, work_of(problem, lane, true) / problem.m());
    }
    const int all = problem.m() * problem.num_partitions() + 1;
    std::vector<int> as_1f1b(lanes, 0), steady(lanes, 0), no_pause(lanes, 0);
    for (int j = 0; j < problem.num_partitions(); ++j) {
        const ScheduleCosts::Partition& at = problem.at(j);
        const std::size_t lane = at.lane.index();
        const Ns way = trip[static_cast<std::size_t>(j)];
        as_1f1b[lane] += problem.num_partitions() - j;
        steady[lane] += static_cast<int>(std::min<Ns>(all, (way + period - 1) / period + 1));
        no_pause[lane] +=
            at.forward > 0 ? static_cast<int>(std::min<Ns>(all, (way + at.forward - 1) / at.forward)) : all;
    }
    for (int& most : as_1f1b) {
        most = std::max(1, most * problem.num_lanes / problem.num_partitions());
    }
    std::vector<int> twice = as_1f1b;
    for (int& most : twice) {
        most = 2 * most - 1;
    }
    const std::vector<int> unlimited(lanes, all);
    // The first ones were the best for random costs; those with fewer micro-batches in flight need less memory.
    if (problem.num_lanes < problem.num_partitions()) {
        return {{no_pause, false, 0, true},   {unlimited, false, 0, true},   {no_pause, false, 0.5, true},
                {unlimited, false, 0, false}, {no_pause, false, 0.25, true}, {no_pause, true, 0.5, true},
                {steady, false, 0, true},     {unlimited, false, 0.5, true}, {no_pause, false, 1, true},
                {no_pause, false, 0, false},  {steady, false, 0.5, true},    {no_pause, true, 1, true}};
    }
    return {{as_1f1b, false, 0},      {twice, false, 0},     {unlimited, false, 0}, {twice, false, 0.25},
            {as_1f1b, false, 0.5},    {twice, false, 0.5},   {twice, false, 0.1},   {as_1f1b, false, 0.25},
            {unlimited, false, 0.25}, {steady, false, 0.25}, {no_pause, true, 0.5}, {as_1f1b, false, 1},
            {steady, false, 1}};
}

PipelineShape shape_of(const ScheduleProblem& problem) {
    PipelineShape shape{.num_partitions = problem.num_partitions(),
                        .num_micro_batches = problem.m(),
                        .checkpoint = problem.costs.checkpoint};
    for (const ScheduleCosts::Partition& each : problem.costs.partitions) {
        shape.placement.push_back(each.lane);
    }
    return shape;
}

/// The steps of programs whose micro-batches ascend. A whole backward is both halves.
Order order_of(const LanePrograms& programs, bool is_split) {
    Order order(programs.size());
    for (std::size_t lane = 0; lane < programs.size(); ++lane) {
        for (const TaskKey& task : programs[lane]) {
            const auto add = [&](StepKind kind) { order[lane].push_back({kind, task.partition}); };
            switch (task.kind) {
                case TaskKind::forward: add(StepKind::forward); break;
                case TaskKind::backward:
                    add(StepKind::backward);
                    if (!is_split) {
                        add(StepKind::weight);
                    }
                    break;
                case TaskKind::backward_weight: add(StepKind::weight); break;
                default: break;  // losses and recomputes go with these
            }
        }
    }
    return order;
}

/// Zero-bubble H1 and 1F1B, if each lane has one partition.
std::vector<Order> well_known_orders(const ScheduleProblem& problem) {
    if (problem.num_lanes != problem.num_partitions()) {
        return {};
    }
    const PipelineShape shape = shape_of(problem);
    return {order_of(zero_bubble_h1_programs(shape), true), order_of(one_f_one_b_programs(shape), false)};
}

LanePrograms programs_of(const ScheduleProblem& problem, const Order& order) {
    const PipelineShape shape = shape_of(problem);
    LanePrograms programs;
    std::vector<StepCounts> count(problem.costs.partitions.size(), StepCounts{});
    for (const std::vector<OrderStep>& steps : with_recomputes(problem, order)) {
        LanePlan plan(shape);
        for (const OrderStep& step : steps) {
            const int others = count[static_cast<std::size_t>(step.partition)][static_cast<std::size_t>(step.kind)]++;
            const int i = step.kind == StepKind::recompute ? problem.recomputed_place(others) : others;
            const Cell at{MicroBatchId{problem.micro_batch_at(i)}, PartitionId{step.partition}};
            switch (step.kind) {
                case StepKind::forward: plan.forward(at); break;
                case StepKind::recompute: plan.add(TaskKind::recompute, at); break;
                case StepKind::backward: plan.add(TaskKind::backward, at); break;
                case StepKind::weight: plan.backward_weight(at); break;
            }
        }
        programs.push_back(plan.take());
    }
    return programs;
}
}  // namespace

int ScheduleCosts::num_lanes() const {
    int lanes = 0;
    for (const Partition& each : partitions) {
        lanes = std::max(lanes, each.lane.value() + 1);
    }
    return lanes;
}

std::int64_t step_bound(const ScheduleCosts& costs) {
    const ScheduleCosts least = least_costs(costs);
    const ScheduleProblem problem(least);
    Ns longest = 0;
    for (std::size_t lane = 0; lane < least.updates.size(); ++lane) {
        longest = std::max(longest, work_of(problem, lane, true) + least.updates[lane]);
    }
    if (!least.updates.empty()) {
        return longest;
    }
    const std::vector<Ns> head = heads(least);
    const std::vector<Ns> tail = tails(least);
    const std::vector<Ns> trip = round_trips(least);
    Ns bound = trip.front() + tail.front();
    for (std::size_t lane = 0; lane < problem.partitions_of.size(); ++lane) {
        Ns begin = kNotYet;
        Ns way_back = kNotYet;
        for (const int j : problem.partitions_of[lane]) {
            const auto at = static_cast<std::size_t>(j);
            begin = std::min(begin, head[at]);
            way_back = std::min(way_back, tail[at]);
            bound = std::max(bound, memory_bound(problem, j, head[at], trip[at], tail[at]));
        }
        bound = std::max(
            {bound, begin + work_of(problem, lane, true), begin + work_before_last_gradient(problem, lane) + way_back});
    }
    return bound;
}

namespace {
/// The search's best order so far, and how much work is left.
class OrderSearch {
public:
    OrderSearch(const ScheduleProblem& problem, Ns bound) : problem_(problem), bound_(bound) {}

    /// Orders whose backwards start with their own recomputes.
    void run() {
        for (const Order& order : well_known_orders(problem_)) {
            OrderClock clock(problem_);
            keep({order, clock.run(order)});
        }
        Ns quickest = kNotYet;  // of the rules
        Forecast of_quickest;
        for (const OrderRule& rule : rules_for(problem_)) {
            if (is_done() && rules_.size() >= kLeastRules) {
                break;
            }
            Forecast forecast;
            const Ns step = try_rule(rule, forecast);
            rules_.emplace_back(step, rule);
            if (best_.step <= bound_) {
                return;
            }
            if (step < quickest) {
                quickest = step;
                of_quickest = std::move(forecast);
            }
        }
        std::ranges::stable_sort(rules_, {}, &std::pair<Ns, OrderRule>::first);
        if (best_.step == kNotYet) {
            return;
        }
        if (quickest != kNotYet) {
            climb(rules_.front().second, quickest, std::move(of_quickest));
        }
        improve(problem_, best_, bound_, is_done() ? 0 : kSearchVisits - visits_);
    }

    /// Orders that recompute earlier, in pauses, too. After run().
    void move_recomputes() {
        best_.order = with_recomputes(problem_, best_.order);
        visits_ = kSearchVisits - kRecomputeVisits;
        for (std::size_t rank = 0; rank < std::min(kRecomputeRules, rules_.size()); ++rank) {
            for (const Recompute when : {Recompute::last_in_pause, Recompute::first_in_pause}) {
                if ((is_done() && rank > 0) || best_.step <= bound_) {
                    break;
                }
                OrderRule rule = rules_[rank].second;
                rule.recompute = when;
                Forecast forecast;
                try_rule(rule, forecast);
            }
        }
        improve(problem_, best_, bound_, is_done() ? 0 : kSearchVisits - visits_);
    }

    FoundOrder& best() { return best_; }

private:
    bool is_done() const { return best_.step <= bound_ || visits_ >= kSearchVisits; }

    void keep(FoundOrder order) {
        visits_ += problem_.num_tasks();
        if (order.step < best_.step) {
            best_ = std::move(order);
        }
    }

    Ns try_rule(const OrderRule& rule, Forecast& forecast) {
        FoundOrder order = plan_by(problem_, rule, forecast);
        const Ns step = order.step;
        keep(std::move(order));
        return step;
    }

    /// Changes the micro-batches in flight of one lane after the other, as long as that helps.
    void climb(OrderRule rule, Ns step, Forecast forecast) {
        for (bool improved = true; improved && !is_done();) {
            improved = false;
            for (std::size_t lane = 0; lane < rule.most_in_flight.size() && !is_done(); ++lane) {
                for (const int change : {1, -1}) {
                    OrderRule other = rule;
                    other.most_in_flight[lane] = std::max(1, other.most_in_flight[lane] + change);
                    Forecast own = forecast;
                    const Ns with = try_rule(other, own);
                    if (with < step) {
                        step = with;
                        rule = other;
                        forecast = own;
                        improved = true;
                        break;
                    }
                }
            }
        }
    }

    const ScheduleProblem& problem_;
    const Ns bound_;
    FoundOrder best_;
    std::vector<std::pair<Ns, OrderRule>> rules_;  // tried, quickest first
    std::size_t visits_ = 0;
};
}  // namespace

namespace {
/// Every order of a lane's F, I and W with ascending micro-batches, each after what it needs of its lane.
void add_lane_orders(int partition, int m, std::array<int, 3> done, std::vector<OrderStep>& order,
                     std::vector<std::vector<OrderStep>>& all) {
    if (done[2] == m) {
        all.push_back(order);
        return;
    }
    for (std::size_t kind = 0; kind < done.size(); ++kind) {
        if (done[kind] < (kind == 0 ? m : done[kind - 1])) {
            order.push_back({static_cast<StepKind>(kind), partition});
            ++done[kind];
            add_lane_orders(partition, m, done, order, all);
            --done[kind];
            order.pop_back();
        }
    }
}
}  // namespace

void for_each_order(const ScheduleCosts& costs, const std::function<bool(const FoundSchedule&)>& visit) {
    constexpr std::size_t kMostOrders = 2000;
    constexpr int kMostListed = 4;  // 462 orders of a lane
    ScheduleCosts unlimited = costs;
    unlimited.limits.clear();
    unlimited.updates.clear();
    const ScheduleProblem problem(unlimited);
    const int lanes = problem.num_lanes;
    if (lanes != problem.num_partitions() || problem.m() > kMostListed) {
        return;
    }
    std::vector<std::vector<std::vector<OrderStep>>> of_lane(static_cast<std::size_t>(lanes));
    std::size_t number = 1;
    for (int j = 0; j < lanes; ++j) {
        auto& orders = of_lane[problem.at(j).lane.index()];
        std::vector<OrderStep> order;
        add_lane_orders(j, problem.m(), {0, 0, 0}, order, orders);
        number *= orders.size();
        if (number > kMostOrders) {
            return;
        }
    }
    const auto nth = [&](std::size_t n) {
        Order order;
        for (const auto& orders : of_lane) {
            order.push_back(orders[n % orders.size()]);
            n /= orders.size();
        }
        return order;
    };
    std::vector<std::pair<Ns, std::size_t>> by_step;
    OrderClock clock(problem);
    for (std::size_t n = 0; n < number; ++n) {
        if (const Ns step = clock.run(nth(n)); step != kNotYet) {
            by_step.emplace_back(step, n);
        }
    }
    std::ranges::sort(by_step);
    for (const auto& [step, n] : by_step) {
        if (!visit({programs_of(problem, nth(n)), step})) {
            return;
        }
    }
}

std::vector<FoundSchedule> plain_schedules(const ScheduleCosts& costs) {
    const ScheduleProblem problem(costs);
    const std::vector<int> unlimited(static_cast<std::size_t>(problem.num_lanes),
                                     problem.m() * problem.num_partitions() + 1);
    std::vector<FoundSchedule> found;
    for (const bool weight_first : {false, true}) {
        Forecast forecast;
        const FoundOrder order = plan_by(problem, {unlimited, false, 0, true, weight_first}, forecast);
        if (order.step != kNotYet) {
            found.push_back({programs_of(problem, order.order), order.step});
        }
    }
    return found;
}

namespace {
/// Searches the orders whose micro-batch without a recompute is not the last one. For few tasks.
void keep_another(const ScheduleCosts& costs, FoundSchedule& found) {
    for (int place = 0; place + 1 < costs.micro_batches && found.step_ns > found.bound_ns; ++place) {
        const ScheduleProblem problem(costs, place);
        FoundOrder other{Order(static_cast<std::size_t>(problem.num_lanes)), found.step_ns};
        CompleteSearch(problem, other, found.bound_ns, true).run();
        if (other.step < found.step_ns) {
            found = {programs_of(problem, other.order), other.step, found.bound_ns, other.step <= found.bound_ns};
        }
    }
}
}  // namespace

FoundSchedule find_schedule(const ScheduleCosts& costs) {
    const ScheduleProblem problem(costs);
    const Ns bound = step_bound(costs);
    OrderSearch search(problem, bound);
    search.run();
    FoundOrder& best = search.best();
    if (best.step == kNotYet) {
        return {{}, kNotYet, bound, false};
    }
    const bool is_small = problem.num_tasks() <= kFewTasks && costs.updates.empty();
    const auto is_proved = [&](bool moves_recomputes) {
        const bool is_complete =
            is_small && best.step > bound && CompleteSearch(problem, best, bound, moves_recomputes).run();
        return best.step <= bound || (is_complete && ascending_is_best(problem));
    };
    bool is_optimal = is_proved(false);
    if (!problem.recomputes() || best.step <= bound) {
        return {programs_of(problem, best.order), best.step, bound, is_optimal};
    }
    const FoundOrder before = best;
    search.move_recomputes();
    is_optimal = is_proved(true);
    FoundSchedule found{programs_of(problem, best.order), best.step, bound, is_optimal};
    if (is_small && costs.checkpoint == Checkpoint::except_last && costs.smaller.empty()) {
        keep_another(costs, found);
    }
    if (found.step_ns < before.step) {
        found.plain = programs_of(problem, before.order);
    }
    return found;
}
}  // namespace pipescope
