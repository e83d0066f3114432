// AmoebaNet-D (arXiv 1802.01548) as in torchgpipe's benchmarks: a stem, then three groups of normal cells with
// reduction cells between them. Each cell is one layer. It takes the outputs of the two previous cells, so layers
// exchange pairs:
//
//     image -> stem1 -> x -> stem2 -> (x, before) -> stem3 -> (x, before) -> normal1.0 -> .. -> classify -> classes
//
// A cell computes five sums of two operations each. An operation takes one of the cell's two reduced inputs (states 0
// and 1) or an earlier sum (states 2 to 6). The output concatenates some of the states.

#include "models/made_up_data.h"
#include "models/zoo_models.h"

#include <torch/torch.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

namespace pipescope {
namespace {
using torch::nn::AvgPool2d;
using torch::nn::AvgPool2dOptions;
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::MaxPool2d;
using torch::nn::MaxPool2dOptions;
using torch::nn::ReLU;
using torch::nn::Sequential;

Conv2dOptions convolution(std::int64_t input, std::int64_t output, torch::ExpandingArray<2> kernel) {
    return Conv2dOptions(input, output, kernel).bias(false);
}

void add_relu_conv_norm(Sequential& to, const Conv2dOptions& options) {
    to->push_back(ReLU());
    to->push_back(Conv2d(options));
    to->push_back(BatchNorm2d(options.out_channels()));
}

// Halves the sides with two convolutions of stride 2. One is shifted by a pixel, so that together they cover every
// other pixel of both diagonals.
struct FactorizedReduceImpl : torch::nn::Module {
    FactorizedReduceImpl(std::int64_t input, std::int64_t output)
        : even(register_module("even", Conv2d(convolution(input, output / 2, 1).stride(2)))),
          odd(register_module("odd", Conv2d(convolution(input, output - output / 2, 1).stride(2)))),
          norm(register_module("norm", BatchNorm2d(output))) {}

    at::Tensor forward(const at::Tensor& input) {
        const at::Tensor active = torch::relu(input);
        const at::Tensor shifted = at::constant_pad_nd(active.slice(2, 1).slice(3, 1), {0, 1, 0, 1});
        return norm(at::cat({even(active), odd(shifted)}, 1));
    }

    Conv2d even;
    Conv2d odd;
    BatchNorm2d norm;
};
TORCH_MODULE(FactorizedReduce);

using MakeOperation = Sequential (*)(std::int64_t channels, std::int64_t stride);

Sequential identity(std::int64_t /*channels*/, std::int64_t /*stride*/) {
    return Sequential(torch::nn::Identity());
}

Sequential average_pool_3x3(std::int64_t /*channels*/, std::int64_t stride) {
    return Sequential(AvgPool2d(AvgPool2dOptions(3).stride(stride).padding(1).count_include_pad(false)));
}

// Max pooling, as in the genotype. torchgpipe's operation of this name is mean pooling.
Sequential max_pool_3x3(std::int64_t /*channels*/, std::int64_t stride) {
    return Sequential(MaxPool2d(MaxPool2dOptions(3).stride(stride).padding(1)));
}

Sequential max_pool_2x2(std::int64_t /*channels*/, std::int64_t stride) {
    return Sequential(MaxPool2d(MaxPool2dOptions(2).stride(stride)));
}

Sequential conv_1x1(std::int64_t channels, std::int64_t stride) {
    Sequential operation;
    add_relu_conv_norm(operation, convolution(channels, channels, 1).stride(stride));
    return operation;
}

Sequential conv_3x3(std::int64_t channels, std::int64_t stride) {
    Sequential operation;
    add_relu_conv_norm(operation, convolution(channels, channels / 4, 1));
    add_relu_conv_norm(operation, convolution(channels / 4, channels / 4, 3).stride(stride).padding(1));
    add_relu_conv_norm(operation, convolution(channels / 4, channels, 1));
    return operation;
}

Sequential conv_1x7_7x1(std::int64_t channels, std::int64_t stride) {
    Sequential operation;
    add_relu_conv_norm(operation, convolution(channels, channels / 4, 1));
    add_relu_conv_norm(operation, convolution(channels / 4, channels / 4, {1, 7}).stride({1, stride}).padding({0, 3}));
    add_relu_conv_norm(operation, convolution(channels / 4, channels / 4, {7, 1}).stride({stride, 1}).padding({3, 0}));
    add_relu_conv_norm(operation, convolution(channels / 4, channels, 1));
    return operation;
}

struct Operation {
    std::size_t state;
    MakeOperation make;
};
// Each pair of operations is added; the sums are states 2 to 6.
struct Genotype {
    std::array<Operation, 10> operations;
    std::vector<std::size_t> output;
};

const Genotype& normal_cell() {
    // The output states follow the TensorFlow implementation: the parameter count then equals GPipe's Table 1.
    static const Genotype genotype{{{{1, &conv_1x1},
                                     {1, &max_pool_3x3},
                                     {1, &identity},
                                     {0, &conv_1x7_7x1},
                                     {0, &conv_1x1},
                                     {0, &conv_1x7_7x1},
                                     {2, &max_pool_3x3},
                                     {2, &identity},
                                     {1, &average_pool_3x3},
                                     {5, &conv_1x1}}},
                                   {0, 3, 4, 6}};
    return genotype;
}

const Genotype& reduction_cell() {
    static const Genotype genotype{{{{0, &max_pool_2x2},
                                     {0, &max_pool_3x3},
                                     {2, &identity},
                                     {1, &conv_3x3},
                                     {2, &conv_1x7_7x1},
                                     {2, &max_pool_3x3},
                                     {3, &identity},
                                     {1, &max_pool_2x2},
                                     {2, &average_pool_3x3},
                                     {3, &conv_1x1}}},
                                   {4, 5, 6}};
    return genotype;
}

struct CellOptions {
    std::int64_t before_previous;  ///< output channels of the second-last cell
    std::int64_t previous;         ///< output channels of the last cell
    std::int64_t channels;
    bool reduces;
    bool previous_reduces;
};

struct AmoebaCellImpl : torch::nn::Module {
    explicit AmoebaCellImpl(const CellOptions& options) : genotype(options.reduces ? reduction_cell() : normal_cell()) {
        add_relu_conv_norm(reduce_previous, convolution(options.previous, options.channels, 1));
        register_module("reduce_previous", reduce_previous);
        if (options.previous_reduces) {
            reduce_before->push_back(FactorizedReduce(options.before_previous, options.channels));
        } else if (options.before_previous != options.channels) {
            add_relu_conv_norm(reduce_before, convolution(options.before_previous, options.channels, 1));
        } else {
            reduce_before->push_back(torch::nn::Identity());
        }
        register_module("reduce_before", reduce_before);
        for (const Operation& operation : genotype.operations) {
            // States 0 and 1 are the cell's inputs, which a reduction cell halves.
            const std::int64_t stride = options.reduces && operation.state < 2 ? 2 : 1;
            operations.push_back(register_module("operation" + std::to_string(operations.size()),
                                                 operation.make(options.channels, stride)));
        }
    }

    // The first cell has one predecessor, not two.
    std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& previous, const at::Tensor& before_previous = {}) {
        const at::Tensor& before = before_previous.defined() ? before_previous : previous;
        std::vector<at::Tensor> states{reduce_previous->forward(previous), reduce_before->forward(before)};
        for (std::size_t i = 0; i < operations.size(); i += 2) {
            states.push_back(operations[i]->forward(states[genotype.operations[i].state]) +
                             operations[i + 1]->forward(states[genotype.operations[i + 1].state]));
        }
        std::vector<at::Tensor> parts;
        for (const std::size_t state : genotype.output) {
            parts.push_back(states[state]);
        }
        return {at::cat(parts, 1), previous};
    }

    const Genotype& genotype;
    Sequential reduce_previous;
    Sequential reduce_before;
    std::vector<Sequential> operations;

protected:
    FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(at::Tensor())})
};
TORCH_MODULE(AmoebaCell);

struct StemImpl : torch::nn::Module {
    explicit StemImpl(std::int64_t channels)
        : conv(register_module("conv", Conv2d(convolution(3, channels, 3).stride(2).padding(1)))),
          norm(register_module("norm", BatchNorm2d(channels))) {}
    at::Tensor forward(const at::Tensor& image) { return norm(conv(torch::relu(image))); }

    Conv2d conv;
    BatchNorm2d norm;
};
TORCH_MODULE(Stem);

struct ClassifyImpl : torch::nn::Module {
    ClassifyImpl(std::int64_t channels, std::int64_t classes)
        : linear(register_module("linear", torch::nn::Linear(channels, classes))) {}
    // Averages over the remaining sides: 7 x 7 for an image of 224 x 224.
    at::Tensor forward(const at::Tensor& previous, const at::Tensor& /*before_previous*/) {
        return linear(previous.mean({2, 3}));
    }

    torch::nn::Linear linear;
};
TORCH_MODULE(Classify);

class AmoebaNetBuilder {
public:
    explicit AmoebaNetBuilder(const AmoebaNetOptions& options)
        : options_(options),
          channels_(options.filters / 4),
          before_previous_(options.filters / 4),
          previous_(options.filters / 4) {}

    std::vector<LayerSpec> build() {
        add("stem1", [channels = channels_] { return Stem(channels); });
        reduction("stem2");
        reduction("stem3");
        normal("normal1");
        reduction("reduction1");
        normal("normal2");
        reduction("reduction2");
        normal("normal3");
        add("classify", [channels = previous_, classes = options_.classes] { return Classify(channels, classes); });
        return std::move(layers_);
    }

private:
    void reduction(const std::string& name) {
        channels_ *= 2;
        cell(name, true);
    }

    void normal(const std::string& name) {
        for (std::int64_t i = 0; i < options_.layers / 3; ++i) {
            cell(name + "." + std::to_string(i), false);
        }
    }

    void cell(const std::string& name, bool reduces) {
        add(name, [options = CellOptions{before_previous_, previous_, channels_, reduces, previous_reduces_}] {
            return AmoebaCell(options);
        });
        before_previous_ = previous_;
        const Genotype& genotype = reduces ? reduction_cell() : normal_cell();
        previous_ = channels_ * static_cast<std::int64_t>(genotype.output.size());
        previous_reduces_ = reduces;
    }

    template <class Make>
    void add(const std::string& name, Make make) {
        layers_.push_back({name, [make] { return module_layer(torch::nn::AnyModule(make())); }});
    }

    AmoebaNetOptions options_;
    std::int64_t channels_;
    std::int64_t before_previous_;
    std::int64_t previous_;
    bool previous_reduces_ = false;
    std::vector<LayerSpec> layers_;
};
}  // namespace

ModelSpec amoebanet(const AmoebaNetOptions& options) {
    return image_classifier(AmoebaNetBuilder(options).build(), options.size, options.classes);
}
}  // namespace pipescope
