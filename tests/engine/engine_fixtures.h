#pragma once

#include "engine/gpipe.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pipescope::testing_support {
class FunctionLayer final : public Layer {
public:
    using Function = std::function<Tensors(const Tensors&)>;
    explicit FunctionLayer(Function function, NamedTensors parameters = {})
        : function_(std::move(function)), parameters_(std::move(parameters)) {}

    Tensors forward(const Tensors& inputs) override { return function_(inputs); }
    NamedTensors parameters() const override { return parameters_; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    Function function_;
    NamedTensors parameters_;
};

inline LayerSpec function_layer(std::string name, FunctionLayer::Function function) {
    return {std::move(name), [function] { return std::make_unique<FunctionLayer>(function); }};
}

LayerSpec linear(std::int64_t in, std::int64_t out);
LayerSpec dropout(double p);
LayerSpec tanh_layer();

/// Linear 6-8, tanh, dropout, Linear 8-8, dropout, Linear 8-4; all in double. Six layers.
std::vector<LayerSpec> dropout_mlp();
/// Pairs of tensors between layers: (x, skip), with the skip added at the end. Five layers, input of 6 features, output
/// of 4.
std::vector<LayerSpec> tuple_model();

inline constexpr std::array kBothDrivers = {Driver::scheduled, Driver::autograd};
/// One lane per partition, all on the host.
GPipeOptions on_host(std::vector<std::int64_t> balance, std::int64_t chunks, Checkpoint mode,
                     Driver driver = Driver::scheduled);
/// A loss that has no target.
at::Tensor sum_of(const at::Tensor& output, const at::Tensor&);

/// Threads that must be in the same place at the same time. For single use.
class Rendezvous {
public:
    explicit Rendezvous(int count) : count_(count) {}
    /// Waits for the others. Returns false after a timeout that only a hang can reach.
    bool meet();
    /// Number of times that all threads met.
    int met();

private:
    const int count_;
    std::mutex mutex_;
    std::condition_variable arrived_;
    int here_ = 0;  // guarded by mutex_
};

/// Counts tensors held by graphs: its layers compute x * c with a new tensor c, which autograd saves.
class LiveTensors {
public:
    LayerSpec layer(std::string name);
    int count() const { return counts_->now; }
    int most() const { return counts_->most; }

private:
    struct Counts {
        std::atomic<int> now = 0;
        std::atomic<int> most = 0;
    };
    std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

/// Normally distributed doubles, batch x width.
at::Tensor samples(std::int64_t batch, std::int64_t width = 6);
/// The layers halved over two CPU lanes.
GPipe two_lanes(const std::vector<LayerSpec>& layers, std::int64_t chunks, Checkpoint checkpoint);
/// "cpu" n times
std::vector<std::string> cpus(std::size_t n);
at::Tensor mean_square(const at::Tensor& output, const at::Tensor& target);
/// ‖a − b‖ ≤ 1e-10 ‖b‖ over all tensors; both undefined counts as equal, one undefined as all zeros.
void expect_equal_norm_wise(const NamedTensors& actual, const NamedTensors& expected);
NamedTensors gradients_of(const NamedTensors& parameters);
}  // namespace pipescope::testing_support
