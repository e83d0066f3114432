// Tasks as ranges of torch's profiler.

#include "engine/lanes/profiler_range.h"

#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace pipescope {
namespace {
using namespace testing_support;

/// The names of user ranges that this thread's callbacks saw, and the threads in which.
class SeenRanges {
public:
    SeenRanges() {
        of_all() = {};
        handle_ = at::addThreadLocalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& range) -> std::unique_ptr<at::ObserverContext> {
                const std::lock_guard lock(mutex());
                of_all()[range.name()].insert(std::this_thread::get_id());
                return nullptr;
            }).scopes({at::RecordScope::USER_SCOPE}));
    }
    ~SeenRanges() { at::removeCallback(handle_); }
    SeenRanges(const SeenRanges&) = delete;
    SeenRanges& operator=(const SeenRanges&) = delete;

    std::set<std::string> names() const {
        std::set<std::string> all;
        for (const auto& [name, threads] : of_all()) {
            all.insert(name);
        }
        return all;
    }
    static std::set<std::thread::id> threads_of(const std::string& name) { return of_all()[name]; }

private:
    using Ranges = std::map<std::string, std::set<std::thread::id>>;
    static Ranges& of_all() {
        static Ranges ranges;
        return ranges;
    }
    static std::mutex& mutex() {
        static std::mutex one;
        return one;
    }
    at::CallbackHandle handle_;
};

std::set<std::string> names_of_a_step(Schedule schedule, Checkpoint mode, std::int64_t chunks) {
    GPipeOptions options = on_host({3, 3}, chunks, mode);
    options.schedule = schedule;
    GPipe model(dropout_mlp(), options);
    const SeenRanges seen;
    model.step(samples(4), samples(4, 4), mean_square);
    return seen.names();
}

TEST(ProfilerRange, NamesEachTaskAsTheTaskRulesReadIt) {
    using RangeNames = std::set<std::string>;
    EXPECT_EQ(names_of_a_step(Schedule::gpipe, Checkpoint::except_last, 2),
              (RangeNames{"PP:0F0", "PP:0F1", "PP:1F0", "PP:1F1", "PP:1L", "PP:0R0", "PP:1R0", "PP:0B0", "PP:0B1",
                          "PP:1B0", "PP:1B1"}));
    EXPECT_EQ(names_of_a_step(Schedule::one_f_one_b, Checkpoint::never, 1),
              (RangeNames{"PP:0F0", "PP:1F0", "PP:1L0", "PP:1B0", "PP:0B0"}));
    const RangeNames split = names_of_a_step(Schedule::zero_bubble_h1, Checkpoint::never, 2);
    EXPECT_TRUE(split.contains("PP:1I0") && split.contains("PP:1W0")) << ::testing::PrintToString(split);
    EXPECT_EQ(profiler_name({3, TaskKind::copy_forward, 1, 2, -1}, false), "PP:1SEND_F2");
    EXPECT_EQ(profiler_name({3, TaskKind::copy_backward, 1, 2, -1}, false), "PP:2SEND_B2");
    EXPECT_EQ(profiler_name({3, TaskKind::skip_forward, 1, 2, 0}, false), "");
}

TEST(ProfilerRange, IsInTheThreadOfItsLane) {
    for (const Driver driver : kBothDrivers) {
        GPipe model(dropout_mlp(), on_host({3, 3}, 2, Checkpoint::always, driver));
        const SeenRanges seen;
        model.forward(samples(4)).sum().backward();
        for (const char* each : {"PP:0F0", "PP:1F1", "PP:0R1", "PP:1B0"}) {
            EXPECT_EQ(SeenRanges::threads_of(each).size(), 1U) << each;
        }
        EXPECT_NE(SeenRanges::threads_of("PP:0F0"), SeenRanges::threads_of("PP:1F0"));
        EXPECT_FALSE(SeenRanges::threads_of("PP:0F0").contains(std::this_thread::get_id()));
    }
}
}  // namespace
}  // namespace pipescope
