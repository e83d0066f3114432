// A group of processes: how they meet, how each learns of the first failure, and how they part.
//
// Three threads watch:
//     pulse    writes this rank's beat into the store ten times in a period of silence, and reads the others' and the
//              cause. A beat that stands still for the whole period is a death.
//     ring     waits for a farewell of the next rank. Its connection breaks at once if that process ends, so a death
//              is known within milliseconds.
//     judge    never touches the store, whose calls hang if this host is cut off. It concludes that from the pulse's
//              standstill, cancels what waits, and ends the process if asked to.
// The first cause wins: whoever finds one tries to write it into the store, and takes what is then there.

#include "engine/processes/processes.h"

#include "base/number_text.h"
#include "base/quantities.h"
#include "engine/lanes/worker.h"
#include "engine/processes/rendezvous.h"
#include "engine/processes/transport.h"

#include <sys/resource.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <mutex>
#include <random>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLook{50};           // of the judge
constexpr milliseconds kLongestPulse{100};  // between two looks at the cause
constexpr milliseconds kToBeHeard{1000};    // the store's host waits this long for the others to read the cause
constexpr milliseconds kForAnAnswer{5000};  // of a store that listens
constexpr milliseconds kToLeave{2000};      // a rank that has left cannot be waited for any longer
constexpr int kMostProcesses = 65536;
constexpr std::size_t kMostListed = 8;
constexpr int kFarewell = 1;         // tag
constexpr rlim_t kDescriptors = 14;  // of one process in any group, and then for each process of the group
constexpr rlim_t kDescriptorsOfHost = 6;
constexpr rlim_t kDescriptorsOfOthers = 2;
const std::string kLeft = "left";

std::string seconds_text(milliseconds time) {
    const auto ms = time.count();
    return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

void check_options(const ProcessOptions& options) {
    if (options.size > kMostProcesses) {
        throw UsageError("the processes are " + std::to_string(options.size) + "; a group has at most " +
                         std::to_string(kMostProcesses) + "; start fewer");
    }
    if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
        throw UsageError("the rank is " + std::to_string(options.rank) + " of " +
                         counted(options.size, "process", "processes") +
                         "; ranks count from 0 to one less than their number; start one process for each");
    }
}

/// c10d's store ends the process that hosts it if it cannot accept a connection, as with too few descriptors.
void check_descriptors(const ProcessOptions& options) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return;
    }
    std::error_code error;
    const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
    const auto open = static_cast<rlim_t>(error ? 0 : std::distance(begin(descriptors), end(descriptors)));
    const bool is_host = options.rank == 0 && !options.store_is_hosted;
    const rlim_t needed =
        kDescriptors + static_cast<rlim_t>(options.size) * (is_host ? kDescriptorsOfHost : kDescriptorsOfOthers);
    if (open + needed > limit.rlim_cur) {
        throw ProcessError("this process may have " + std::to_string(limit.rlim_cur) + " files open and has " +
                           std::to_string(open) + "; connections in a group of " +
                           counted(options.size, "process", "processes") + " take up to " + std::to_string(needed) +
                           " more here; raise the limit (ulimit -n), or start fewer processes");
    }
}

/// Calls `done` until it holds.
void poll(const std::function<bool()>& done) {
    for (milliseconds pause{0}; !done(); pause = std::min(pause + milliseconds(1), milliseconds(20))) {
        std::this_thread::sleep_for(pause);
    }
}

/// "ranks 0, 1 and 3 are there"
std::string list_of(const std::vector<int>& ranks) {
    if (ranks.size() > kMostListed) {
        return std::to_string(ranks.size()) + " ranks from rank " + std::to_string(ranks.front()) + " on";
    }
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t k = 0; k < ranks.size(); ++k) {
        text += (k == 0 ? "" : k + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[k]);
    }
    return text;
}
}  // namespace

/// Counts a wait for as long as it lives.
struct CountedWait {
    explicit CountedWait(std::atomic<int>& waits) : count(waits) { ++count; }
    ~CountedWait() { --count; }
    CountedWait(const CountedWait&) = delete;
    CountedWait& operator=(const CountedWait&) = delete;
    std::atomic<int>& count;
};

struct Processes::Group {
    explicit Group(const ProcessOptions& of);
    ~Group();

    std::string key(const std::string& name) const {
        return "pipescope/" + options.run + "." + std::to_string(options.attempt) + "/" + name;
    }
    std::string key(const std::string& name, int rank) const { return key(name) + "/" + std::to_string(rank); }
    std::string name_of(int rank) const {
        const auto& host = hosts[static_cast<std::size_t>(rank)];
        return "rank " + std::to_string(rank) + (host.empty() ? "" : " (host " + host + ")");
    }

    void meet();
    void refuse_if_there_is_another_first(Clock::time_point until);
    void arrive(Clock::time_point until);
    void wait_for_members(Clock::time_point until);
    void start_watch();
    void watch_pulse();
    void watch_ring();
    void watch_health();
    void leave();
    void wait_for_others();

    std::string fail(const std::string& text, bool is_own = false);
    std::string end_of_store() const;
    void close_retired(KeyStore& keys);
    void conclude(const std::string& cause);
    std::optional<std::string> failure() const {
        const std::lock_guard lock(mutex);
        return cause;
    }
    void check() const {
        if (const auto first = failure()) {
            throw ProcessError(*first);
        }
    }
    std::string death_of(int rank, const std::string& how) const;
    std::vector<std::string> gather(const std::string& mine);

    const ProcessOptions options;
    const KeyStore::Address rendezvous;
    const std::string address;       // of this host
    std::vector<std::string> hosts;  // by rank
    std::string run_id;              // equal on all ranks
    bool is_host = false;            // of the store

    std::mutex store_mutex;
    std::optional<KeyStore> store;  // guarded by store_mutex
    std::mutex failing_mutex;
    std::optional<KeyStore> failing;         // guarded by failing_mutex; for the cause only
    std::atomic<std::int64_t> gathered = 0;  // collective calls so far
    std::atomic<std::int64_t> connected = 0;

    mutable std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::string> cause;                   // guarded by mutex
    Clock::time_point concluded;                        // guarded by mutex
    bool leaving = false;                               // guarded by mutex; needs nothing of the others any more
    bool ending = false;                                // guarded by mutex; its threads end
    std::vector<std::shared_ptr<Connections>> retired;  // guarded by mutex
    std::set<std::string> announced_retired;            // used by the pulse only
    std::vector<std::weak_ptr<Connections>> groups;     // guarded by mutex
    std::vector<std::string> tasks;                     // guarded by mutex; last one of each rank
    std::vector<std::atomic<int>> waits;                // by rank: how many threads wait for it
    std::atomic<bool> asked_to_stop = false;            // in any process, as far as the pulse knows
    std::atomic<bool> to_stop = false;                  // as all have agreed
    std::atomic<bool> is_own_failure = false;
    std::atomic<bool> is_heard_by_all = false;          // the cause, as far as the pulse of the store's host knows
    std::atomic<std::uint64_t> task = pack(TaskKey{});  // packed, of this rank
    std::atomic<Clock::rep> last_pulse = 0;

    std::shared_ptr<Connections> ring;
    std::unique_ptr<Worker> pulse_thread, ring_thread, judge_thread;
};

Processes::Group::Group(const ProcessOptions& of)
    : options((check_options(of), of)),
      rendezvous(parse_rendezvous(of.rendezvous)),
      address(address_towards(rendezvous)),
      hosts(static_cast<std::size_t>(of.size)),
      tasks(static_cast<std::size_t>(of.size)),
      waits(static_cast<std::size_t>(of.size)) {
    check_descriptors(of);
    hosts[static_cast<std::size_t>(of.rank)] = host_name();
    try {
        meet();
    } catch (const ProcessError&) {
        if (is_host) {
            std::this_thread::sleep_for(kToBeHeard / 4);  // the others look at the cause every few milliseconds
        }
        throw;
    }
    start_watch();
}

// ---- Meeting ----

void Processes::Group::meet() {
    is_host = options.rank == 0 && !options.store_is_hosted;
    std::optional<int> listening;
    const auto until = Clock::now() + options.patience;
    if (is_host && options.listening >= 0) {
        listening = options.listening;
    } else if (is_host) {
        try {
            listening = listen_on(rendezvous.port);
        } catch (const ProcessError&) {
            refuse_if_there_is_another_first(until);
            throw;
        }
    }
    for (bool has_arrived = false; !has_arrived;) {
        if (!is_host && !is_answered(rendezvous, until, options.while_waiting)) {
            throw ProcessError("nobody answers at " + options.rendezvous + " within " + seconds_text(options.patience) +
                               "; " + (options.store_is_hosted ? "the launcher" : "rank 0") +
                               " meets the others there; start it, or check the rendezvous");
        }
        try {
            const auto left = std::chrono::duration_cast<milliseconds>(until - Clock::now());
            store.emplace(rendezvous, listening, std::clamp(left, kToBeHeard, kForAnAnswer));
            failing = store->copy();
            arrive(until);
            has_arrived = true;
        } catch (const ConnectionLost& lost) {
            // That store may have been of an earlier group, whose host has closed it since.
            if (is_host || Clock::now() >= until) {
                throw ProcessError("the store at " + options.rendezvous + " does not answer (" + lost.what() +
                                   "); the processes meet there; look at the others' messages, or choose another port");
            }
        }
    }
    try {
        ring =
            std::make_shared<Connections>(*store, key("ring"), options.rank, options.size, address, options.patience);
    } catch (const ConnectionLost& lost) {
        throw ProcessError(fail("the processes lost one another while they met (" + std::string(lost.what()) +
                                "); one of them ended, or the network did; look at the others' messages"));
    }
}

/// Throws ProcessError that says so if the rendezvous port is taken because another process of this group is rank 0.
void Processes::Group::refuse_if_there_is_another_first(Clock::time_point until) {
    try {
        store.emplace(rendezvous, std::nullopt, kToBeHeard);
        failing = store->copy();
        const auto soon = std::min(until, Clock::now() + kToBeHeard);
        poll([&] { return store->get(key("member", 0)) || Clock::now() >= soon; });
        if (store->get(key("member", 0))) {
            arrive(until);
        }
    } catch (const ConnectionLost&) {
        // It is another program's port.
    }
}

/// Tells the store that this rank is there, and waits for the others.
void Processes::Group::arrive(Clock::time_point until) {
    const int rank = options.rank;
    if (store->get(key("formed"))) {
        throw ProcessError("the processes at " + options.rendezvous +
                           " are complete without this one, which says it is rank " + std::to_string(rank) +
                           "; another training meets there; choose another port");
    }
    if (const std::string size = store->set_once(key("size"), std::to_string(options.size));
        size != std::to_string(options.size)) {
        throw ProcessError(fail(name_of(rank) + " says that there are " +
                                counted(options.size, "process", "processes") + ", and another that there are " + size +
                                "; start all with the same number"));
    }
    const std::string me = host_name() + ", process " + std::to_string(::getpid());
    if (store->add(key("arrivals", rank), 1) > 1) {
        const std::string other = store->get(key("member", rank)).value_or("unknown");
        throw ProcessError(fail("two processes are rank " + std::to_string(rank) + ": on host " + other +
                                ", and on host " + me + "; give each process a rank of its own"));
    }
    store->set(key("member", rank), me);
    wait_for_members(until);
    store->set(key("formed"), "");
}

void Processes::Group::wait_for_members(Clock::time_point until) {
    for (int rank = 0; rank < options.size;) {
        if (const auto member = store->get(key("member", rank))) {
            hosts[static_cast<std::size_t>(rank)] = member->substr(0, member->find(','));
            ++rank;
            continue;
        }
        if (const auto first = store->get(key("cause"))) {
            throw ProcessError(*first);
        }
        if (Clock::now() >= until) {
            std::vector<int> here, missing;
            for (int each = 0; each < options.size; ++each) {
                (store->get(key("member", each)) ? here : missing).push_back(each);
            }
            throw ProcessError(fail(list_of(missing) + " of " + std::to_string(options.size) + " did not come to " +
                                    options.rendezvous + " within " + seconds_text(options.patience) + "; " +
                                    list_of(here) + (here.size() == 1 ? " is" : " are") +
                                    " there; start all, or look why one ended"));
        }
        if (options.while_waiting) {
            options.while_waiting();
        }
        std::this_thread::sleep_for(milliseconds(5));
    }
}

// ---- Watching ----

void Processes::Group::start_watch() {
    last_pulse = Clock::now().time_since_epoch().count();
    const auto start = [this](const std::string& name, auto watch) {
        auto worker = std::make_unique<Worker>(name, [] {});
        worker->post([this, name, watch = std::move(watch)] {
            try {
                watch();
            } catch (const std::exception& error) {  // such as too little memory
                fail(name_of(options.rank) + " cannot watch the others any more, since its thread '" + name +
                         "' failed: " + error.what(),
                     true);
            }
        });
        return worker;
    };
    judge_thread = start("judge", [this] { watch_health(); });
    pulse_thread = start("pulse", [this] { watch_pulse(); });
    if (options.size > 1) {
        ring_thread = start("ring", [this] { watch_ring(); });
    }
}

std::string Processes::Group::death_of(int rank, const std::string& how) const {
    const std::lock_guard lock(mutex);
    const std::string& last = tasks[static_cast<std::size_t>(rank)];
    return name_of(rank) + " " + how + (last.empty() ? "" : "; its last task was " + last);
}

void Processes::Group::watch_pulse() {
    struct Beat {
        std::string value;
        Clock::time_point changed = Clock::now();
    };
    std::vector<Beat> beats(hosts.size());
    const milliseconds pause = std::min(kLongestPulse, options.silence / 10);
    std::optional<KeyStore> own;
    bool heard = false;
    auto last_look = Clock::now();
    try {
        {
            const std::lock_guard lock(store_mutex);
            own = store->copy();
        }
        for (std::int64_t count = 0;; ++count) {
            std::unique_lock lock(mutex);
            const bool ends = ending;
            const bool leaves = leaving;
            lock.unlock();
            own->set(key("beat", options.rank),
                     leaves ? kLeft : std::to_string(count) + " " + std::to_string(task.load()));
            if (const auto first = own->get(key("cause"))) {
                conclude(*first);
            }
            const auto now = Clock::now();
            const bool was_away = now - last_look > options.silence / 2;  // this process was stopped meanwhile
            last_look = now;
            for (int rank = 0; rank < options.size && !failure(); ++rank) {
                Beat& beat = beats[static_cast<std::size_t>(rank)];
                const std::string value = rank == options.rank ? kLeft : own->get(key("beat", rank)).value_or("");
                if (value != beat.value || (was_away && value != kLeft)) {
                    beat = {value, now};
                    if (const auto space = value.find(' '); space != std::string::npos) {
                        const auto number = number_in<std::uint64_t>(std::string_view(value).substr(space + 1));
                        const auto packed = number ? unpack(*number) : std::nullopt;
                        const std::lock_guard tasks_lock(mutex);
                        tasks[static_cast<std::size_t>(rank)] = packed && packed->step >= 0 ? to_string(*packed) : "";
                    }
                } else if (value == kLeft && rank != options.rank && now - beat.changed > kToLeave &&
                           waits[static_cast<std::size_t>(rank)] > 0) {
                    fail(name_of(rank) + " left, and " + name_of(options.rank) +
                         " still waits for it; call the same functions on all");
                } else if (value != kLeft && now - beat.changed > options.silence) {
                    fail(death_of(rank, "has not been heard of for " + seconds_text(options.silence)));
                }
            }
            if (asked_to_stop) {
                own->set(key("stop"), "");
            } else if (own->get(key("stop"))) {
                asked_to_stop = true;
            }
            close_retired(*own);
            if (failure() && !std::exchange(heard, true)) {
                own->add(key("heard"), 1);
            }
            if (is_host && heard && !is_heard_by_all) {
                is_heard_by_all = own->add(key("heard"), 0) >= options.size;
            }
            last_pulse = Clock::now().time_since_epoch().count();
            lock.lock();
            if (ends) {
                return;
            }
            changed.wait_for(lock, pause, [&] { return ending || leaving != leaves; });
        }
    } catch (const ConnectionLost&) {
        conclude(end_of_store());
    }
}

void Processes::Group::close_retired(KeyStore& keys) {
    std::vector<std::shared_ptr<Connections>> closing;
    {
        const std::lock_guard lock(mutex);
        closing = retired;
    }
    std::erase_if(closing, [&](const auto& each) {
        const std::int64_t mine = announced_retired.insert(each->name()).second ? 1 : 0;
        return keys.add(each->name() + "/retired", mine) < options.size;
    });
    if (!closing.empty()) {
        const std::lock_guard lock(mutex);
        std::erase_if(retired, [&](const auto& each) { return std::ranges::find(closing, each) != closing.end(); });
    }
}

void Processes::Group::watch_ring() {
    const int next = (options.rank + 1) % options.size;
    std::byte word{};
    try {
        Transfer farewell = ring->receive({&word, 1}, next, kFarewell);
        if (farewell.wait() || failure()) {
            return;
        }
    } catch (const ConnectionLost&) {
        fail(death_of(next, "ended without a word"));
    }
}

void Processes::Group::watch_health() {
    auto last_look = Clock::now();
    std::unique_lock lock(mutex);
    while (!ending) {
        changed.wait_for(lock, kLook);
        const auto now = Clock::now();
        if (cause) {
            // The others read the cause in the host's store. A host that leaves gives them time for it by itself.
            const bool is_heard_out = is_host && leaving;
            const auto after = options.end_after + (is_host && !is_heard_by_all ? kToBeHeard : milliseconds{0});
            if (!is_heard_out && options.end_after.count() > 0 && now - concluded > after) {
                std::fprintf(stderr, "pipescope: %s\n", cause->c_str());
                std::quick_exit(1);
            }
        } else if (now - last_look > options.silence / 2) {
            last_pulse = now.time_since_epoch().count();  // this process was stopped; so was its pulse
        } else if (now - Clock::time_point(Clock::duration(last_pulse.load())) > options.silence) {
            lock.unlock();
            conclude((options.store_is_hosted ? "the launcher" : name_of(0)) + " has not answered at " +
                     options.rendezvous + " for " + seconds_text(options.silence) +
                     ": it hangs, or the network to it is cut");
            lock.lock();
        }
        last_look = now;
    }
}

std::string Processes::Group::end_of_store() const {
    return options.store_is_hosted ? "the launcher, which hosts the store at " + options.rendezvous + ", ended"
                                   : name_of(0) + " ended without a word";
}

/// `is_own`: the failure happened in this process, which saw it.
std::string Processes::Group::fail(const std::string& text, bool is_own) {
    std::string first = text;
    if (const auto known = failure()) {
        return *known;
    }
    try {
        const std::lock_guard lock(failing_mutex);
        if (failing) {
            first = failing->set_once(key("cause"), text);
        }
    } catch (const ConnectionLost&) {
        if (!is_host && !is_own) {
            first = end_of_store();  // who lost whom after that says nothing
        }
    }
    conclude(first);
    return *failure();
}

void Processes::Group::conclude(const std::string& text) {
    std::vector<std::weak_ptr<Connections>> live;
    {
        const std::lock_guard lock(mutex);
        if (cause) {
            return;
        }
        cause = text;
        concluded = Clock::now();
        live = groups;
    }
    changed.notify_all();
    for (const auto& each : live) {
        if (const auto group = each.lock()) {
            group->cancel_all();
            group->cancel_devices();
        }
    }
}

// ---- Parting ----

Processes::Group::~Group() {
    leave();
}

void Processes::Group::leave() {
    if (std::uncaught_exceptions() > 0) {
        fail(name_of(options.rank) + " ended by an exception", true);
    }
    if (options.size > 1 && !failure()) {
        try {
            const std::byte word{};
            ring->send({&word, 1}, (options.rank + options.size - 1) % options.size, kFarewell).wait();
        } catch (const ConnectionLost&) {
            // That rank is gone: nobody is left to hear it.
        }
    }
    {
        const std::lock_guard lock(mutex);
        leaving = true;
    }
    changed.notify_all();
    wait_for_others();
    {
        const std::lock_guard lock(mutex);
        ending = true;
    }
    changed.notify_all();
    pulse_thread.reset();
    judge_thread.reset();
    ring->cancel_all();
    ring_thread.reset();
}

/// The others need this process's connections, and the host's store, until they leave too or have heard why the group
/// failed.
void Processes::Group::wait_for_others() {
    const auto add = [this](const std::string& what, std::int64_t number) {
        const std::lock_guard lock(store_mutex);
        return store->add(key(what), number);
    };
    try {
        add("left", 1);
        poll([&] { return failure() || add("left", 0) >= options.size; });
        add("gone", 1);
        if (is_host) {
            const auto until = Clock::now() + kToBeHeard;
            poll([&] { return add(failure() ? "heard" : "gone", 0) >= options.size || Clock::now() >= until; });
        }
    } catch (const ConnectionLost&) {
        // The host is gone, and with it what there was to wait for.
    }
}

// ---- Collective calls ----

std::vector<std::string> Processes::Group::gather(const std::string& mine) {
    const std::string name = key("gather/" + std::to_string(gathered++));
    std::vector<std::string> all;
    const auto take = [&](int rank) {
        check();
        const std::lock_guard lock(store_mutex);
        const auto value = store->get(name + "/" + std::to_string(rank));
        if (value) {
            all.push_back(*value);
        }
        return value.has_value();
    };
    check();
    try {
        {
            const std::lock_guard lock(store_mutex);
            store->set(name + "/" + std::to_string(options.rank), mine);
        }
        for (int rank = 0; rank < options.size; ++rank) {
            const CountedWait counted_wait(waits[static_cast<std::size_t>(rank)]);
            poll([&] { return take(rank); });
        }
    } catch (const ConnectionLost&) {
        std::this_thread::sleep_for(kLongestPulse);  // the pulse finds it too, and has the words for it
        check();
        throw;
    }
    return all;
}

Processes::Processes(std::unique_ptr<Group> group) : group_(std::move(group)) {}
Processes::~Processes() = default;

std::shared_ptr<Processes> Processes::join(const ProcessOptions& options) {
    // Writing to a peer that has ended must fail, not end this process. c10d and Gloo leave this to Python.
    struct sigaction action {};
    if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
        action.sa_handler = SIG_IGN;
        ::sigaction(SIGPIPE, &action, nullptr);
    }
    std::shared_ptr<Processes> processes(new Processes(std::make_unique<Group>(options)));
    processes->agree({{"the version of torch", TORCH_VERSION}});
    processes->group_->run_id = processes->gather(options.run + "-" + std::to_string(std::random_device()())).front();
    return processes;
}

const ProcessOptions& Processes::options() const noexcept {
    return group_->options;
}
int Processes::rank() const noexcept {
    return group_->options.rank;
}
int Processes::size() const noexcept {
    return group_->options.size;
}
std::string Processes::name_of(int rank) const {
    return group_->name_of(rank);
}
const std::string& Processes::host_of(int rank) const {
    return group_->hosts[static_cast<std::size_t>(rank)];
}
const std::string& Processes::run_id() const noexcept {
    return group_->run_id;
}

void Processes::agree(const std::vector<std::pair<std::string, std::string>>& facts) {
    constexpr char kEnd = '\x1f';  // no fact holds it
    std::string mine;
    for (const auto& [name, value] : facts) {
        mine += name + kEnd + value + kEnd;
    }
    const std::vector<std::string> all = group_->gather(mine);
    const auto fields_of = [](const std::string& text) {
        std::vector<std::string> fields;
        for (std::size_t from = 0, to; (to = text.find(kEnd, from)) != std::string::npos; from = to + 1) {
            fields.push_back(text.substr(from, to - from));
        }
        return fields;
    };
    const std::vector<std::string> first = fields_of(all.front());
    for (int rank = 1; rank < size(); ++rank) {
        const std::vector<std::string> other = fields_of(all[static_cast<std::size_t>(rank)]);
        for (std::size_t k = 0; k + 1 < std::max(first.size(), other.size()); k += 2) {
            if (k + 1 >= first.size() || k + 1 >= other.size() || first[k] != other[k]) {
                throw ProcessError(group_->fail("the processes do different things: " + name_of(rank) + " checks " +
                                                (k < other.size() ? other[k] : "nothing") + " where " + name_of(0) +
                                                " checks " + (k < first.size() ? first[k] : "nothing") +
                                                "; run the same program on all"));
            }
            if (first[k + 1] != other[k + 1]) {
                throw ProcessError(group_->fail("the processes differ in " + first[k] + ": " + name_of(0) + " has " +
                                                first[k + 1] + ", and " + name_of(rank) + " has " + other[k + 1] +
                                                "; give all the same"));
            }
        }
    }
}

void Processes::barrier() {
    group_->gather("");
}

std::vector<std::string> Processes::gather(const std::string& mine) {
    return group_->gather(mine);
}

bool Processes::fail(const std::string& text) {
    const std::string cause = text.substr(0, text.find('\n'));  // torch's errors hold a stack trace
    if (group_->fail(cause, true) == cause) {
        group_->is_own_failure = true;
    }
    return group_->is_own_failure;
}

bool Processes::fail_by_exception(const std::string& where) {
    std::string reason = "an exception that is no std::exception";
    try {
        throw;
    } catch (const ProcessError&) {
        return true;
    } catch (const std::exception& error) {
        reason = error.what();
    } catch (...) {
    }
    return fail(name_of(rank()) + where + ": " + reason);
}

std::optional<std::string> Processes::failure() const {
    return group_->failure();
}

void Processes::check() const {
    group_->check();
}

void Processes::note(const TaskKey& task) noexcept {
    group_->task.store(pack(task), std::memory_order_relaxed);
}

void Processes::ask_to_stop() {
    group_->asked_to_stop = true;
}
bool Processes::is_asked_to_stop() const noexcept {
    return group_->asked_to_stop;
}
void Processes::set_to_stop() noexcept {
    group_->to_stop = true;
}
bool Processes::is_to_stop() const noexcept {
    return group_->to_stop;
}

std::shared_ptr<Connections> Processes::connect() {
    group_->check();
    const std::string name = group_->key("group", static_cast<int>(group_->connected++));
    try {
        KeyStore own = [this] {
            const std::lock_guard lock(group_->store_mutex);
            return group_->store->copy();
        }();
        auto group =
            std::make_shared<Connections>(own, name, rank(), size(), group_->address, group_->options.patience);
        const std::lock_guard lock(group_->mutex);
        std::erase_if(group_->groups, [](const auto& each) { return each.expired(); });
        group_->groups.push_back(group);
        if (group_->cause) {
            group->cancel_all();
            group->cancel_devices();
        }
        return group;
    } catch (const ConnectionLost& lost) {
        throw ProcessError(
            group_->fail(name_of(rank()) + " could not connect with all others (" + lost.what() +
                         "); the hosts must reach each other on all ports; check firewalls and the messages "
                         "of the others"));
    }
}

void Processes::retire(std::shared_ptr<Connections> connections) {
    const std::lock_guard lock(group_->mutex);
    group_->retired.push_back(std::move(connections));
}

void Processes::exchange(int peer, const std::function<bool()>& transfers) {
    const CountedWait counted_wait(group_->waits[static_cast<std::size_t>(peer)]);
    try {
        if (transfers()) {
            return;
        }
    } catch (const ConnectionLost&) {
        lost(peer);
    }
    // Ends the group, unless that is why: whoever gets a ProcessError finds its cause in failure().
    throw ProcessError(
        group_->fail("the connections were closed while " + name_of(rank()) + " used them; close them after use"));
}

void Processes::lost(int peer) {
    group_->fail(group_->death_of(peer, "ended without a word"));
}
}  // namespace pipescope
