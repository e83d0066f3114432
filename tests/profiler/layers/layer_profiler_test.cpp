#include "profiler/layers/layer_profiler.h"

#include "base/error.h"
#include "models/zoo.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

class LayerProfilerTest : public testing::Test {
protected:
    static void SetUpTestSuite() { tracking_allocator::install(); }

    static ProfileOptions quick() {
        ProfileOptions options;
        options.samples = {1, 2};
        options.time_limit_s = 0.5;
        return options;
    }
};

TEST_F(LayerProfilerTest, FillsEveryFieldForEverySize) {
    const ModelSpec model = make_model("mlp:layers=3,width=64");
    const Profile profile = profile_model(model, quick());
    EXPECT_EQ(profile.model, "mlp:layers=3,width=64");
    EXPECT_EQ(profile.samples, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(profile.input_bytes, (PerSize{256, 512}));
    EXPECT_GT(profile.loss_ns.at(1), 0);
    EXPECT_GT(profile.optimizer_ns, 0);
    EXPECT_FALSE(profile.estimated);
    ASSERT_EQ(profile.layers.size(), 3U);
    for (const LayerProfile& layer : profile.layers) {
        EXPECT_EQ(layer.parameter_bytes, (64 * 64 + 64) * 4);
        EXPECT_EQ(layer.gradient_bytes, layer.parameter_bytes);
        EXPECT_EQ(layer.output_bytes, (PerSize{256, 512}));
        for (const PerSize* times : {&layer.forward_ns, &layer.recompute_ns, &layer.backward_ns}) {
            ASSERT_EQ(times->size(), 2U);
            EXPECT_GT(times->at(0), 0);
        }
        EXPECT_EQ(layer.graph_forward_ns, layer.recompute_ns);  // both keep a graph
    }
    EXPECT_EQ(profile.layers[2].name, "output");
}

// At least the true time, except for the cost of clock readings, and of the same order on a busy machine.
void expect_time(double found, double truth) {
    EXPECT_GE(found, 0.95 * truth);
    EXPECT_LT(found, 1000 * truth);
}

// An emulated model takes the times in its profile, so profiling it must reproduce that profile.
TEST_F(LayerProfilerTest, FindsTheCostsOfAnEmulatedModel) {
    Profile truth;
    truth.samples = {1, 2};
    truth.input_bytes = {64, 128};
    truth.loss_ns = {1e6, 1e6};
    for (int index = 0; index < 3; ++index) {
        LayerProfile layer;
        layer.name = "layer " + std::to_string(index);
        layer.parameter_bytes = 4000;
        layer.gradient_bytes = 4000;
        layer.forward_ns = {2e6 * (index + 1), 3e6 * (index + 1)};
        layer.recompute_ns = {20e6, 30e6};  // far from the forward's
        layer.backward_ns = {4e6, 6e6};
        layer.backward_weight_ns = {1e6, 1.5e6};
        layer.output_bytes = {400, 800};
        layer.saved_bytes = {1000.0 * (index + 1), 2000.0 * (index + 1)};
        layer.transient_bytes = {100'000, 200'000};
        layer.keeps_input = index != 1;
        truth.layers.push_back(layer);
    }
    ProfileOptions options = quick();
    options.co_running_lanes = 1;
    const Profile found = profile_model(emulated_model(truth), options);
    for (std::size_t index = 0; index < 3; ++index) {
        const LayerProfile& expected = truth.layers[index];
        const LayerProfile& layer = found.layers[index];
        for (std::size_t size = 0; size < 2; ++size) {
            expect_time(layer.forward_ns[size], expected.forward_ns[size]);
            expect_time(layer.recompute_ns[size], expected.recompute_ns[size]);
            expect_time(layer.backward_ns[size], expected.backward_ns[size]);
            ASSERT_EQ(layer.backward_weight_ns.size(), 2U);
            EXPECT_GT(layer.backward_weight_ns[size], 0.05 * layer.backward_ns[size]);
            EXPECT_LE(layer.backward_weight_ns[size], layer.backward_ns[size]);
        }
        EXPECT_EQ(layer.output_bytes, expected.output_bytes);
        EXPECT_EQ(layer.saved_bytes, expected.saved_bytes);
        EXPECT_EQ(layer.keeps_input, expected.keeps_input);
        EXPECT_EQ(layer.keeps_output, false);
        EXPECT_GE(layer.transient_bytes[0], expected.transient_bytes[0]);
        EXPECT_LT(layer.transient_bytes[0], expected.transient_bytes[0] * 1.1);
    }
}

/// Keeps its core busy for that long: a sleep would not distinguish work from waiting.
void spin_if(bool long_one) {
    const auto busy = [] {
        timespec used{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
        return used.tv_sec * 1'000'000'000L + used.tv_nsec;
    };
    constexpr long kSpinNs = 20'000'000;  // the other passes take microseconds
    const long until = busy() + kSpinNs;
    while (long_one && busy() < until) {
    }
}

enum class Pass : std::uint8_t { forward, recompute, backward };

struct SpinBackward : torch::autograd::Function<SpinBackward> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, bool long_one) {
        context->saved_data["long"] = long_one;
        return input.clone();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& gradients) {
        spin_if(context->saved_data["long"].toBool());
        return {gradients.at(0), {}};
    }
};

/// Works in only one of its passes.
class SpinningLayer : public Layer {
public:
    explicit SpinningLayer(Pass pass) : pass_(pass) {}
    Tensors forward(const Tensors& inputs) override {
        spin_if(pass_ == (at::GradMode::is_enabled() ? Pass::recompute : Pass::forward));
        return {SpinBackward::apply(inputs.at(0) * weight_, pass_ == Pass::backward)};
    }
    NamedTensors parameters() const override { return {{"weight", weight_}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    Pass pass_;
    at::Tensor weight_ = torch::ones({16}).set_requires_grad(true);
};

TEST_F(LayerProfilerTest, TellsForwardRecomputeAndBackwardApart) {
    ModelSpec model = make_model("mlp:layers=1,width=16");
    model.layers.clear();
    for (const Pass pass : {Pass::forward, Pass::recompute, Pass::backward}) {
        model.layers.push_back({"spins", [pass] { return std::make_unique<SpinningLayer>(pass); }});
    }
    ProfileOptions options = quick();
    options.samples = {1};
    options.co_running_lanes = 1;
    const Profile profile = profile_model(model, options);
    ASSERT_EQ(profile.layers.size(), 3U);
    for (std::size_t index = 0; index < 3; ++index) {
        const LayerProfile& layer = profile.layers[index];
        const std::vector<double> times{layer.forward_ns.at(0), layer.recompute_ns.at(0), layer.backward_ns.at(0)};
        EXPECT_EQ(std::max_element(times.begin(), times.end()) - times.begin(), static_cast<std::ptrdiff_t>(index))
            << times[0] << " " << times[1] << " " << times[2];
        EXPECT_GE(times[index], 20e6);
    }
}

// The loss of a whole mini-batch differs from the sum over micro-batches.
TEST_F(LayerProfilerTest, MeasuresTheLossAtTheSizeOfMiniBatches) {
    Profile truth;
    truth.samples = {1, 2};
    truth.input_bytes = {64, 128};
    truth.loss_ns = {1e6, 1e6};
    truth.loss_batch = {{16, 64}, {2e6, 20e6}, {}};
    LayerProfile layer;
    layer.forward_ns = layer.backward_ns = {1e5, 1e5};
    layer.output_bytes = {400, 800};
    truth.layers = {layer, layer};
    ProfileOptions options = quick();
    options.co_running_lanes = 1;
    const Profile found = profile_model(emulated_model(truth), options);
    ASSERT_EQ(found.loss_batch.samples, (std::vector<std::int64_t>{16, 64}));
    EXPECT_EQ(found.loss_batch.transient_bytes.size(), 2U);
    expect_time(found.loss_batch.ns[0], 2e6);
    expect_time(found.loss_batch.ns[1], 20e6);
    options.batches = {5};
    EXPECT_EQ(profile_model(emulated_model(truth), options).loss_batch.samples, (std::vector<std::int64_t>{5}));
    options.batches = {5, 5};
    EXPECT_THROW(profile_model(emulated_model(truth), options), UsageError);
}

// Takes fifty times as long while another layer of its kind runs, so that a single one looks faster even on a busy
// machine.
class CrowdedLayer : public Layer {
public:
    Tensors forward(const Tensors& inputs) override {
        ++running_;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        if (running_ > 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        --running_;
        return {inputs.at(0) * weight_};
    }
    NamedTensors parameters() const override { return {{"weight", weight_}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

    static bool any_runs() { return running_ > 0; }

private:
    inline static std::atomic<int> running_ = 0;
    at::Tensor weight_ = torch::ones({16}).set_requires_grad(true);
};

TEST_F(LayerProfilerTest, MeasuresHowMuchBusyLanesSlowEachOtherDown) {
    if (std::thread::hardware_concurrency() < 2) {
        GTEST_SKIP() << "lanes are not busy at once on one core";
    }
    ModelSpec model = make_model("mlp:layers=1,width=16");
    model.layers = {{"crowded", [] { return std::make_unique<CrowdedLayer>(); }}};
    ProfileOptions alone = quick();
    alone.co_running_lanes = 1;
    const Profile of_one = profile_model(model, alone);
    EXPECT_TRUE(of_one.co_running_slowdown.empty());
    for (const bool one_at_a_time : {false, true}) {
        ProfileOptions options = quick();
        options.one_layer_at_a_time = one_at_a_time;
        options.time_limit_s = 60;  // the fewest rounds there are, which must not end before a lane was measured alone
        options.target_cv = 1e9;
        const Profile profile = profile_model(model, options);
        ASSERT_EQ(profile.co_running_lanes, 2);
        ASSERT_EQ(profile.co_running_slowdown.size(), 2U);
        EXPECT_EQ(profile.co_running_slowdown[0], 1);
        EXPECT_GT(profile.co_running_slowdown[1], 1.2);
        // An update is measured alone, and given as with all lanes busy. The slowdown is about 50.
        EXPECT_GT(profile.optimizer_ns, of_one.optimizer_ns * profile.co_running_slowdown[1] / 5);
    }
}

// As in a step that computes one loss, once all forwards have ended.
TEST_F(LayerProfilerTest, MeasuresTheLossOfAMiniBatchWhileNoOtherLaneIsBusy) {
    ModelSpec model = make_model("mlp:layers=1,width=16");
    model.layers = {{"crowded", [] { return std::make_unique<CrowdedLayer>(); }}};
    std::atomic<int> losses = 0;
    std::atomic<int> beside = 0;
    model.loss = [&, loss = model.loss](const Tensors& output, const Tensors& target) {
        if (output.at(0).size(0) == 16) {
            ++losses;
            for (int look = 0; look < 10; ++look) {
                beside += CrowdedLayer::any_runs() ? 1 : 0;
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            }
        }
        return loss(output, target);
    };
    ProfileOptions options = quick();
    options.co_running_lanes = 2;
    options.batches = {16};
    const Profile profile = profile_model(model, options);
    EXPECT_GT(losses, 0);
    EXPECT_EQ(beside, 0);
    EXPECT_GE(profile.loss_batch.ns.at(0), 10e6);
}

TEST_F(LayerProfilerTest, ProfilesAModelWithSkipsAndOneWithTokens) {
    for (const char* name :
         {"unet:B=1,C=4,size=64", "transformer:layers=2,width=16,heads=2,sequence=8,vocabulary=20"}) {
        const ModelSpec model = make_model(name);
        const Profile profile = profile_model(model, quick());
        EXPECT_EQ(profile.layers.size(), model.layers.size());
        double forward = 0;
        for (const LayerProfile& layer : profile.layers) {
            forward += layer.forward_ns[0];
        }
        EXPECT_GT(forward, 0);
    }
}

// A layer that counts its living instances.
class CountedLayer : public Layer {
public:
    CountedLayer(int& alive, int& most) : alive_(alive) { most = std::max(most, ++alive_); }
    ~CountedLayer() override { --alive_; }
    CountedLayer(const CountedLayer&) = delete;
    CountedLayer& operator=(const CountedLayer&) = delete;

    Tensors forward(const Tensors& inputs) override { return {torch::relu(inputs.at(0).matmul(weight_))}; }
    NamedTensors parameters() const override { return {{"weight", weight_}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    int& alive_;
    at::Tensor weight_ = torch::eye(16).set_requires_grad(true);
};

ModelSpec counted_model(std::size_t layers, int& alive, int& most) {
    ModelSpec model = make_model("mlp:layers=1,width=16");
    const LayerSpec layer{"counted", [&] { return std::make_unique<CountedLayer>(alive, most); }};
    model.layers.assign(layers, layer);
    return model;
}

class NotingLayer : public Layer {
public:
    NotingLayer(std::string& calls, char name) : calls_(calls), name_(name) {}
    Tensors forward(const Tensors& inputs) override {
        calls_ += {name_, at::GradMode::is_enabled() ? 'r' : 'f'};
        return {inputs.at(0) * weight_};
    }
    NamedTensors parameters() const override { return {{"weight", weight_}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    std::string& calls_;
    char name_;
    at::Tensor weight_ = torch::ones(16).set_requires_grad(true);
};

TEST_F(LayerProfilerTest, RunsTheLayersOfAPartitionByThemselvesIfItsEndsAreKnown) {
    std::string calls;
    ModelSpec model = make_model("mlp:layers=1,width=16");
    model.layers = {{"a", [&] { return std::make_unique<NotingLayer>(calls, 'a'); }},
                    {"b", [&] { return std::make_unique<NotingLayer>(calls, 'b'); }}};
    ProfileOptions options = quick();
    options.co_running_lanes = 1;
    profile_model(model, options);
    EXPECT_THAT(calls, AllOf(HasSubstr("afbfarbr"), testing::Not(HasSubstr("afarbfbr"))));
    calls.clear();
    options.partition_ends = {1, 2};
    profile_model(model, options);
    EXPECT_THAT(calls, AllOf(HasSubstr("afarbfbr"), testing::Not(HasSubstr("afbfarbr"))));
}

TEST_F(LayerProfilerTest, HoldsOneLayerAtATimeIfAskedTo) {
    int alive = 0;
    int most = 0;
    const ModelSpec model = counted_model(5, alive, most);
    ProfileOptions options = quick();
    options.co_running_lanes = 1;
    const Profile whole = profile_model(model, options);
    EXPECT_EQ(most, 5);
    most = 0;
    options.one_layer_at_a_time = true;
    const Profile profile = profile_model(model, options);
    EXPECT_EQ(most, 1);
    EXPECT_EQ(alive, 0);
    ASSERT_EQ(profile.layers.size(), 5U);
    EXPECT_GT(profile.loss_ns.at(0), 0);
    EXPECT_GT(profile.optimizer_ns, 0);
    for (std::size_t layer = 0; layer < 5; ++layer) {
        EXPECT_GT(profile.layers[layer].backward_ns.at(1), 0);
        EXPECT_EQ(profile.layers[layer].output_bytes, whole.layers[layer].output_bytes);
        EXPECT_EQ(profile.layers[layer].saved_bytes, whole.layers[layer].saved_bytes);
        EXPECT_EQ(profile.layers[layer].flops, whole.layers[layer].flops);
    }
}

TEST_F(LayerProfilerTest, GoesLayerByLayerWhereTheModelDoesNotFitAndSaysSo) {
    int alive = 0;
    int most = 0;
    const ModelSpec model = counted_model(5, alive, most);
    ProfileOptions options = quick();
    options.co_running_lanes = 1;
    std::vector<std::string> said;
    options.announce = [&](const std::string& sentence) { said.push_back(sentence); };
    options.memory_limit = 2 * 5 * 16 * 16 * 4;  // parameters and gradients: it fits
    profile_model(model, options);
    EXPECT_EQ(most, 5);
    EXPECT_TRUE(said.empty());
    most = 0;
    --options.memory_limit;
    EXPECT_EQ(profile_model(model, options).layers.size(), 5U);
    EXPECT_EQ(most, 1);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_THAT(said[0], HasSubstr("one layer at a time"));
}

// Records the size of each micro-batch.
class LoggingLayer : public Layer {
public:
    explicit LoggingLayer(std::vector<std::int64_t>& sizes) : sizes_(sizes) {}

    Tensors forward(const Tensors& inputs) override {
        sizes_.push_back(inputs.at(0).size(0));
        return {inputs[0] * weight_};
    }
    NamedTensors parameters() const override { return {{"weight", weight_}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    std::vector<std::int64_t>& sizes_;
    at::Tensor weight_ = torch::ones({16}, torch::requires_grad());
};

/// Maximum number of times that sizes 1 and 2 alternate without another size in between.
int turns(const std::vector<std::int64_t>& sizes) {
    int most = 0;
    int here = 0;
    std::int64_t before = 0;
    for (const std::int64_t size : sizes) {
        if (size > 2) {
            here = 0;
        } else if (size != before) {
            most = std::max(most, ++here);
        }
        before = size;
    }
    return most;
}

TEST_F(LayerProfilerTest, RepeatsTakeTurnsOverTheSizesUntilTheEstimateIsGoodEnough) {
    std::vector<std::int64_t> sizes;
    ModelSpec model = make_model("mlp:layers=1,width=16");
    model.layers = {{"logging", [&sizes] { return std::make_unique<LoggingLayer>(sizes); }}};
    ProfileOptions options = quick();
    options.co_running_lanes = 1;
    options.time_limit_s = 60;
    options.target_cv = 1e9;  // good enough at once, which still takes the fewest rounds there are
    profile_model(model, options);
    const int fewest = turns(sizes);
    EXPECT_GE(fewest, 2 * (1 + 20)) << "bytes once, then twenty rounds";
    EXPECT_LT(fewest, 2 * (40 + 101)) << "then at most a hundred rounds of split backwards, after one to warm up";
    options.time_limit_s = 1e-9;  // no more than one round, which all need
    // Split backwards take a part of the time so far, which a busy machine stretches: the shortest of a few runs
    // counts.
    int shortest = std::numeric_limits<int>::max();
    for (int run = 0; run < 5; ++run) {
        sizes.clear();
        profile_model(model, options);
        shortest = std::min(shortest, turns(sizes));
    }
    EXPECT_GE(shortest, 2 * (1 + 1));
    EXPECT_LT(shortest, fewest);
}

/// Alternates between 1 and 6 ms, so that no two rounds are equal.
class UnsteadyLayer : public Layer {
public:
    Tensors forward(const Tensors& inputs) override {
        std::this_thread::sleep_for(std::chrono::milliseconds{++calls_ % 2 == 0 ? 1 : 6});
        return inputs;
    }
    NamedTensors parameters() const override { return {}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    int calls_ = 0;
};

TEST_F(LayerProfilerTest, TellsHowMuchItsTimesVary) {
    ModelSpec model = make_model("mlp:layers=2,width=16");
    model.layers.insert(model.layers.begin() + 1, {"unsteady", [] { return std::make_unique<UnsteadyLayer>(); }});
    ProfileOptions options = quick();
    options.time_limit_s = 60;
    options.target_cv = 1e9;  // the fewest rounds
    const Profile profile = profile_model(model, options);
    const double most = std::sqrt(20.0);  // of twenty values, where all but one are zero
    for (const LayerProfile& layer : profile.layers) {
        EXPECT_GE(layer.forward_cv, 0) << layer.name;
        EXPECT_LT(layer.forward_cv, most) << layer.name;
        EXPECT_GE(layer.backward_cv, 0) << layer.name;
        EXPECT_LT(layer.backward_cv, most) << layer.name;
    }
    EXPECT_GT(profile.layers[1].forward_cv, 0);
    EXPECT_GE(profile.step_cv, 0);
    EXPECT_LT(profile.step_cv, most);
}

// Stashes its input past the following layers.
class StashingLayer : public Layer {
public:
    SkipNames skips() const override { return {{{"", "far"}}, {}}; }
    Tensors forward(const Tensors& inputs) override { return inputs; }
    Tensors forward_with_skips(const Tensors& inputs, SkipContext& skips) override {
        const at::Tensor stashed = inputs.at(0) * 2;
        skips.stash("far", stashed);
        return {inputs.at(0) + 1};
    }
    NamedTensors parameters() const override { return {}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}
};

class PoppingLayer : public StashingLayer {
public:
    SkipNames skips() const override { return {{}, {{"", "far"}}}; }
    Tensors forward_with_skips(const Tensors& inputs, SkipContext& skips) override {
        return {inputs.at(0) * skips.pop("far")};
    }
};

ModelSpec model_with_a_skip() {
    ModelSpec model = make_model("mlp:layers=3,width=16");
    model.layers.insert(model.layers.begin() + 1, {"stash", [] { return std::make_unique<StashingLayer>(); }});
    model.layers.push_back({"pop", [] { return std::make_unique<PoppingLayer>(); }});
    return model;
}

TEST_F(LayerProfilerTest, MeasuresSkipsWhereTheyStartAndEnd) {
    for (const bool one_at_a_time : {false, true}) {
        ProfileOptions options = quick();
        options.one_layer_at_a_time = one_at_a_time;
        const Profile profile = profile_model(model_with_a_skip(), options);
        EXPECT_EQ(profile.layers[1].stash, (std::map<std::string, PerSize>{{"far", {64, 128}}}));
        EXPECT_EQ(profile.layers[1].output_bytes, (PerSize{64, 128}));
        EXPECT_EQ(profile.layers[1].saved_bytes, (PerSize{0, 0}));  // the skip is none of it
        EXPECT_EQ(profile.layers[4].pop, (std::vector<std::string>{"far"}));
        EXPECT_GT(profile.layers[4].backward_ns[0], 0);
        EXPECT_NO_THROW(check_profile(profile));
    }
}

TEST_F(LayerProfilerTest, RecordsTapesForEachSizeIfAskedTo) {
    ProfileOptions options = quick();
    options.tapes = false;
    EXPECT_TRUE(profile_model(make_model("mlp:layers=2,width=16"), options).layers[0].tape.empty());
    options.tapes = true;
    const Profile profile = profile_model(model_with_a_skip(), options);
    EXPECT_NO_THROW(check_profile(profile));
    for (const LayerProfile& layer : profile.layers) {
        ASSERT_EQ(layer.tape.size(), 2U) << layer.name;
        EXPECT_FALSE(layer.tape[1].empty()) << layer.name;
    }
}

// A task costs the engine some microseconds. The bound of a second detects only wrong units, however busy the machine
// is.
TEST_F(LayerProfilerTest, MeasuresWhatATaskCostsTheEngine) {
    const Profile profile = profile_model(make_model("mlp:layers=2,width=16"), quick());
    EXPECT_GT(profile.launch_ns, 100);
    EXPECT_LT(profile.launch_ns, 1e9);
}

TEST_F(LayerProfilerTest, ReportsProgressAndRestoresTorchsThreads) {
    const int threads = at::get_num_threads();
    std::vector<double> seen;
    ProfileOptions options = quick();
    options.progress = [&](double done) { seen.push_back(done); };
    profile_model(make_model("mlp:layers=2,width=16"), options);
    ASSERT_FALSE(seen.empty());
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(seen.back(), 1);
    EXPECT_EQ(at::get_num_threads(), threads);
}

TEST_F(LayerProfilerTest, PassesALayersOwnExceptionOn) {
    ModelSpec model = make_model("mlp:layers=2,width=16");
    model.layers[1] = make_model("mlp:layers=1,width=8").layers[0];  // does not fit
    EXPECT_THROW(profile_model(model, quick()), c10::Error);
}

TEST_F(LayerProfilerTest, RefusesOptionsThatMakeNoSense) {
    const ModelSpec model = make_model("mlp:layers=2,width=16");
    const auto with = [](auto change) {
        ProfileOptions options = quick();
        change(options);
        return options;
    };
    EXPECT_THAT(thrown<UsageError>([&] { profile_model(model, with([](ProfileOptions& o) {
                                                           o.samples = {2, 2};
                                                       })); }),
                AllOf(HasSubstr("'2,2'"), HasSubstr("ascending"), HasSubstr("1,2,4")));
    EXPECT_THROW(profile_model(model, with([](ProfileOptions& o) { o.samples = {}; })), UsageError);
    EXPECT_THROW(profile_model(model, with([](ProfileOptions& o) { o.samples = {0, 1}; })), UsageError);
    EXPECT_THROW(profile_model(model, with([](ProfileOptions& o) { o.co_running_lanes = 0; })), UsageError);
    EXPECT_THROW(profile_model(model, with([](ProfileOptions& o) { o.time_limit_s = -1; })), UsageError);
    EXPECT_THROW(profile_model(ModelSpec{}, quick()), UsageError);
}
}  // namespace
}  // namespace pipescope
