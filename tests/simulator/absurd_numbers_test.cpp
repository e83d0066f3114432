// For any numbers in profile and options, a simulation gives a sensible result or refuses them with a reason.

#include "base/error.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"
#include "tests/simulator/random_pipelines.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace pipescope {
namespace {
/// Layers and pipelines of zeros, ones and the largest numbers that a profile may contain.
class AbsurdPipeline {
public:
    explicit AbsurdPipeline(unsigned seed) : random_(seed) {}

    void draw() {
        profile = {};
        profile.samples =
            one_of({0, 1, 2}) == 0 ? std::vector<std::int64_t>{1'000'000'000} : std::vector<std::int64_t>{1, 3};
        profile.input_bytes = bytes();
        profile.loss_ns = array();
        profile.launch_ns = one_of({0, 0, 0, 1e15});
        if (random_() % 4 == 0) {
            profile.co_running_slowdown = {1, one_of({1, 1.001, 2, 1e6})};
        }
        const std::size_t layers = 1 + random_() % 5;
        for (std::size_t l = 0; l < layers; ++l) {
            LayerProfile& layer = profile.layers.emplace_back();
            layer.name = "layer";
            for (PerSize* times : {&layer.forward_ns, &layer.recompute_ns, &layer.backward_ns}) {
                *times = array();
            }
            for (PerSize* sizes : {&layer.output_bytes, &layer.saved_bytes, &layer.transient_bytes}) {
                *sizes = bytes();
            }
            layer.parameter_bytes = layer.gradient_bytes = static_cast<Bytes>(bytes().front());
            layer.forward_cv = one_of({0, 0, 0, 0.1, kLargest});
            layer.aliases_input = random_() % 4 == 0;
        }
        n = 1 + static_cast<int>(random_() % layers);
        options = {};
        options.balance = random_balance(random_, layers, n);
        options.chunks = static_cast<std::int64_t>(one_of({1, 2, 5, 40}));
        options.batch = static_cast<std::int64_t>(one_of({1, 7, 40, 40, 1e6, 9e15}));
        options.checkpoint = static_cast<Checkpoint>(random_() % 3);
        const Schedule schedules[] = {Schedule::gpipe,          Schedule::gpipe,     Schedule::one_f_one_b,
                                      Schedule::zero_bubble_h1, Schedule::pipedream, Schedule::model_parallel};
        options.schedule = schedules[random_() % 6];
        options.hardware.link = {one_of({0, 1e-300, 1, 1e9, 1e300}), one_of({0, 0, 1, 1e15, 1e300})};
        for (int lane = 0; lane < n && random_() % 3 == 0; ++lane) {
            options.hardware.speeds.resize(static_cast<std::size_t>(n), one_of({1, 1, 0.5, 1e-300, 1e300}));
        }
        if (random_() % 2 == 0) {
            options.hardware.devices.assign(static_cast<std::size_t>(n), random_() % 2 == 0 ? "cpu" : "cuda:0");
        }
        if (random_() % 3 == 0) {
            options.hardware.memory_limit = static_cast<Bytes>(one_of({1, 1000, kLargest, 9.2e18}));
        }
    }

    Profile profile;
    PipelineOptions options;
    int n = 1;

private:
    static constexpr double kLargest = 9007199254740992;

    double one_of(std::initializer_list<double> values) { return *(values.begin() + random_() % values.size()); }
    double number() { return one_of({0, 0, 1, 0.5, 1000, 1e9, 1e13, 1e15, kLargest}); }
    PerSize array() {
        PerSize values;
        for (std::size_t k = 0; k < profile.samples.size(); ++k) {
            values.push_back(number());
        }
        return values;
    }
    PerSize bytes() {
        PerSize values = array();
        for (double& each : values) {
            each = std::min(each, static_cast<double>(kMostProfileBytes));
        }
        return values;
    }

    std::mt19937 random_;
};

void expect_sensible(const Simulation& simulation) {
    EXPECT_GE(simulation.step_time.count(), 0);
    EXPECT_GE(simulation.bubble_fraction, -1e-9);
    EXPECT_LE(simulation.bubble_fraction, 1 + 1e-9);
    EXPECT_TRUE(std::isfinite(simulation.speedup) && simulation.speedup >= 0);
    EXPECT_TRUE(std::isfinite(simulation.samples_per_second) && simulation.samples_per_second >= 0);
    for (const SimulatedLane& lane : simulation.lanes) {
        EXPECT_GE(lane.peak_bytes, 0);
        EXPECT_GE(lane.peak_reserved_bytes.value_or(0), 0);
    }
    if (simulation.noise) {
        EXPECT_GE(simulation.noise->low.count(), 0);
        EXPECT_LE(simulation.noise->low, simulation.noise->high);
    }
}

TEST(AbsurdNumbers, NameALinkThatIsTooSlow) {
    EXPECT_THAT(thrown<UsageError>([] { check_link({.bytes_per_second = 1e-300}); }), testing::HasSubstr("1e-300"));
}

TEST(AbsurdNumbers, GiveASensibleAnswerOrAReason) {
    AbsurdPipeline absurd(51);
    int answered = 0;
    int refused = 0;
    for (int round = 0; round < 600; ++round) {
        SCOPED_TRACE("round " + std::to_string(round));
        absurd.draw();
        try {
            expect_sensible(simulate(CheckedProfile(absurd.profile), absurd.options,
                                     {.noise = true, .memory = true, .reserved = true}));
            for (const BalanceAlgorithm algorithm : {BalanceAlgorithm::optimal, BalanceAlgorithm::minmax,
                                                     BalanceAlgorithm::variance, BalanceAlgorithm::block}) {
                const FoundBalance found =
                    find_balance(CheckedProfile(absurd.profile), absurd.options, absurd.n, algorithm);
                EXPECT_GE(found.lower_bound_ns, 0);
                EXPECT_LE(found.lower_bound_ns, found.step_ns);
            }
            ++answered;
        } catch (const Error& fault) {
            const std::string message = fault.what();
            EXPECT_GE(std::count(message.begin(), message.end(), ';'), 2) << message;
            ++refused;
        }
    }
    EXPECT_GT(answered, 100);
    EXPECT_GT(refused, 100);
}
}  // namespace
}  // namespace pipescope
