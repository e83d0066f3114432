#include "simulator/plan/planner.h"

#include "base/error.h"
#include "base/parse_name.h"
#include "base/quantities.h"
#include "base/work_threads.h"
#include "schedule/schedules.h"
#include "simulator/plan/plan_ranking.h"
#include "simulator/search/balance_search.h"
#include "simulator/search/balanced_pipeline.h"
#include "simulator/search/search_tables.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <set>
#include <span>

namespace pipescope {
namespace {
/// Ascending, without duplicates and numbers above the layers.
std::set<int> partitions_of(const PlanRequest& request, std::size_t layers) {
    const std::set<int> all(request.partitions.begin(), request.partitions.end());
    if (*all.begin() < 1) {
        throw UsageError("a number of partitions is " + std::to_string(*all.begin()) +
                         "; a pipeline has at least 1; leave it out");
    }
    if (static_cast<std::size_t>(*all.begin()) > layers) {
        throw BalanceError("partitions from " + std::to_string(*all.begin()) + " on; the model has " +
                           counted(layers, "layer", "layers") + ", each partition needs one; use fewer partitions");
    }
    return {all.begin(), std::ranges::find_if(all, [&](int each) { return static_cast<std::size_t>(each) > layers; })};
}

void check(const PlanRequest& request) {
    if (request.partitions.empty() || request.chunks.empty() || request.checkpoints.empty() ||
        request.schedules.empty() || request.replicas.empty()) {
        throw UsageError(
            "there are 0 numbers of partitions, replicas, chunks, checkpoint modes or schedules to try; a plan needs 1 "
            "of each; give some");
    }
    for (const int each : request.replicas) {
        if (each < 1) {
            throw UsageError("replicas is " + std::to_string(each) +
                             "; it is the number of equal pipelines; use 1 for one");
        }
    }
    if (*std::ranges::min_element(request.chunks) < 1) {
        throw UsageError("chunks is " + std::to_string(*std::ranges::min_element(request.chunks)) +
                         "; a mini-batch is at least 1 micro-batch; leave it out");
    }
    if (!request.device_types.empty() && !(request.hardware.devices.empty() && request.hardware.speeds.empty())) {
        throw UsageError(option_name("devices") + " or " + option_name("speed") + " is given with " +
                         option_name("device-types") +
                         "; each type is planned with its own lanes; leave out one or the other");
    }
    if (!(request.price_per_lane_hour >= 0) || !std::isfinite(request.price_per_lane_hour)) {
        throw UsageError(option_name("price-per-lane-hour") + " is " + std::to_string(request.price_per_lane_hour) +
                         "; a price is finite and not negative; correct it");
    }
}

/// The modes to try. A file with recomputes has one of its own; if it is not requested, the file refuses the others.
std::vector<Checkpoint> modes_of(const Schedule& schedule, const PlanRequest& request) {
    const Schedule::File* file = schedule.file();
    const bool has_own = file != nullptr && file->recomputes &&
                         std::ranges::find(request.checkpoints, file->shape.checkpoint) != request.checkpoints.end();
    return has_own ? std::vector{file->shape.checkpoint} : request.checkpoints;
}

void check_lanes(const PlanRequest& request, int most_partitions) {
    const auto require_lanes = [&](const char* option, std::size_t given) {
        if (given != 0 && given < static_cast<std::size_t>(most_partitions)) {
            throw UsageError(option_name(option) + " names " + counted(given, "lane", "lanes") + "; up to " +
                             std::to_string(most_partitions) +
                             " are planned; give one for each, or plan fewer partitions");
        }
    };
    require_lanes("devices", request.hardware.devices.size());
    require_lanes("speed", request.hardware.speeds.size());
    require_lanes("memory-limit", request.hardware.memory_limits.size());
}

constexpr Bytes kAnyMemory = std::numeric_limits<Bytes>::max();

/// The profile on one kind of device, with matching options.
struct Variant {
    CheckedProfile profile;
    PipelineOptions options;  ///< those that all candidates share
    std::string device_type;
    double price_per_hour = 1;
    Bytes most_memory = kAnyMemory;  ///< highest limit that can be set
};

/// Copies what all candidates of a plan share, from a PlanRequest to PipelineOptions or back.
template <class From, class To>
void copy_shared(const From& from, To& to) {
    to.batch = from.batch;
    to.optimizer = from.optimizer;
    to.master_weights = from.master_weights;
    to.update = from.update;
    to.backward_order = from.backward_order;
    to.recompute_start = from.recompute_start;
    to.pair_overlap = from.pair_overlap;
    to.most_in_flight = from.most_in_flight;
    to.hardware = from.hardware;
}

std::vector<Variant> variants_of(const CheckedProfile& profile, const PlanRequest& request) {
    PipelineOptions shared;
    copy_shared(request, shared);
    if (request.device_types.empty()) {
        return {{profile, shared, "", request.price_per_lane_hour, kAnyMemory}};
    }
    std::vector<Variant> variants;
    for (const DeviceType& type : request.device_types) {
        Variant each{retimed(profile, type), shared, type.name, request.price_per_lane_hour, type.tensor_bytes()};
        each.options.hardware = hardware_on(type, request.hardware);
        const auto price = request.prices.find(type.name);
        if (price != request.prices.end()) {
            each.price_per_hour = price->second;
        } else if (type.price_per_hour > 0) {
            each.price_per_hour = type.price_per_hour;
        }
        variants.push_back(std::move(each));
    }
    return variants;
}

/// Identifies a candidate of one variant, except for its balance.
struct Wanted {
    Schedule schedule;
    int lanes;
    Checkpoint checkpoint;
    std::int64_t chunks;
    int replicas;
};

/// Sets the options for the candidate's lanes.
PipelineOptions options_for(PipelineOptions options, const Wanted& wanted) {
    options.chunks = wanted.chunks;
    options.checkpoint = wanted.checkpoint;
    options.schedule = wanted.schedule;
    options.replicas = wanted.replicas;
    options.hardware = with_lanes(std::move(options.hardware), wanted.lanes);
    return options;
}

/// The candidate with its best balance. Precondition: `tables` belong to the variant and the wanted replicas and
/// chunks.
PlanCandidate candidate_for(const Variant& variant, const Wanted& wanted, BalanceAlgorithm algorithm,
                            const SearchTables& tables) {
    const PipelineOptions options = options_for(variant.options, wanted);
    BalancedPipeline balanced = balanced_pipeline(variant.profile, options, wanted.lanes, algorithm, tables);
    PlanCandidate candidate;
    candidate.simulation = std::move(balanced.simulation);
    candidate.balance_is_optimal = balanced.balance_is_optimal;
    candidate.lower_bound_ns = balanced.lower_bound_ns;
    candidate.device_type = variant.device_type;
    if (candidate.simulation.samples_per_second > 0) {
        const double hours = 1e6 / candidate.simulation.samples_per_second / 3600;
        candidate.cost = variant.price_per_hour * hours * static_cast<double>(num_devices(candidate.simulation));
    }
    return candidate;
}

SearchTables tables_for(const Variant& variant, std::int64_t chunks, int replicas) {
    PipelineOptions widest = variant.options;
    widest.chunks = chunks;
    widest.replicas = replicas;
    return {variant.profile, widest};
}

bool can_be_tried(const Variant& variant, const Wanted& wanted) {
    return can_be_balanced(variant.profile, options_for(variant.options, wanted), wanted.lanes);
}

/// Computes all candidates of a plan on several threads. Candidates of one variant and one number of micro-batches
/// share tables, so one thread computes them.
class PlanRun {
public:
    PlanRun(const PlanRequest& request, const std::vector<Variant>& variants, const std::set<int>& partitions,
            const std::set<int>& replicas)
        : request_(request),
          partitions_(partitions.begin(), partitions.end()),
          threads_("the plan", request.threads, request.progress) {
        for (const int each : replicas) {
            std::set<std::int64_t> chunks;
            for (const std::int64_t asked : request.chunks) {
                chunks.insert(std::min(asked, request.batch / each));
            }
            // Most micro-batches first: they take longest, and none should be left for one thread at the end.
            for (auto m = chunks.rbegin(); m != chunks.rend(); ++m) {
                for (const Variant& variant : variants) {
                    Job job{&variant, *m, each, wanted(variant, *m, each), {}};
                    num_wanted_ += job.wanted.size();
                    if (!job.wanted.empty()) {
                        jobs_.push_back(std::move(job));
                    }
                }
            }
        }
        if (jobs_.empty()) {
            throw UsageError("there is no candidate: " + needs_text() +
                             "; allow other partitions or micro-batches, or another schedule");
        }
    }

    void run() {
        threads_.run(
            jobs_.size(), [this](std::size_t k) { do_job(jobs_[k]); }, 1,
            [this] { return static_cast<double>(done_) / static_cast<double>(num_wanted_); });
    }

    bool cancelled() const { return threads_.is_cancelled(); }

    /// In the order of the request, whichever thread finished first.
    std::vector<PlanCandidate> take_candidates() {
        std::vector<PlanCandidate> candidates;
        for (Job& job : jobs_) {
            std::move(job.candidates.begin(), job.candidates.end(), std::back_inserter(candidates));
        }
        return candidates;
    }

private:
    struct Job {
        const Variant* variant;
        std::int64_t chunks;
        int replicas;
        std::vector<Wanted> wanted;
        std::vector<PlanCandidate> candidates;
    };

    /// "schedule interleaved needs .., schedule v-half needs .."
    std::string needs_text() const {
        std::string text;
        for (const Schedule& each : request_.schedules) {
            const std::string needs = needs_of(each);
            text +=
                needs.empty() ? "" : (text.empty() ? "" : ", ") + ("schedule " + to_string(each) + " needs " + needs);
        }
        return text;
    }

    std::vector<Wanted> wanted(const Variant& variant, std::int64_t chunks, int replicas) const {
        std::vector<Wanted> all;
        for (const Schedule& schedule : request_.schedules) {
            for (const int n : partitions_) {
                for (const Checkpoint checkpoint : modes_of(schedule, request_)) {
                    const Wanted each{schedule, n, checkpoint, chunks, replicas};
                    if (can_be_tried(variant, each)) {
                        all.push_back(each);
                    }
                }
            }
        }
        return all;
    }

    void do_job(Job& job) {
        const SearchTables tables = tables_for(*job.variant, job.chunks, job.replicas);
        for (const Wanted& each : job.wanted) {
            if (threads_.is_stopped()) {
                return;
            }
            job.candidates.push_back(candidate_for(*job.variant, each, request_.algorithm, tables));
            ++done_;
        }
    }

    const PlanRequest& request_;
    std::vector<int> partitions_;
    std::vector<Job> jobs_;
    std::size_t num_wanted_ = 0;  // number of candidates of all jobs
    std::atomic<std::size_t> done_ = 0;
    WorkThreads threads_;
};

/// Finds remedies if no candidate keeps the limit. Each is tried before it is named.
class Remedies {
public:
    Remedies(const PlanRequest& request, const std::set<int>& partitions, const std::vector<Variant>& variants,
             const std::vector<PlanCandidate>& candidates)
        : request_(request), partitions_(partitions) {
        least_ = &*std::ranges::min_element(candidates, [](const PlanCandidate& a, const PlanCandidate& b) {
            return largest_shortfall(a.simulation) < largest_shortfall(b.simulation);
        });
        variant_ = &*std::ranges::find_if(variants,
                                          [&](const Variant& each) { return each.device_type == least_->device_type; });
        find_limit();
        const std::size_t limits = found_.size();
        find_lanes_and_micro_batches();
        find_modes();
        if (found_.size() == limits) {
            find_combination();
        }
    }

    const std::vector<std::string>& found() const { return found_; }

    std::string why() const {
        const PipelineOptions& options = least_->simulation.options;
        std::string text =
            "--memory-limit is " + memory_limit_text(options.hardware) + "; the least that any candidate needs is ";
        text += limits_differ() ? format_bytes(more_) + " more on each lane"
                                : format_bytes(largest_limit() + more_) + " a lane";
        text += ", with " + counted(least_->simulation.options.balance.num_partitions(), "partition", "partitions") +
                ", " + counted(least_->simulation.micro_batches, "micro-batch", "micro-batches") + " and checkpoint " +
                to_string(options.checkpoint) + ", " + to_string(options.schedule);
        text += least_->device_type.empty() ? "" : " on " + least_->device_type;
        if (found_.empty()) {
            return text + "; no more lanes and micro-batches would keep it; plan for devices with more memory";
        }
        text += found_.size() == 1 ? "; this would keep it: " : "; each of these would keep it: ";
        for (std::size_t k = 0; k < found_.size(); ++k) {
            text += (k == 0 ? "" : ", ") + found_[k];
        }
        return text;
    }

private:
    static constexpr int kMostLanesTried = 128;

    std::vector<Bytes> limits() const {
        return memory_limits_of(least_->simulation.options.hardware, static_cast<int>(least_->simulation.lanes.size()));
    }
    Bytes largest_limit() const {
        const std::vector<Bytes> all = limits();
        return *std::ranges::max_element(all);
    }
    bool limits_differ() const {
        const std::vector<Bytes> all = limits();
        return *std::ranges::min_element(all) != largest_limit();
    }
    Wanted wanted_of_least() const {
        const Simulation& simulation = least_->simulation;
        return {simulation.options.schedule, static_cast<int>(simulation.lanes.size()), simulation.options.checkpoint,
                simulation.options.chunks, simulation.options.replicas};
    }

    bool keeps_limit(const Variant& variant, const Wanted& wanted) const {
        return can_be_tried(variant, wanted) &&
               candidate_for(variant, wanted, request_.algorithm, tables_for(variant, wanted.chunks, wanted.replicas))
                   .simulation.feasible;
    }

    static Variant with_more(Variant variant, Bytes more) {
        if (variant.options.hardware.memory_limit) {
            *variant.options.hardware.memory_limit += more;
        }
        for (Bytes& limit : variant.options.hardware.memory_limits) {
            limit += more;
        }
        return variant;
    }

    /// Finds the smallest limit by a search with full effort, provided that a plan, with less effort, finds it too.
    void find_limit() {
        more_ = largest_shortfall(least_->simulation);
        const Wanted wanted = wanted_of_least();
        const PipelineOptions options = options_for(variant_->options, wanted);
        if (runs_one_partition_a_lane(wanted.schedule)) {
            SearchEffort effort;
            effort.explain_infeasible = true;
            const FoundBalance found =
                find_balance(variant_->profile, options, wanted.lanes, request_.algorithm, effort);
            const Bytes less = found.smallest_limit.value_or(largest_limit() + more_) - largest_limit();
            if (less < more_ && (found.feasible || keeps_limit(with_more(*variant_, less), wanted))) {
                more_ = less;
            }
        }
        for (int attempt = 0; attempt < 5; ++attempt) {
            if (largest_limit() + more_ > variant_->most_memory) {
                return;  // no such device
            }
            const Variant roomier = with_more(*variant_, more_);
            if (keeps_limit(roomier, wanted)) {
                found_.push_back("--memory-limit " + limits_text(roomier.options.hardware));
                return;
            }
            more_ += std::max<Bytes>(1, (largest_limit() + more_) / 50);
        }
    }

    static std::string limits_text(const Hardware& hardware) {
        if (hardware.memory_limits.empty()) {
            return std::to_string(hardware.memory_limit.value_or(0));
        }
        std::string text;
        for (const Bytes limit : hardware.memory_limits) {
            text += (text.empty() ? "" : ",") + std::to_string(limit);
        }
        return text;
    }

    /// The request's settings that save memory: those of the candidate that needs least, and every schedule with
    /// recompute.
    std::vector<Wanted> frugal(int lanes, std::int64_t chunks) const {
        std::vector<Wanted> all;
        Wanted wanted = wanted_of_least();
        wanted.lanes = lanes;
        wanted.chunks = chunks;
        all.push_back(wanted);
        for (const Schedule& schedule : request_.schedules) {
            const std::vector<Checkpoint> modes = modes_of(schedule, request_);
            for (const Checkpoint mode : modes) {
                if ((mode == Checkpoint::always || modes.size() == 1) &&
                    (schedule != all.front().schedule || mode != all.front().checkpoint)) {
                    all.push_back({schedule, lanes, mode, chunks, wanted.replicas});
                }
            }
        }
        return all;
    }
    bool any_keeps_limit(const std::vector<Wanted>& all) const {
        return std::ranges::any_of(all, [&](const Wanted& each) { return keeps_limit(*variant_, each); });
    }

    /// Limited by the model's layers and by what the request describes.
    int most_lanes() const {
        const auto most = static_cast<int>(std::min<std::size_t>(variant_->profile->layers.size(), kMostLanesTried));
        return std::min(most, described_lanes(request_.hardware).value_or(most));
    }
    std::int64_t most_chunks() const { return *std::ranges::max_element(request_.chunks); }
    void find_lanes_and_micro_batches() {
        const std::int64_t batch = request_.batch / least_->simulation.options.replicas;
        const std::int64_t chunks = std::min(most_chunks(), batch);
        int below = *partitions_.rbegin();
        const int most = most_lanes();
        for (int n = below + 1; n <= most; n = n == most ? n + 1 : std::min(most, n + (n + 2) / 3)) {
            if (any_keeps_limit(frugal(n, chunks))) {
                int enough = n;
                for (++below; below < enough; ++below) {
                    enough = any_keeps_limit(frugal(below, chunks)) ? below : enough;
                }
                found_.push_back("-n " + std::to_string(enough));
                break;
            }
            below = n;
        }
        for (std::int64_t m = chunks; m < batch;) {
            m = std::min(batch, 2 * m);
            if (any_keeps_limit(frugal(*partitions_.rbegin(), m))) {
                found_.push_back("-m " + std::to_string(m));
                break;
            }
        }
    }

    /// Tries a schedule or a checkpoint mode that was not requested.
    void find_modes() {
        const auto try_schedule = [&](Schedule schedule) {
            for (Wanted each : frugal(*partitions_.rbegin(), std::min(most_chunks(), request_.batch))) {
                each.schedule = schedule;
                if (keeps_limit(*variant_, each)) {
                    found_.push_back("--schedule " + to_string(schedule));
                    return;
                }
            }
        };
        const std::vector<Schedule> usual = PlanRequest{}.schedules;
        for (const Schedule& schedule : usual) {
            if (std::ranges::find(request_.schedules, schedule) == request_.schedules.end()) {
                try_schedule(schedule);
            }
        }
        Wanted wanted = wanted_of_least();
        wanted.checkpoint = Checkpoint::always;
        const bool asked = std::ranges::find(request_.checkpoints, Checkpoint::always) != request_.checkpoints.end();
        if (!asked && keeps_limit(*variant_, wanted)) {
            found_.push_back("--checkpoint always");
        }
    }

    /// Combines all that saves memory, with as few lanes as are enough, then as few micro-batches. If another remedy is
    /// known, skips pipelines that take seconds to simulate.
    void find_combination() {
        const int replicas = least_->simulation.options.replicas;
        const std::int64_t batch = std::min(request_.batch / replicas, kMostMicroBatchesTried);
        const std::int64_t fewest_chunks = std::min(most_chunks(), batch);
        const int fewest_lanes = *partitions_.rbegin();
        const int lanes = std::max(fewest_lanes, most_lanes());
        const std::int64_t most_forwards = found_.empty() ? lanes * batch : kMostForwardsTried;
        const auto wanted = [&](int n, std::int64_t m) {
            return Wanted{Schedule::one_f_one_b, n, Checkpoint::always, m, replicas};
        };
        if (found_.empty() && !keeps_limit(*variant_, wanted(lanes, batch))) {
            return;
        }
        for (int n = fewest_lanes; n <= lanes; n = n == lanes ? n + 1 : std::min(lanes, 2 * n)) {
            std::int64_t m = std::clamp(most_forwards / n, fewest_chunks, batch);
            if (!keeps_limit(*variant_, wanted(n, m))) {
                continue;
            }
            while (m > fewest_chunks && keeps_limit(*variant_, wanted(n, std::max(fewest_chunks, m / 2)))) {
                m = std::max(fewest_chunks, m / 2);
            }
            add_combination(wanted(n, m), n > fewest_lanes, m > fewest_chunks);
            return;
        }
    }
    /// Names only changes to the request.
    void add_combination(const Wanted& wanted, bool other_lanes, bool other_chunks) {
        const auto lacks = [](const auto& all, const auto& one) { return std::ranges::find(all, one) == all.end(); };
        std::string remedy;
        const auto add = [&remedy](bool needed, const std::string& option) {
            remedy += needed ? (remedy.empty() ? "" : " ") + option : "";
        };
        add(other_lanes, "-n " + std::to_string(wanted.lanes));
        add(other_chunks, "-m " + std::to_string(wanted.chunks));
        add(lacks(request_.schedules, wanted.schedule), "--schedule " + to_string(wanted.schedule));
        add(lacks(request_.checkpoints, wanted.checkpoint), "--checkpoint " + to_string(wanted.checkpoint));
        if (!remedy.empty()) {
            found_.push_back(remedy);
        }
    }
    static constexpr std::int64_t kMostForwardsTried = 16'384;
    static constexpr std::int64_t kMostMicroBatchesTried = 4096;

    const PlanRequest& request_;
    const std::set<int>& partitions_;
    const PlanCandidate* least_;
    const Variant* variant_;
    Bytes more_ = 0;  // bytes above the limit, on each lane
    std::vector<std::string> found_;
};

std::set<int> replicas_of(const PlanRequest& request) {
    std::set<int> replicas;
    for (const int each : request.replicas) {
        if (request.batch % each == 0) {
            replicas.insert(each);
        }
    }
    if (replicas.empty()) {
        throw UsageError("replicas from " + std::to_string(*std::ranges::min_element(request.replicas)) +
                         " on, for a batch of " + std::to_string(request.batch) +
                         "; each replica takes the same number of samples; use a batch that can be divided by them");
    }
    return replicas;
}

/// The profile's sizes and those of the candidate's micro-batches.
std::vector<std::int64_t> sizes_with(const CheckedProfile& profile, const Simulation& simulation) {
    std::set<std::int64_t> sizes(profile->samples.begin(), profile->samples.end());
    const auto wanted = micro_batch_sizes(simulation.options);
    sizes.insert(wanted.begin(), wanted.end());
    return {sizes.begin(), sizes.end()};
}
/// The candidates displayed with noise.
std::vector<PlanCandidate*> candidates_with_noise(Plan& plan, std::size_t most) {
    std::vector<PlanCandidate*> some;
    for (const std::size_t rank : shown_candidates(plan, most)) {
        some.push_back(&plan.candidates[rank]);
    }
    return some;
}

/// Adds noise to those without it, on several threads.
void add_noise_to(std::vector<PlanCandidate*> some, const std::vector<Variant>& variants, const PlanRequest& request) {
    std::erase_if(some, [](const PlanCandidate* each) { return each->simulation.noise.has_value(); });
    WorkThreads threads("the plan", request.threads, {});
    threads.run(some.size(), [&](std::size_t k) {
        const Variant& variant = *std::ranges::find_if(
            variants, [&](const Variant& each) { return each.device_type == some[k]->device_type; });
        add_noise(variant.profile, some[k]->simulation);
    });
}

/// Ranks the first candidates by their expected steps, ten more at a time, until the best is better than all others
/// would be without noise, since noise only makes them worse. Does not depend on how many are displayed.
void rank_by_expected_step(Plan& plan, const std::vector<Variant>& variants, const PlanRequest& request) {
    constexpr std::size_t kAtOnce = 10;
    constexpr std::size_t kMostRanked = 200;
    std::size_t ranked = 0;
    do {
        std::vector<PlanCandidate*> some;
        for (const std::size_t end = std::min(ranked + kAtOnce, plan.candidates.size()); ranked < end; ++ranked) {
            some.push_back(&plan.candidates[ranked]);
        }
        add_noise_to(some, variants, request);
        rank_candidates(std::span(plan.candidates).first(ranked), request.goal);
    } while (ranked < std::min(kMostRanked, plan.candidates.size()) &&
             may_beat(plan.candidates[ranked], plan.candidates.front(), request.goal));
    add_noise_to(candidates_with_noise(plan, request.most_with_noise), variants, request);
}
}  // namespace

std::string to_string(PlanGoal goal) {
    return goal == PlanGoal::speed ? "speed" : "cost";
}

PlanGoal parse_plan_goal(std::string_view name) {
    return parse_name<PlanGoal>(name, {PlanGoal::speed, PlanGoal::cost}, "rank by '" + std::string(name) + "'",
                                "leave it out for speed");
}

void take_options(PlanRequest& request, const PipelineOptions& options) {
    copy_shared(options, request);
}

Plan plan(const CheckedProfile& profile, const PlanRequest& request) {
    check(request);
    const std::set<int> partitions = partitions_of(request, profile->layers.size());
    check_lanes(request, *partitions.rbegin());
    const std::set<int> replicas = replicas_of(request);
    const std::vector<Variant> variants = variants_of(profile, request);
    const std::int64_t fewest = *std::ranges::min_element(request.chunks);
    for (const Variant& variant : variants) {
        for (const Schedule& schedule : request.schedules) {
            for (const int each : replicas) {
                check_update(
                    options_for(variant.options, {schedule, *partitions.begin(), Checkpoint::never, fewest, each}));
            }
        }
        // Rejects here, before any thread starts, whatever a simulation would reject.
        const Schedule& first = request.schedules.front();
        const bool is_plain = runs_one_partition_a_lane(first) && !first.file();
        const Wanted any{is_plain ? first : Schedule(Schedule::gpipe), *partitions.begin(), request.checkpoints.front(),
                         fewest, *replicas.begin()};
        find_balance(variant.profile, options_for(variant.options, any), any.lanes, BalanceAlgorithm::minmax);
    }
    PlanRun run(request, variants, partitions, replicas);
    run.run();
    Plan plan;
    plan.goal = request.goal;
    plan.cancelled = run.cancelled();
    plan.candidates = run.take_candidates();
    drop_equal_candidates(plan.candidates);
    mark_pareto(plan.candidates);
    rank_candidates(plan.candidates, request.goal);
    const bool with_noise = request.most_with_noise > 0 && !plan.cancelled && !plan.candidates.empty() &&
                            std::ranges::any_of(variants, [](const Variant& each) { return has_noise(each.profile); });
    if (with_noise) {
        rank_by_expected_step(plan, variants, request);
    }
    if (!plan.candidates.empty() && plan.candidates.front().simulation.feasible) {
        plan.best = 0;
        if (const Simulation& best = plan.candidates.front().simulation; best.extrapolated) {
            plan.sizes_to_profile = sizes_with(profile, best);
        }
    } else if (!plan.candidates.empty() && !plan.cancelled) {
        const Remedies remedies(request, partitions, variants, plan.candidates);
        plan.infeasible_because = remedies.why();
        plan.remedies = remedies.found();
    }
    return plan;
}
}  // namespace pipescope
