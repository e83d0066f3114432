// Models that the memory model was not tuned for: layers of all types in random order, with tensors that share
// storages, pass through in tuples, are changed in place, or skip other layers.

#include "benchmarks/memory_accuracy/random_models.h"

#include "engine/skippable.h"

#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

namespace pipescope {
namespace {
namespace nn = torch::nn;

/// Shape of one sample: channels, height, width; or positions, features; or features.
using Shape = std::vector<std::int64_t>;
using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// A created layer.
struct Made {
    std::shared_ptr<nn::Module> module;  // may be null
    SkipForward forward;
};

class ModelDraw {
public:
    ModelDraw(std::string kind, std::uint64_t seed) : kind_(std::move(kind)), random_(seed * 1000003 + kind_.size()) {}

    RandomModel draw() {
        begin();
        const int layers = between(4, 11);
        for (int k = 0; k < layers; ++k) {
            add_layer();
        }
        end();
        spec_.name = kind_;
        return {std::move(spec_), kind_, std::move(in_place_)};
    }

private:
    int between(int low, int high) {
        return low + static_cast<int>(random_() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool chance(int percent) { return between(1, 100) <= percent; }
    std::int64_t any_of(const std::vector<std::int64_t>& values) {
        return values[static_cast<std::size_t>(between(0, static_cast<int>(values.size()) - 1))];
    }

    void add(const std::string& name, std::function<Made()> make, SkipNames names = {}) {
        spec_.layers.push_back({name, [make = std::move(make), names = std::move(names)] {
                                    Made made = make();
                                    return skippable_layer(made.module, names, made.forward);
                                }});
        may_change_in_place_ = false;
    }
    /// Applies a layer to the first tensor and passes the others through.
    static SkipForward on_first(Forward forward) {
        return [forward = std::move(forward)](const Tensors& in, SkipContext&) {
            Tensors out = in;
            out[0] = forward(in[0]);
            return out;
        };
    }
    void add_function(const std::string& name, Forward forward) {
        add(name, [forward] { return Made{nullptr, on_first(forward)}; });
    }
    template <class Module, class Options>
    void add_module(const std::string& name, const Options& options) {
        add(name, [options] {
            Module module(options);
            return Made{module.ptr(), on_first([module](const at::Tensor& x) mutable { return module(x); })};
        });
    }

    void begin() {
        if (kind_ == "image" || has_skips()) {
            shape_ = {between(1, 4), 8 * between(1, 3), 8 * between(1, 3)};
        } else if (kind_ == "sequence" || kind_ == "recurrent") {
            begin_sequence();
        } else {
            shape_ = {kind_ == "wide" ? any_of({512, 768, 1024}) : any_of({6, 16, 33})};
        }
        if (input_) {
            return;
        }
        Shape shape = shape_;
        input_ = [shape](std::int64_t batch) {
            Shape whole{batch};
            whole.insert(whole.end(), shape.begin(), shape.end());
            return torch::randn(whole);
        };
    }
    void begin_sequence() {
        const std::int64_t length = any_of({5, 16, 32});
        const std::int64_t width = any_of({16, 32, 64});
        if (chance(70)) {
            const std::int64_t vocabulary = any_of({11, 50, 200});
            input_ = [=](std::int64_t batch) { return torch::randint(vocabulary, {batch, length}); };
            add_module<nn::Embedding>("embedding", nn::EmbeddingOptions(vocabulary, width));
            shape_ = {length, width};
            if (chance(60)) {
                add_positions();
            }
        } else {
            shape_ = {length, width};
            input_ = [=](std::int64_t batch) { return torch::randn({batch, length, width}); };
        }
    }
    void add_positions() {
        const Shape shape = shape_;
        add("positions", [shape] {
            const auto module = std::make_shared<nn::Module>();
            const at::Tensor table = module->register_parameter("table", torch::randn(shape));
            return Made{module, on_first([table](const at::Tensor& x) { return x + table; })};
        });
    }

    void add_layer() {
        if (!stashed_.empty() && chance(35)) {
            add_pop();
        } else if (has_skips() && stashed_.empty() && chance(50)) {
            add_stash();
        } else if (extra_ > 0 && chance(30)) {
            add_join();
        } else if (extra_ == 0 && stashed_.empty() && kind_ == "tuple" && chance(50)) {
            add_split();
        } else if (chance(12)) {
            add_plain();
        } else if (shape_.size() == 3) {
            add_image_layer();
        } else if (shape_.size() == 2) {
            add_sequence_layer();
        } else {
            add_vector_layer();
        }
    }

    /// Adds a layer without parameters, for any shape.
    void add_plain() {
        switch (between(0, 6)) {
            case 0: add_function("identity", [](const at::Tensor& x) { return x; }); break;
            case 1: add_function("view", [](const at::Tensor& x) { return x.view(x.sizes()); }); break;
            case 2: add_module<nn::Dropout>("dropout", nn::DropoutOptions(0.3)); break;
            case 3: add_function("tanh", [](const at::Tensor& x) { return torch::tanh(x); }); break;
            case 4: add_function("sigmoid", [](const at::Tensor& x) { return torch::sigmoid(x); }); break;
            case 5: add_function("scale", [](const at::Tensor& x) { return x * 0.5; }); break;
            default: add_function("square", [](const at::Tensor& x) { return x * x; }); break;
        }
    }
    void add_activation() {
        if (may_change_in_place_ && chance(50)) {
            in_place_.push_back(spec_.layers.size());
            add_function("relu_", [](at::Tensor x) { return torch::relu_(x); });
            return;
        }
        switch (between(0, 3)) {
            case 0: add_function("relu", [](const at::Tensor& x) { return torch::relu(x); }); break;
            case 1: add_function("gelu", [](const at::Tensor& x) { return torch::gelu(x); }); break;
            case 2: add_function("silu", [](const at::Tensor& x) { return torch::silu(x); }); break;
            default: add_function("leaky", [](const at::Tensor& x) { return torch::leaky_relu(x, 0.1); }); break;
        }
    }

    void add_image_layer() {
        const std::int64_t c = shape_[0];
        const bool is_large = shape_[1] >= 8 && shape_[2] >= 8 && shape_[1] % 2 == 0 && shape_[2] % 2 == 0;
        switch (stashed_.empty() ? between(0, 11) : between(4, 11)) {
            case 0:
                if (is_large) {
                    add_module<nn::MaxPool2d>("max_pool", nn::MaxPool2dOptions(2));
                    shape_ = {c, shape_[1] / 2, shape_[2] / 2};
                    return;
                }
                [[fallthrough]];
            case 1:
                if (is_large) {
                    const std::int64_t to = any_of({4, 8, 16});
                    add_module<nn::Conv2d>("strided_conv", nn::Conv2dOptions(c, to, 3).padding(1).stride(2));
                    shape_ = {to, shape_[1] / 2, shape_[2] / 2};
                    may_change_in_place_ = true;
                    return;
                }
                [[fallthrough]];
            case 2:
            case 3: {
                const std::int64_t to = any_of({4, 8, 12, 16});
                const std::int64_t kernel = any_of({1, 3, 5});
                add_module<nn::Conv2d>("conv", nn::Conv2dOptions(c, to, kernel).padding(kernel / 2).bias(chance(70)));
                shape_[0] = to;
                may_change_in_place_ = true;
                return;
            }
            case 4: add_module<nn::Conv2d>("conv_same", nn::Conv2dOptions(c, c, 3).padding(1)); break;
            case 5: add_module<nn::BatchNorm2d>("batch_norm", nn::BatchNormOptions(c)); break;
            case 6: add_module<nn::GroupNorm>("group_norm", nn::GroupNormOptions(1, c)); break;
            case 7: add_module<nn::Conv2d>("depthwise", nn::Conv2dOptions(c, c, 3).padding(1).groups(c)); break;
            case 8: add_residual(c); return;
            case 9: add_module<nn::Dropout2d>("dropout2d", nn::Dropout2dOptions(0.2)); return;
            default: add_activation(); return;
        }
        may_change_in_place_ = true;
    }
    void add_residual(std::int64_t c) {
        add("residual", [c] {
            nn::Sequential body(nn::Conv2d(nn::Conv2dOptions(c, c, 3).padding(1).bias(false)), nn::BatchNorm2d(c),
                                nn::ReLU(nn::ReLUOptions(true)), nn::Conv2d(nn::Conv2dOptions(c, c, 3).padding(1)));
            return Made{body.ptr(),
                        on_first([body](const at::Tensor& x) mutable { return torch::relu(x + body->forward(x)); })};
        });
    }

    void add_sequence_layer() {
        const std::int64_t d = shape_[1];
        const int which = kind_ == "recurrent" ? between(4, 9) : between(0, 7);
        switch (which) {
            case 0:
            case 1: add_attention(d, chance(50)); break;
            case 2: add_feed_forward(d); break;
            case 3: add_linear(d); break;
            case 4: add_module<nn::LayerNorm>("layer_norm", nn::LayerNormOptions({d})); break;
            case 5: add_convolution_over_time(d); break;
            case 6: add_activation(); break;
            case 7: add_feed_forward(d); break;
            default: add_recurrent(d); break;
        }
    }
    void add_attention(std::int64_t d, bool fused) {
        add(fused ? "fused_attention" : "attention", [d, fused] {
            nn::LayerNorm norm(nn::LayerNormOptions({d}));
            nn::Linear in(d, 3 * d);
            nn::Linear out(d, d);
            const auto module = std::make_shared<nn::Module>();
            module->register_module("norm", norm.ptr());
            module->register_module("in", in.ptr());
            module->register_module("out", out.ptr());
            return Made{
                module, on_first([=](const at::Tensor& x) mutable {
                    const auto parts = in(norm(x)).view({x.size(0), x.size(1), 3, 2, -1}).permute({2, 0, 3, 1, 4});
                    const at::Tensor mixed =
                        fused ? at::scaled_dot_product_attention(parts[0], parts[1], parts[2])
                              : torch::softmax(parts[0].matmul(parts[1].transpose(-1, -2)) * 0.3, -1).matmul(parts[2]);
                    return x + out(mixed.transpose(1, 2).reshape(x.sizes()));
                })};
        });
    }
    void add_feed_forward(std::int64_t d) {
        add("feed_forward", [d] {
            nn::Sequential body(nn::LayerNorm(nn::LayerNormOptions({d})), nn::Linear(d, 4 * d), nn::GELU(),
                                nn::Linear(4 * d, d), nn::Dropout(0.1));
            return Made{body.ptr(), on_first([body](const at::Tensor& x) mutable { return x + body->forward(x); })};
        });
    }
    void add_convolution_over_time(std::int64_t d) {
        add("conv1d", [d] {
            nn::Conv1d conv(nn::Conv1dOptions(d, d, 3).padding(1));
            return Made{conv.ptr(), on_first([conv](const at::Tensor& x) mutable {
                            return conv(x.transpose(1, 2)).transpose(1, 2);
                        })};
        });
    }
    void add_recurrent(std::int64_t d) {
        if (chance(50)) {
            add("lstm", [d] {
                nn::LSTM lstm(nn::LSTMOptions(d, d).batch_first(true));
                return Made{lstm.ptr(), on_first([lstm](const at::Tensor& x) mutable { return std::get<0>(lstm(x)); })};
            });
        } else {
            add("gru", [d] {
                nn::GRU gru(nn::GRUOptions(d, d).batch_first(true));
                return Made{gru.ptr(), on_first([gru](const at::Tensor& x) mutable { return std::get<0>(gru(x)); })};
            });
        }
    }

    void add_vector_layer() {
        const std::int64_t d = shape_[0];
        switch (between(0, 8)) {
            case 0:
            case 1:
            case 2: add_linear(kind_ == "wide" ? any_of({256, 512, 1024}) : any_of({6, 16, 33, 64})); break;
            case 3: add_module<nn::LayerNorm>("layer_norm", nn::LayerNormOptions({d})); break;
            case 4: add_module<nn::BatchNorm1d>("batch_norm", nn::BatchNormOptions(d)); break;
            case 5:
                if (d % 2 == 0 && stashed_.empty()) {
                    add_function("glu", [](const at::Tensor& x) { return torch::glu(x, 1); });
                    shape_ = {d / 2};
                    return;
                }
                [[fallthrough]];
            case 6: add_function("log_softmax", [](const at::Tensor& x) { return torch::log_softmax(x, 1); }); return;
            default: add_activation(); return;
        }
        may_change_in_place_ = true;
    }
    void add_linear(std::int64_t to) {
        const std::int64_t from = shape_.back();
        add_module<nn::Linear>("linear", nn::LinearOptions(from, to).bias(chance(80)));
        shape_.back() = to;
    }

    /// Splits one tensor into two: views of one storage, or separate storages.
    void add_split() {
        const int way = between(0, 2);
        add("split", [way] {
            return Made{nullptr, [way](const Tensors& in, SkipContext&) {
                            const at::Tensor& x = in[0];
                            return way == 0   ? Tensors{x, x}
                                   : way == 1 ? Tensors{x * 2, x.view(x.sizes())}
                                              : Tensors{torch::relu(x), torch::tanh(x)};
                        }};
        });
        extra_ = 1;
        extra_shape_ = shape_;
    }
    void add_join() {
        const bool same = extra_shape_ == shape_;
        add("join", [same] {
            return Made{nullptr, [same](const Tensors& in, SkipContext&) {
                            return Tensors{same ? in[0] + in[1] : torch::cat({in[0].flatten(1), in[1].flatten(1)}, 1)};
                        }};
        });
        if (!same) {
            shape_ = {count(shape_) + count(extra_shape_)};
        }
        extra_ = 0;
    }
    static std::int64_t count(const Shape& shape) {
        std::int64_t product = 1;
        for (const std::int64_t each : shape) {
            product *= each;
        }
        return product;
    }

    void add_stash() {
        const std::string name = "skip" + std::to_string(num_skips_++);
        const int way = between(0, 2);
        add("stash",
            [name, way] {
                return Made{nullptr, [name, way](const Tensors& in, SkipContext& skips) {
                                skips.stash(name, way == 0 ? in[0] : way == 1 ? in[0] * 2 : in[0].view(in[0].sizes()));
                                return way == 0 ? in : Tensors{torch::tanh(in[0])};
                            }};
            },
            {.stash = {{"", name}}});
        stashed_ = name;
        pops_left_ = kind_ == "readers" ? between(2, 4) : 1;
    }
    void add_pop() {
        const std::string name = stashed_;
        if (--pops_left_ == 0) {
            stashed_.clear();
        }
        const bool joins = stashed_.empty() && shape_.size() == 3 && chance(40);
        add("pop",
            [name, joins] {
                return Made{nullptr, [name, joins](const Tensors& in, SkipContext& skips) {
                                const at::Tensor skip = skips.pop(name);
                                return Tensors{joins ? torch::cat({in[0], skip}, 1) : in[0] + skip};
                            }};
            },
            {.pop = {{"", name}}});
        shape_[0] *= joins ? 2 : 1;
    }

    void end() {
        while (!stashed_.empty()) {
            add_pop();
        }
        if (extra_ > 0 && chance(60)) {
            add_join();
        }
        if (!has_parameters()) {
            add_gain();
        }
        const int way = between(0, 4);
        if (way < 2 && shape_.size() > 1) {
            end_in_a_vector();
        }
        if (way == 0) {
            end_in_classes();
        } else {
            end_in_values(way);
        }
    }
    bool has_skips() const { return kind_ == "skip" || kind_ == "readers"; }
    bool has_parameters() const {
        return std::any_of(spec_.layers.begin(), spec_.layers.end(),
                           [](const LayerSpec& layer) { return !layer.make()->parameters().empty(); });
    }
    void add_gain() {
        add("gain", [] {
            const auto module = std::make_shared<nn::Module>();
            const at::Tensor gain = module->register_parameter("gain", torch::ones({1}));
            return Made{module, on_first([gain](const at::Tensor& x) { return x * gain; })};
        });
    }
    void end_in_a_vector() {
        if (shape_.size() == 2 && chance(60)) {
            const bool last = chance(50);
            add_function(last ? "last" : "mean",
                         [last](const at::Tensor& x) { return last ? x.select(1, x.size(1) - 1) : x.mean(1); });
            shape_ = {shape_[1]};
        } else {
            add_function("flatten", [](const at::Tensor& x) { return x.flatten(1); });
            shape_ = {count(shape_)};
        }
    }
    void end_in_classes() {
        const std::int64_t classes = any_of({4, 10, 100});
        add_linear(classes);
        spec_.make_batch = [input = input_, classes](std::int64_t batch, std::uint64_t seed) {
            torch::manual_seed(seed);
            return Batch{{input(batch)}, {torch::randint(classes, {batch})}};
        };
        spec_.loss = [](const Tensors& out, const Tensors& target) {
            at::Tensor loss = torch::cross_entropy_loss(out[0], target[0]);
            return out.size() > 1 ? loss + out[1].pow(2).mean() : loss;
        };
    }
    void end_in_values(int way) {
        const Shape shape = shape_;
        spec_.make_batch = [input = input_, shape](std::int64_t batch, std::uint64_t seed) {
            torch::manual_seed(seed);
            Shape whole{batch};
            whole.insert(whole.end(), shape.begin(), shape.end());
            return Batch{{input(batch)}, {torch::rand(whole)}};
        };
        spec_.loss = [way](const Tensors& out, const Tensors& target) {
            at::Tensor loss = way == 1   ? torch::mse_loss(out[0], target[0])
                              : way == 2 ? torch::binary_cross_entropy_with_logits(out[0], target[0])
                              : way == 3 ? torch::smooth_l1_loss(out[0], target[0])
                                         : out[0].pow(2).mean();
            return out.size() > 1 ? loss + out[1].pow(2).mean() : loss;
        };
    }

    std::string kind_;
    std::mt19937_64 random_;
    ModelSpec spec_;
    std::vector<std::size_t> in_place_;
    std::function<at::Tensor(std::int64_t)> input_;
    Shape shape_;
    bool may_change_in_place_ = false;  // nothing else holds the last layer's output
    int extra_ = 0;                     // number of tensors that pass through
    Shape extra_shape_;
    std::string stashed_;  // and not popped by all yet
    int pops_left_ = 0;
    int num_skips_ = 0;
};
}  // namespace

const std::vector<std::string>& random_model_kinds() {
    static const std::vector<std::string> kinds{"image",  "sequence", "recurrent", "wide",
                                                "narrow", "tuple",    "skip",      "readers"};
    return kinds;
}

RandomModel random_model(const std::string& kind, std::uint64_t seed) {
    return ModelDraw(kind, seed).draw();
}
}  // namespace pipescope
