#include "tests/explored_orders/order_explorer.h"

#include <ucontext.h>

#include <cxxabi.h>
#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace pipescope::explored {
namespace {
constexpr std::size_t kStackBytes = std::size_t{256} << 10;
constexpr long kMostPoints = 100'000;  // more are a loop without end

/// A place where several threads could go on, or be woken.
struct Choice {
    int taken = 0;
    int affordable = 1;  ///< alternatives within the limits, the first ones
};

/// The exceptions of a thread, as the C++ runtime keeps them; the layout is part of the ABI.
struct OpenExceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
};

OpenExceptions& open_exceptions() {
    return *reinterpret_cast<OpenExceptions*>(abi::__cxa_get_globals());
}

/// A stack of its own in the thread of the explorer: a change of turns takes no system's scheduler, which would take
/// most of the time.
struct ExploredThread {
    std::function<void()> work;
    std::unique_ptr<std::byte[]> stack = {};
    ucontext_t place = {};
    OpenExceptions exceptions = {};
    const void* waits_for = nullptr;  ///< null: can go on
    const char* what = "";
    bool has_time_limit = false;
    bool timed_out = false;
    bool has_ended = false;
};

/// One run of the program, in one order.
class Order {
public:
    Order(std::vector<int> prefix, int preemptions, TimeLimits time_limits, std::optional<std::uint64_t> seed)
        : prefix_(std::move(prefix)), preemptions_left_(preemptions), time_limits_(time_limits) {
        if (seed) {
            random_.emplace(*seed);
        }
    }

    /// Returns once all threads have ended, or the order has failed. Then their stacks stay as they are.
    void run(const std::function<void()>& program);
    int start(std::function<void()> work);
    void point();
    bool block_on(const void* object, const char* what, bool has_time_limit);
    void wake_all(const void* object);
    void wake_one(const void* object);
    void destroy(const void* object);
    void join(int thread) {
        point();
        if (!threads_[static_cast<std::size_t>(thread)].has_ended) {
            block_on(&threads_[static_cast<std::size_t>(thread)], "the end of a thread", false);
        }
    }
    [[noreturn]] void fail(const std::string& what);

    const std::string& failure() const { return failure_; }
    const std::vector<Choice>& choices() const { return choices_; }
    long points() const { return points_; }
    int self() const { return self_; }

private:
    static void run_thread();
    int choose(int count, int affordable);
    void pass_turn();
    void switch_to(ExploredThread* next);
    std::string what_threads_wait_for() const;

    const std::vector<int> prefix_;
    int preemptions_left_;
    const TimeLimits time_limits_;
    std::optional<std::mt19937_64> random_;
    std::deque<ExploredThread> threads_;
    int self_ = -1;  // whose turn it is
    ucontext_t explorer_ = {};
    std::vector<Choice> choices_;
    std::string failure_;
    long points_ = 0;
};

Order* current = nullptr;  // the one that runs
long orders_begun = 0;

void Order::run(const std::function<void()>& program) {
    current = this;
    ++orders_begun;
    start(program);
    self_ = 0;
    swapcontext(&explorer_, &threads_.front().place);
    open_exceptions() = {};
    current = nullptr;
}

int Order::start(std::function<void()> work) {
    const auto number = static_cast<int>(threads_.size());
    ExploredThread& made = threads_.emplace_back(std::move(work));
    made.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    getcontext(&made.place);
    made.place.uc_stack.ss_sp = made.stack.get();
    made.place.uc_stack.ss_size = kStackBytes;
    made.place.uc_link = nullptr;
    makecontext(&made.place, &Order::run_thread, 0);
    if (self_ >= 0) {
        point();
    }
    return number;
}

void Order::run_thread() {
    ExploredThread& here = current->threads_[static_cast<std::size_t>(current->self_)];
    try {
        here.work();
        here.work = nullptr;
    } catch (const std::exception& error) {
        current->fail(std::string("an exception left a thread: ") + error.what());
    }
    here.has_ended = true;
    current->wake_all(&here);
    current->pass_turn();
}

void Order::switch_to(ExploredThread* next) {
    ExploredThread& here = threads_[static_cast<std::size_t>(self_)];
    here.exceptions = open_exceptions();
    if (next != nullptr) {
        const auto number =
            std::find_if(threads_.begin(), threads_.end(), [=](const auto& each) { return &each == next; });
        self_ = static_cast<int>(number - threads_.begin());
        open_exceptions() = next->exceptions;
    }
    swapcontext(&here.place, next != nullptr ? &next->place : &explorer_);
}

void Order::fail(const std::string& what) {
    failure_ = what;
    switch_to(nullptr);
    std::terminate();  // nobody comes back
}

int Order::choose(int count, int affordable) {
    if (count == 1) {
        return 0;
    }
    int taken = 0;
    if (choices_.size() < prefix_.size()) {
        taken = prefix_[choices_.size()];
        if (taken >= count) {
            fail("the program does not repeat: choice " + std::to_string(choices_.size()) + " has " +
                 std::to_string(count) + " alternatives");
        }
    } else if (random_ && (*random_)() % 2 == 0) {
        taken = static_cast<int>((*random_)() % static_cast<std::uint64_t>(count));
    }
    choices_.push_back({taken, affordable});
    return taken;
}

void Order::point() {
    if (++points_ > kMostPoints) {
        fail("a loop without end");
    }
    pass_turn();
}

/// Chooses who goes on: this thread if it can, then the others, then those whose time limit may pass.
void Order::pass_turn() {
    std::vector<int> able;
    std::vector<int> timed;
    const auto number = static_cast<int>(threads_.size());
    for (int k = 0; k < number; ++k) {
        const int each = (self_ + k) % number;
        const ExploredThread& thread = threads_[static_cast<std::size_t>(each)];
        if (thread.has_ended) {
            continue;
        }
        if (thread.waits_for == nullptr) {
            able.push_back(each);
        } else if (thread.has_time_limit) {
            timed.push_back(each);
        }
    }
    const bool can_go_on = !able.empty() && able.front() == self_;
    const auto free = can_go_on ? std::size_t{1} : able.size();
    if (time_limits_ == TimeLimits::at_any_time ||
        (able.empty() && time_limits_ == TimeLimits::when_nobody_can_go_on)) {
        able.insert(able.end(), timed.begin(), timed.end());
    }
    if (able.empty()) {
        if (std::all_of(threads_.begin(), threads_.end(), [](const auto& each) { return each.has_ended; })) {
            switch_to(nullptr);
        }
        fail("deadlock: " + what_threads_wait_for());
    }
    const auto count = static_cast<int>(able.size());
    const int taken = choose(count, preemptions_left_ > 0 || free == 0 ? count : static_cast<int>(free));
    preemptions_left_ -= free > 0 && taken >= static_cast<int>(free) ? 1 : 0;
    const int next = able[static_cast<std::size_t>(taken)];
    ExploredThread& chosen = threads_[static_cast<std::size_t>(next)];
    if (chosen.waits_for != nullptr) {
        chosen.waits_for = nullptr;
        chosen.timed_out = true;
    }
    if (next != self_) {
        switch_to(&chosen);
    }
}

bool Order::block_on(const void* object, const char* what, bool has_time_limit) {
    ExploredThread& here = threads_[static_cast<std::size_t>(self_)];
    here.waits_for = object;
    here.what = what;
    here.has_time_limit = has_time_limit;
    here.timed_out = false;
    pass_turn();
    return !here.timed_out;
}

void Order::wake_all(const void* object) {
    for (ExploredThread& each : threads_) {
        if (each.waits_for == object) {
            each.waits_for = nullptr;
        }
    }
}

void Order::wake_one(const void* object) {
    std::vector<ExploredThread*> waiting;
    for (ExploredThread& each : threads_) {
        if (each.waits_for == object) {
            waiting.push_back(&each);
        }
    }
    if (!waiting.empty()) {
        const auto count = static_cast<int>(waiting.size());
        waiting[static_cast<std::size_t>(choose(count, count))]->waits_for = nullptr;
    }
}

void Order::destroy(const void* object) {
    for (const ExploredThread& each : threads_) {
        if (each.waits_for == object) {
            fail(std::string("a thread waits for ") + each.what + " that is destroyed");
        }
    }
}

std::string Order::what_threads_wait_for() const {
    std::string text;
    for (std::size_t k = 0; k < threads_.size(); ++k) {
        if (!threads_[k].has_ended) {
            text += (text.empty() ? "thread " : "; thread ") + std::to_string(k) + " waits for " + threads_[k].what;
        }
    }
    return text;
}

/// Runs one order and stores its failure. An order that failed is never freed: its stacks hold what was in use.
std::vector<Choice> run_one(std::unique_ptr<Order> one, const std::function<void()>& program, Outcome& outcome) {
    one->run(program);
    ++outcome.orders;
    std::vector<Choice> choices = one->choices();
    if (!one->failure().empty()) {
        outcome.failure = one->failure();
        for (const Choice& each : choices) {
            outcome.choices.push_back(each.taken);
        }
        while (!outcome.choices.empty() && outcome.choices.back() == 0) {
            outcome.choices.pop_back();
        }
        static_cast<void>(one.release());
    }
    return choices;
}

/// The choices of the next order of a depth-first search; false if there is none.
bool advance(std::vector<Choice>& choices) {
    while (!choices.empty() && choices.back().taken + 1 >= choices.back().affordable) {
        choices.pop_back();
    }
    if (choices.empty()) {
        return false;
    }
    ++choices.back().taken;
    return true;
}
}  // namespace

Outcome explore(const std::function<void()>& program, const Limits& limits) {
    Outcome outcome;
    // Few preemptions first, so that a failure has as few as possible.
    for (int preemptions = 0; preemptions <= limits.preemptions; ++preemptions) {
        outcome.orders = 0;
        std::vector<Choice> choices;
        do {
            if (outcome.orders == limits.most_orders) {
                return outcome;
            }
            std::vector<int> prefix;
            for (const Choice& each : choices) {
                prefix.push_back(each.taken);
            }
            choices = run_one(std::make_unique<Order>(std::move(prefix), preemptions, limits.time_limits, std::nullopt),
                              program, outcome);
            if (!outcome.failure.empty()) {
                return outcome;
            }
        } while (advance(choices));
    }
    outcome.is_complete = true;
    return outcome;
}

Outcome explore_randomly(const std::function<void()>& program, std::uint64_t seed, long orders,
                         TimeLimits time_limits) {
    Outcome outcome;
    while (outcome.orders < orders && outcome.failure.empty()) {
        const std::uint64_t own = seed + static_cast<std::uint64_t>(outcome.orders);
        run_one(std::make_unique<Order>(std::vector<int>{}, 0, time_limits, own), program, outcome);
        if (!outcome.failure.empty()) {
            outcome.failure += " (seed " + std::to_string(own) + ")";
        }
    }
    return outcome;
}

Outcome replay(const std::function<void()>& program, const std::vector<int>& choices, TimeLimits time_limits) {
    Outcome outcome;
    run_one(std::make_unique<Order>(choices, 0, time_limits, std::nullopt), program, outcome);
    return outcome;
}

void require(bool holds, const std::string& what) {
    if (!holds) {
        current->fail(what);
    }
}

std::string to_string(const Outcome& outcome) {
    std::string text = std::to_string(outcome.orders) + " orders";
    if (!outcome.failure.empty()) {
        text += "; " + outcome.failure + "; replay with {";
        for (std::size_t k = 0; k < outcome.choices.size(); ++k) {
            text += (k == 0 ? "" : ", ") + std::to_string(outcome.choices[k]);
        }
        text += "}";
    }
    return text;
}

void point() {
    if (current != nullptr) {
        current->point();
    }
}

void block_on(const void* object, const char* what) {
    current->block_on(object, what, false);
}

bool block_on_for_a_time(const void* object, const char* what) {
    return current->block_on(object, what, true);
}

void wake_all(const void* object) {
    if (current != nullptr) {
        current->wake_all(object);
    }
}

void wake_one(const void* object) {
    if (current != nullptr) {
        current->wake_one(object);
    }
}

void destroy(const void* object) {
    if (current != nullptr) {
        current->destroy(object);
    }
}

int start(std::function<void()> work) {
    return current->start(std::move(work));
}

void join(int thread) {
    current->join(thread);
}

int this_thread() {
    return current == nullptr ? -1 : current->self();
}

long order_number() {
    return orders_begun;
}

long points() {
    return current == nullptr ? 0 : current->points();
}
}  // namespace pipescope::explored
