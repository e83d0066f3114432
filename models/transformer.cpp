#include "models/made_up_data.h"
#include "models/zoo_models.h"

#include <torch/torch.h>

#include <string>

namespace pipescope {
namespace {
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;
using torch::nn::LinearOptions;

// Small initial embeddings keep the first loss near log(vocabulary). The value is GPT-2's.
constexpr double kEmbeddingDeviation = 0.02;

struct EmbeddingImpl : torch::nn::Module {
    explicit EmbeddingImpl(const TransformerOptions& options)
        : token(register_parameter("token", torch::empty({options.vocabulary, options.width}))),
          position(register_parameter("position", torch::empty({options.sequence, options.width}))),
          dropout(options.dropout) {
        torch::nn::init::normal_(token, 0, kEmbeddingDeviation);
        torch::nn::init::normal_(position, 0, kEmbeddingDeviation);
    }
    at::Tensor forward(const at::Tensor& tokens) {
        const at::Tensor embedded = torch::embedding(token, tokens) + position.narrow(0, 0, tokens.size(1));
        return torch::dropout(embedded, dropout, is_training());
    }

    at::Tensor token;
    at::Tensor position;
    double dropout;
};
TORCH_MODULE(Embedding);

struct BlockImpl : torch::nn::Module {
    explicit BlockImpl(const TransformerOptions& options)
        : attention_norm(register_module("attention_norm", LayerNorm(LayerNormOptions({options.width})))),
          query_key_value(register_module("query_key_value", Linear(options.width, 3 * options.width))),
          projection(register_module("projection", Linear(options.width, options.width))),
          mlp_norm(register_module("mlp_norm", LayerNorm(LayerNormOptions({options.width})))),
          up(register_module("up", Linear(options.width, 4 * options.width))),
          down(register_module("down", Linear(4 * options.width, options.width))),
          heads(options.heads),
          dropout(options.dropout) {}

    at::Tensor forward(const at::Tensor& input) {
        const at::Tensor attended = input + drop(projection(attention(attention_norm(input))));
        return attended + drop(down(torch::gelu(up(mlp_norm(attended)))));
    }

    at::Tensor attention(const at::Tensor& input) {
        const std::int64_t batch = input.size(0);
        const std::int64_t sequence = input.size(1);
        // (batch, sequence, 3, heads, features) -> three of (batch, heads, sequence, features)
        const at::Tensor parts = query_key_value(input).view({batch, sequence, 3, heads, -1}).permute({2, 0, 3, 1, 4});
        const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                                                  /*dropout_p=*/0.0, /*is_causal=*/true);
        return mixed.transpose(1, 2).reshape({batch, sequence, -1});
    }

    at::Tensor drop(const at::Tensor& input) { return torch::dropout(input, dropout, is_training()); }

    LayerNorm attention_norm;
    Linear query_key_value;
    Linear projection;
    LayerNorm mlp_norm;
    Linear up;
    Linear down;
    std::int64_t heads;
    double dropout;
};
TORCH_MODULE(Block);

struct HeadImpl : torch::nn::Module {
    explicit HeadImpl(const TransformerOptions& options)
        : norm(register_module("norm", LayerNorm(LayerNormOptions({options.width})))),
          linear(register_module("linear", Linear(LinearOptions(options.width, options.vocabulary).bias(false)))) {}
    at::Tensor forward(const at::Tensor& input) { return linear(norm(input)); }

    LayerNorm norm;
    Linear linear;
};
TORCH_MODULE(Head);

Batch transformer_batch(std::int64_t vocabulary, std::int64_t sequence, std::int64_t batch, std::uint64_t seed) {
    const at::Tensor tokens = counting_tokens(vocabulary, sequence + 1, batch, seed);
    return {{tokens.narrow(1, 0, sequence).contiguous()}, {tokens.narrow(1, 1, sequence).contiguous()}};
}

at::Tensor next_token_loss(const Tensors& output, const Tensors& target) {
    return torch::cross_entropy_loss(output.at(0).flatten(0, 1), target.at(0).flatten());
}
}  // namespace

ModelSpec transformer(const TransformerOptions& options) {
    ModelSpec model;
    model.layers.push_back({"embedding", [options] { return module_layer(torch::nn::AnyModule(Embedding(options))); }});
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
        model.layers.push_back({"block." + std::to_string(layer),
                                [options] { return module_layer(torch::nn::AnyModule(Block(options))); }});
    }
    model.layers.push_back({"head", [options] { return module_layer(torch::nn::AnyModule(Head(options))); }});
    model.make_batch = [options](std::int64_t batch, std::uint64_t seed) {
        return transformer_batch(options.vocabulary, options.sequence, batch, seed);
    };
    model.loss = &next_token_loss;
    return model;
}
}  // namespace pipescope
