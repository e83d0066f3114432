#include "simulator/planner.h"

#include "schedule/error.h"
#include "schedule/micro_batches.h"
#include "schedule/schedules.h"
#include "simulator/interleaved_search.h"
#include "simulator/plan_ranking.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

namespace pipescope {
namespace {
/// Ascending, each once, none beyond the layers.
std::set<int> partitions_of(const PlanRequest& request, std::size_t layers) {
    const std::set<int> all(request.partitions.begin(), request.partitions.end());
    if (*all.begin() < 1) {
        throw UsageError("a number of partitions is " + std::to_string(*all.begin()) +
                         "; a pipeline has at least 1; leave it out");
    }
    if (static_cast<std::size_t>(*all.begin()) > layers) {
        throw BalanceError("partitions from " + std::to_string(*all.begin()) + " on; the model has " +
                           std::to_string(layers) + " layers, each partition needs one; use fewer partitions");
    }
    return {all.begin(),
            std::find_if(all.begin(), all.end(), [&](int each) { return static_cast<std::size_t>(each) > layers; })};
}

void check(const PlanRequest& request) {
    if (request.partitions.empty() || request.chunks.empty() || request.checkpoints.empty() ||
        request.schedules.empty()) {
        throw UsageError(
            "there are 0 numbers of partitions, chunks, checkpoint modes or schedules to try; a plan needs 1 of each; "
            "give some");
    }
    for (const std::string& schedule : request.schedules) {
        parse_schedule(schedule);
    }
    if (*std::min_element(request.chunks.begin(), request.chunks.end()) < 1) {
        throw UsageError("chunks is " +
                         std::to_string(*std::min_element(request.chunks.begin(), request.chunks.end())) +
                         "; a mini-batch is at least 1 micro-batch; leave it out");
    }
    if (!request.device_types.empty() && !(request.options.devices.empty() && request.options.speeds.empty())) {
        throw UsageError(
            "devices or speeds are given beside device types; each type is planned as lanes of its own; "
            "leave out one or the other");
    }
    if (!(request.price_per_lane_hour >= 0) || !std::isfinite(request.price_per_lane_hour)) {
        throw UsageError("price_per_lane_hour is " + std::to_string(request.price_per_lane_hour) +
                         "; a price is finite and not negative; correct it");
    }
}

void check_lanes(const PlanRequest& request, int most_partitions) {
    const auto require_lanes = [&](const char* name, std::size_t given) {
        if (given != 0 && given < static_cast<std::size_t>(most_partitions)) {
            throw UsageError(std::string(name) + " names " + std::to_string(given) + " lanes; up to " +
                             std::to_string(most_partitions) +
                             " are planned; give one for each, or plan fewer partitions");
        }
    };
    require_lanes("devices", request.options.devices.size());
    require_lanes("speeds", request.options.speeds.size());
    require_lanes("memory_limits", request.options.memory_limits.size());
}

/// The profile on one kind of device, and what comes with it.
struct Variant {
    Profile profile;
    PipelineOptions options;
    std::string device_type;
    double price_per_hour = 1;
};

std::vector<Variant> variants_of(const Profile& profile, const PlanRequest& request) {
    std::vector<Variant> variants;
    for (const DeviceType& type : request.device_types) {
        Variant each{retimed(profile, type), request.options, type.name, request.price_per_lane_hour};
        if (Link& link = each.options.link; link.bytes_per_second == 0 && link.latency_ns == 0) {
            link = {type.link_bytes_per_second * type.link_efficiency, type.link_latency_ns, link.sharing};
        }
        each.options.memory_limit = std::min(each.options.memory_limit.value_or(type.memory_bytes), type.memory_bytes);
        const auto price = request.prices.find(type.name);
        if (price != request.prices.end()) {
            each.price_per_hour = price->second;
        } else if (type.price_per_hour > 0) {
            each.price_per_hour = type.price_per_hour;
        }
        variants.push_back(std::move(each));
    }
    if (variants.empty()) {
        variants.push_back({profile, request.options, "", request.price_per_lane_hour});
    }
    return variants;
}

bool is_interleaved(const std::string& schedule) {
    return schedule == to_string(Schedule::interleaved_1f1b);
}

/// The options for n lanes.
PipelineOptions options_for(PipelineOptions options, int n, std::int64_t chunks, Checkpoint checkpoint,
                            const std::string& schedule) {
    options.chunks = chunks;
    options.checkpoint = checkpoint;
    options.schedule = schedule;
    options.placement.clear();
    const auto lanes = static_cast<std::size_t>(n);
    options.devices.resize(std::min(options.devices.size(), lanes));
    options.speeds.resize(std::min(options.speeds.size(), lanes));
    options.memory_limits.resize(std::min(options.memory_limits.size(), lanes));
    return options;
}

/// All candidates of a plan, worked out by several threads. What one number of micro-batches of one variant needs is
/// done by one thread, since those candidates share tables.
class PlanRun {
public:
    PlanRun(const PlanRequest& request, const std::vector<Variant>& variants, const std::set<int>& partitions,
            const std::set<std::int64_t>& chunks)
        : request_(request), partitions_(partitions.begin(), partitions.end()) {
        // The most micro-batches first: they take longest, and none should be left for one thread at the end.
        for (auto m = chunks.rbegin(); m != chunks.rend(); ++m) {
            for (const Variant& variant : variants) {
                Job job{&variant, *m, wanted(variant, *m), {}, nullptr};
                num_wanted_ += job.wanted.size();
                if (!job.wanted.empty()) {
                    jobs_.push_back(std::move(job));
                }
            }
        }
        if (jobs_.empty()) {
            throw UsageError("there is no candidate: schedule interleaved needs " + kInterleavedNeeds +
                             "; allow other partitions or micro-batches, or another schedule");
        }
    }

    void run() {
        const int cores = static_cast<int>(std::thread::hardware_concurrency());
        const int threads = std::clamp(request_.threads > 0 ? request_.threads : cores, 1,
                                       static_cast<int>(std::min<std::size_t>(jobs_.size(), 64)));
        {
            std::vector<std::jthread> others;
            others_at_work_ = threads - 1;
            for (int k = 1; k < threads; ++k) {
                others.emplace_back([this] {
                    const Leaving leaving(*this);
                    work(false);
                });
            }
            work(true);
            tell_of_the_others();
        }  // joins
        if (progress_failure_) {
            std::rethrow_exception(progress_failure_);
        }
        for (const Job& job : jobs_) {
            if (job.failure) {
                std::rethrow_exception(job.failure);
            }
        }
    }

    bool cancelled() const { return stop_; }

    /// In the order of the request, whichever thread was quicker.
    std::vector<PlanCandidate> take_candidates() {
        std::vector<PlanCandidate> candidates;
        for (Job& job : jobs_) {
            std::move(job.candidates.begin(), job.candidates.end(), std::back_inserter(candidates));
        }
        return candidates;
    }

private:
    struct Wanted {
        std::string schedule;
        int lanes;
        Checkpoint checkpoint;
    };

    struct Job {
        const Variant* variant;
        std::int64_t chunks;
        std::vector<Wanted> wanted;
        std::vector<PlanCandidate> candidates;
        std::exception_ptr failure;
    };

    std::vector<Wanted> wanted(const Variant& variant, std::int64_t chunks) const {
        const std::size_t micro_batches = micro_batch_sizes(replica_batch(variant.options), chunks).size();
        std::vector<Wanted> all;
        for (const std::string& schedule : request_.schedules) {
            for (const int n : partitions_) {
                if (is_interleaved(schedule) &&
                    !can_interleave(n, static_cast<std::int64_t>(micro_batches), variant.profile.layers.size())) {
                    continue;
                }
                for (const Checkpoint checkpoint : request_.checkpoints) {
                    all.push_back({schedule, n, checkpoint});
                }
            }
        }
        return all;
    }

    /// Counts a thread as at work until it ends.
    class Leaving {
    public:
        explicit Leaving(PlanRun& run) : run_(run) {}
        Leaving(const Leaving&) = delete;
        Leaving& operator=(const Leaving&) = delete;
        ~Leaving() {
            const std::scoped_lock lock(run_.mutex_);
            --run_.others_at_work_;
            run_.changed_.notify_one();
        }

    private:
        PlanRun& run_;
    };

    void work(bool is_caller) {
        for (std::size_t k = next_++; k < jobs_.size() && !stop_; k = next_++) {
            try {
                do_job(jobs_[k], is_caller);
            } catch (...) {
                jobs_[k].failure = std::current_exception();
                stop_ = true;
            }
        }
    }

    /// The caller has no job left. It waits, tells of what the others do, and hears when they shall stop.
    void tell_of_the_others() {
        std::unique_lock lock(mutex_);
        while (others_at_work_ > 0) {
            lock.unlock();
            tell();
            lock.lock();
            changed_.wait(lock, [&] { return others_at_work_ == 0 || (!stop_ && done_ >= told_); });
        }
        lock.unlock();
        tell();
    }

    void do_job(Job& job, bool is_caller) {
        const Variant& variant = *job.variant;
        PipelineOptions widest = variant.options;
        widest.chunks = job.chunks;
        const SearchTables tables(variant.profile, widest);
        for (const auto& [schedule, lanes, checkpoint] : job.wanted) {
            if (is_caller) {
                tell();
            }
            if (stop_) {
                return;
            }
            job.candidates.push_back(candidate_for(
                variant, options_for(variant.options, lanes, job.chunks, checkpoint, schedule), lanes, tables));
            count_candidate();
        }
    }

    void count_candidate() {
        const std::scoped_lock lock(mutex_);
        ++done_;
        changed_.notify_one();
    }

    void tell() {
        const std::size_t done = done_;
        if (stop_ || done < told_) {
            return;
        }
        told_ = done + 1;
        try {
            if (request_.progress && !request_.progress(static_cast<double>(done) / static_cast<double>(num_wanted_))) {
                stop_ = true;
            }
        } catch (...) {
            progress_failure_ = std::current_exception();
            stop_ = true;
        }
    }

    PlanCandidate candidate_for(const Variant& variant, const PipelineOptions& options, int n,
                                const SearchTables& tables) const {
        PlanCandidate candidate;
        if (is_interleaved(options.schedule)) {
            candidate.simulation = simulate(
                variant.profile, interleaved_options(variant.profile, options, n, request_.algorithm, kEffort, tables),
                {.noise = false, .memory = true});
        } else {
            SearchedBalance searched = search_balance(variant.profile, options, n, request_.algorithm, kEffort, tables);
            candidate.simulation = std::move(searched.simulation);
            candidate.balance_is_optimal = searched.found.optimal;
            candidate.lower_bound_ns = searched.found.lower_bound_ns;
        }
        candidate.simulation.timeline.slices = {};
        candidate.simulation.memory = {};
        candidate.device_type = variant.device_type;
        if (candidate.simulation.samples_per_second > 0) {
            const double hours = 1e6 / candidate.simulation.samples_per_second / 3600;
            candidate.cost = variant.price_per_hour * hours * n;
        }
        return candidate;
    }

    /// A candidate of hundreds gets milliseconds.
    static constexpr SearchEffort kEffort{20'000, 30'000, false, false};

    const PlanRequest& request_;
    std::vector<int> partitions_;
    std::vector<Job> jobs_;
    std::size_t num_wanted_ = 0;           // candidates of all jobs
    std::size_t told_ = 0;                 // by the calling thread alone
    std::exception_ptr progress_failure_;  // likewise
    std::mutex mutex_;
    std::condition_variable changed_;  // a candidate is done, or a thread
    int others_at_work_ = 0;           // under mutex_, but before the threads start
    std::atomic<std::size_t> next_ = 0;
    std::atomic<std::size_t> done_ = 0;
    std::atomic<bool> stop_ = false;
};

/// From the candidate that needs least, with all the effort a single search has.
std::string why_infeasible(const std::vector<Variant>& variants, const std::vector<PlanCandidate>& candidates,
                           BalanceAlgorithm algorithm) {
    const auto least =
        std::min_element(candidates.begin(), candidates.end(), [](const PlanCandidate& a, const PlanCandidate& b) {
            return largest_shortfall(a.simulation) < largest_shortfall(b.simulation);
        });
    const auto variant = std::find_if(variants.begin(), variants.end(),
                                      [&](const Variant& each) { return each.device_type == least->device_type; });
    const PipelineOptions& options = least->simulation.options;
    const auto n = static_cast<int>(options.balance.num_partitions());
    SearchEffort effort;
    effort.explain_infeasible = true;
    const FoundBalance found = is_interleaved(options.schedule)
                                   ? FoundBalance{}
                                   : find_balance(variant->profile, options, n, algorithm, effort);
    const std::vector<Bytes> limits = memory_limits_of(options, static_cast<int>(least->simulation.lanes.size()));
    const Bytes largest = *std::max_element(limits.begin(), limits.end());
    Bytes more = largest_shortfall(least->simulation);
    if (found.smallest_limit) {
        more = std::min(more, *found.smallest_limit - largest);
    }
    const bool differ = *std::min_element(limits.begin(), limits.end()) != largest;
    return memory_limit_text(options) + "; the least that any candidate needs is " +
           std::to_string(differ ? more : largest + more) + (differ ? " bytes more on each lane" : " bytes a lane") +
           ", with " + std::to_string(n) + " partitions, " + std::to_string(least->simulation.micro_batches) +
           " micro-batches and checkpoint " + to_string(options.checkpoint) +
           (least->device_type.empty() ? "" : " on " + least->device_type) +
           (found.smallest_partitions ? "; " + std::to_string(*found.smallest_partitions) + " lanes would keep it"
                                      : "") +
           (differ ? "; raise the limits by that" : "; raise the limit to that") +
           ", or allow more partitions or micro-batches";
}
}  // namespace

Plan plan(const Profile& profile, const PlanRequest& request) {
    check_profile(profile);
    check(request);
    const std::set<int> partitions = partitions_of(request, profile.layers.size());
    check_lanes(request, *partitions.rbegin());
    std::set<std::int64_t> chunks;
    for (const std::int64_t each : request.chunks) {
        chunks.insert(std::min(each, request.options.batch));
    }
    const std::vector<Variant> variants = variants_of(profile, request);
    for (const Variant& variant : variants) {
        // Refuses, in one place and before any thread starts, whatever a simulation would.
        const std::string& first = request.schedules.front();
        find_balance(variant.profile,
                     options_for(variant.options, *partitions.begin(), *chunks.begin(), request.checkpoints.front(),
                                 is_interleaved(first) ? to_string(Schedule::gpipe) : first),
                     *partitions.begin(), BalanceAlgorithm::minmax);
    }
    PlanRun run(request, variants, partitions, chunks);
    run.run();
    Plan plan;
    plan.cancelled = run.cancelled();
    plan.candidates = run.take_candidates();
    rank_candidates(plan.candidates);
    if (!plan.candidates.empty() && plan.candidates.front().simulation.feasible) {
        plan.best = 0;
    } else if (!plan.candidates.empty() && !plan.cancelled) {
        plan.infeasible_because = why_infeasible(variants, plan.candidates, request.algorithm);
    }
    return plan;
}
}  // namespace pipescope
