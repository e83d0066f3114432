// A model of your own for PipeScope: tells two intertwined spirals apart. Built as a shared library, it is a MODEL for
// every command: pipescope run ./libspirals.so:width=64,blocks=6 ..

#include <pipescope/models/user_model.h>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

namespace {
// Any torch module is a layer, if its forward takes and returns tensors.
struct BlockImpl : torch::nn::Module {
    BlockImpl(std::int64_t width, double share)
        : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
          linear(register_module("linear", torch::nn::Linear(width, width))),
          dropout(register_module("dropout", torch::nn::Dropout(share))) {}

    torch::Tensor forward(const torch::Tensor& input) { return input + dropout(torch::gelu(linear(norm(input)))); }

    torch::nn::LayerNorm norm;
    torch::nn::Linear linear;
    torch::nn::Dropout dropout;
};
TORCH_MODULE(Block);

struct Options {
    std::int64_t width = 64;
    std::int64_t blocks = 6;
};

// Parses the text behind the colon, which is up to you. A UsageError says what is wrong with it.
Options parse(const std::string& text) {
    Options options;
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');) {
        const std::string name = item.substr(0, item.find('='));
        const std::int64_t value = std::atoll(item.substr(std::min(item.size(), name.size() + 1)).c_str());
        if ((name != "width" && name != "blocks") || value < 1) {
            throw pipescope::UsageError("'" + item +
                                        "' is no option; the options are width=N and blocks=N, of 1 or more; write "
                                        "them as width=64,blocks=6");
        }
        (name == "width" ? options.width : options.blocks) = value;
    }
    return options;
}

// Equal seeds give equal batches: generators are given, never torch's own.
pipescope::Batch spirals(std::int64_t batch, std::uint64_t seed) {
    torch::Generator generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
    const torch::Tensor arm = torch::randint(2, {batch}, generator, torch::kLong);
    const torch::Tensor turn = 4 * torch::rand({batch}, generator);
    const torch::Tensor angle = turn + M_PI * arm;
    const torch::Tensor points = torch::stack({turn * angle.cos(), turn * angle.sin()}, 1) / 4;
    return {{points}, {arm}};
}

template <class Module>
pipescope::LayerSpec layer(const std::string& name, Module (*make)(const Options&), const Options& options) {
    return {name, [make, options] { return pipescope::module_layer(torch::nn::AnyModule(make(options))); }};
}

pipescope::ModelSpec make_spirals(const std::string& text) {
    const Options options = parse(text);
    pipescope::ModelSpec model;
    model.layers.push_back(layer<torch::nn::Linear>(
        "embed", [](const Options& o) { return torch::nn::Linear(2, o.width); }, options));
    for (std::int64_t i = 0; i < options.blocks; ++i) {
        model.layers.push_back(layer<Block>(
            "block." + std::to_string(i), [](const Options& o) { return Block(o.width, 0.1); }, options));
    }
    model.layers.push_back(layer<torch::nn::Linear>(
        "classify", [](const Options& o) { return torch::nn::Linear(o.width, 2); }, options));
    model.make_batch = &spirals;
    model.loss = [](const pipescope::Tensors& output, const pipescope::Tensors& target) {
        return torch::nn::functional::cross_entropy(output[0], target[0]);
    };
    return model;
}
}  // namespace

PIPESCOPE_USER_MODEL(make_spirals)
