#include "cluster/language_model.h"
#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

const std::string kTwentyTwoBillion = "gpt:layers=48,hidden=6144,heads=64,sequence=2048,vocabulary=51200";

TEST(LanguageModel, ParsesWhatItPrints) {
    for (const std::string& text :
         {kTwentyTwoBillion, kTwentyTwoBillion + ",kv_heads=8,gated=true",
          kTwentyTwoBillion + ",mlp=100,tied=false,dropout=false,attention=flash",
          kTwentyTwoBillion + ",head_width=100,experts=8,top_k=2",
          kTwentyTwoBillion + ",experts=8,top_k=8,expert_hidden=10,shared_experts=2,dense_layers=3",
          kTwentyTwoBillion + ",experts=8,top_k=2,expert_every=2,shared_experts=1,shared_gate=true,router_bias=true," +
              "imbalance=1.25,capacity=1.5",
          kTwentyTwoBillion + ",head_width=192,kv_rank=512,q_rank=1536,rope_width=64,value_width=128,mtp=2",
          kTwentyTwoBillion + ",window=512,full_every=2,full_layers=3",
          kTwentyTwoBillion + ",mlp=0,state=128,state_heads=96,state_head_width=128,state_groups=8,convolution=3," +
              "attention_every=8",
          kTwentyTwoBillion + ",norm=layer,block_norms=1,qk_norm=true,embedding_norm=true,positions=2048,qkv_bias=" +
              "true,out_bias=true,mlp_bias=false,output_bias=true,sinks=true"}) {
        const LanguageModel model = parse_language_model(text);
        EXPECT_EQ(parse_language_model(to_string(model)), model) << text;
    }
}

TEST(LanguageModel, GatedModelsDefaultToLlamasParts) {
    const LanguageModel model =
        parse_language_model("gpt:layers=2,hidden=96,heads=4,sequence=8,vocabulary=10,gated=true");
    EXPECT_EQ(model.mlp, 256);
    EXPECT_FALSE(model.tied);
    EXPECT_FALSE(model.dropout);
    EXPECT_EQ(model.attention, Attention::flash);
    EXPECT_EQ(parse_language_model("gpt:layers=2,hidden=4096,heads=32,sequence=8,vocabulary=10,gated=true").mlp, 11008);
}

// Two heads of keys and values on four ranks: each rank has one of them whole.
TEST(LanguageModel, RanksRepeatHeadsOfKeysAndValues) {
    const LanguageModel model =
        parse_language_model("gpt:layers=2,hidden=64,heads=8,kv_heads=2,sequence=8,vocabulary=10,mlp=64");
    const auto weights_on = [&](int tensor) { return rank_block_weights(model, BlockKind::dense, tensor, {}).all(); };
    EXPECT_EQ(weights_on(1), block_weights(model, BlockKind::dense));
    EXPECT_EQ(weights_on(2), block_weights(model, BlockKind::dense) / 2);
    EXPECT_EQ(weights_on(4), 64 * (2 * 64 / 4 + 2 * 8) + 2 * 64 * 64 / 4);
}

TEST(LanguageModel, RefusesWhatIsNoModel) {
    const auto refuses = [](const std::string& text, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { parse_language_model(text); }), HasSubstr(part)) << text;
    };
    refuses("mlp:layers=2", "begins with neither gpt: nor hf:");
    refuses("gpt:", "has no layers");
    refuses("gpt:layers", "each entry is a key, = and a value");
    refuses(kTwentyTwoBillion + ",layer=3", "the nearest is layers");
    refuses(kTwentyTwoBillion + ",layers=3", "appears twice");
    refuses("gpt:layers=0,hidden=8,heads=1,sequence=8,vocabulary=8", "layers is '0'");
    refuses("gpt:layers=1000000,hidden=8,heads=1,sequence=8,vocabulary=8", "from 1 to 100000");
    refuses("gpt:layers=1,hidden=8,heads=3,sequence=8,vocabulary=8", "heads is 3, which does not divide hidden, 8");
    refuses(kTwentyTwoBillion + ",kv_heads=7", "kv_heads is 7");
    refuses(kTwentyTwoBillion + ",gated=yes", "it must be true or false");
    refuses(kTwentyTwoBillion + ",experts=8", "has no top_k");
    refuses(kTwentyTwoBillion + ",top_k=2", "has top_k without experts");
    refuses(kTwentyTwoBillion + ",experts=8,top_k=9", "top_k is 9 of 8 experts");
    refuses(kTwentyTwoBillion + ",experts=8,top_k=2,dense_layers=48", "dense_layers is 48 of 48 layers");
    refuses(kTwentyTwoBillion + ",attention=fast", "it must be one of standard, flash");
    refuses(kTwentyTwoBillion + ",expert_every=2", "has expert_every without experts");
    refuses(kTwentyTwoBillion + ",experts=8,top_k=2,expert_every=49", "expert_every is 49 of 48 layers");
    refuses(kTwentyTwoBillion + ",experts=8,top_k=2,imbalance=0.5", "imbalance is '0.5'; it is a multiple");
    refuses(kTwentyTwoBillion + ",experts=8,top_k=2,imbalance=4.5",
            "imbalance is 4.5; with all tokens on the same 2 of 8 experts it is 4");
    refuses(kTwentyTwoBillion + ",norm=layer,positions=1024", "sequence is 2048, beyond its 1024 learned positions");
    refuses(kTwentyTwoBillion + ",experts=8,top_k=2,shared_gate=true", "shared_gate without shared_experts");
    refuses(kTwentyTwoBillion + ",q_rank=3", "has q_rank without latent keys and values");
    refuses(kTwentyTwoBillion + ",kv_rank=3", "has kv_rank without head_width");
    refuses(kTwentyTwoBillion + ",kv_rank=3,head_width=96,kv_heads=8", "kv_heads is 8 with kv_rank");
    refuses(kTwentyTwoBillion + ",kv_rank=3,head_width=96,rope_width=96", "rope_width is 96, which is not a part");
    refuses(kTwentyTwoBillion + ",full_every=2", "has full_every without sliding windows");
    refuses(kTwentyTwoBillion + ",state_heads=2", "has state_heads without state-space layers");
    refuses(kTwentyTwoBillion + ",state=16", "has no state_heads");
    refuses(kTwentyTwoBillion + ",state=16,state_heads=3,state_head_width=8,state_groups=2", "state_groups is 2");
    refuses(kTwentyTwoBillion + ",mlp=0", "mlp is '0'");
    refuses(kTwentyTwoBillion + ",qk_norm=true", "has qk_norm without norm");
    refuses(kTwentyTwoBillion + ",norm=batch", "it must be one of rms, layer");
}

// Megatron-LM (arXiv 2104.04473), section 3: parameters 12 l h^2 (1 + V / (12 l h)), of the matrices, and
// operations of a step 96 B s l h^2 (1 + s / 6h + V / 16 l h), of which a quarter of the blocks' are recomputed.
TEST(LanguageModel, CountsWhatMegatronsFormulasCount) {
    const LanguageModel model = parse_language_model(kTwentyTwoBillion);
    const double l = 48;
    const double h = 6144;
    const double s = 2048;
    const double v = 51200;
    EXPECT_NEAR(parameters_of(model) / (12 * l * h * h * (1 + v / (12 * l * h))), 1, 1e-12);
    const double published = 96 * 4 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    EXPECT_NEAR((step_flops(model, 4) + blocks_flops(model, 4)) / published, 1, 1e-12);
}

// Llama 3 8B: 8.03 billion parameters (arXiv 2407.21783, table 3: 32 layers, 4096 wide, 14336 in the feed-forward
// layer, 32 heads, 8 of keys and values, 128,256 tokens).
TEST(LanguageModel, CountsLlamasParameters) {
    const LanguageModel model = parse_language_model(
        "gpt:layers=32,hidden=4096,heads=32,kv_heads=8,sequence=8192,vocabulary=128256,mlp=14336,gated=true");
    EXPECT_NEAR(parameters_of(model), 8.03e9, 0.005e9);
}

// Parameters of all experts, and those that compute a token, as published: Mixtral 8x7B and 8x22B (arXiv 2401.04088 and
// mistral.ai), DeepSeekMoE 16B (arXiv 2401.06066), Qwen2-57B-A14B (arXiv 2407.10671), Qwen3-235B-A22B (arXiv
// 2505.09388).
TEST(LanguageModel, CountsParametersOfMixturesOfExperts) {
    const auto counts = [](const std::string& text, double all, double active) {
        const LanguageModel model = parse_language_model("gpt:gated=true," + text);
        EXPECT_NEAR(parameters_of(model) / all, 1, 0.005) << text;
        EXPECT_NEAR(active_parameters_of(model) / active, 1, 0.02) << text;
    };
    counts("layers=32,hidden=4096,heads=32,kv_heads=8,sequence=4096,vocabulary=32000,mlp=14336,experts=8,top_k=2",
           46.7e9, 12.9e9);
    counts("layers=56,hidden=6144,heads=48,kv_heads=8,sequence=4096,vocabulary=32768,mlp=16384,experts=8,top_k=2",
           141e9, 39e9);
    counts(
        "layers=28,hidden=2048,heads=16,sequence=4096,vocabulary=102400,mlp=10944,experts=64,top_k=6,expert_hidden="
        "1408,"
        "shared_experts=2,dense_layers=1",
        16.4e9, 2.8e9);
    counts(
        "layers=28,hidden=3584,heads=28,kv_heads=4,sequence=4096,vocabulary=151936,experts=64,top_k=8,"
        "expert_hidden=2560,shared_experts=8",
        57.4e9, 14.2e9);
    counts(
        "layers=94,hidden=4096,heads=64,kv_heads=4,head_width=128,sequence=4096,vocabulary=151936,experts=128,top_k=8,"
        "expert_hidden=1536",
        235e9, 22e9);
}

// 16 tokens, 8 wide, two heads of 4, a router of 4 and two experts of two matrices of 8 x 32 a token.
TEST(LanguageModel, CountsOperationsOfTheExpertsThatTokensMeet) {
    const LanguageModel model = parse_language_model(
        "gpt:layers=3,hidden=8,heads=2,sequence=16,vocabulary=10,mlp=32,experts=4,top_k=2,dense_layers=1");
    const double attention = 2.0 * 16 * 4 * 8 * 8 + 4 * 16 * 16 * 8;
    EXPECT_EQ(block_flops(model, BlockKind::dense, 1), attention + 2 * 16 * 2 * 8 * 32);
    EXPECT_EQ(block_flops(model, BlockKind::experts, 1), attention + 2 * 16 * (8 * 4 + 2 * 2 * 8 * 32));
    EXPECT_EQ(blocks_flops(model, 1),
              block_flops(model, BlockKind::dense, 1) + 2 * block_flops(model, BlockKind::experts, 1));
}

// 16 tokens with a window of 4: the first four see 1 to 4 tokens, the others 4. Nearly half of all pairs are these, as
// nearly half of 16 x 16 without a window.
TEST(LanguageModel, CountsThePairsOfAWindow) {
    const LanguageModel model =
        parse_language_model("gpt:layers=4,hidden=8,heads=2,sequence=16,vocabulary=10,mlp=32,window=4,full_every=2");
    const BlockKind window{.has_window = true};
    EXPECT_THAT(block_kinds(model), ::testing::ElementsAre(BlockKind::dense, window));
    const double causal = 1 + 2 + 3 + 4 + 12 * 4;
    EXPECT_EQ(attention_pairs(model, window), 2 * causal - 4);
    EXPECT_EQ(attention_pairs(model, BlockKind::dense), 16 * 16);
    const double matrices = 2.0 * 16 * (4 * 8 * 8 + 2 * 8 * 32);
    EXPECT_EQ(block_flops(model, window, 1), matrices + 4 * 8 * attention_pairs(model, window));
    EXPECT_EQ(step_flops(model, 1) - causal_step_flops(model, 1),
              3 * 2 * (4 * 8 / 2) * (attention_pairs(model, window) + 16 * 16));
    // A window of all tokens is none.
    EXPECT_THAT(block_kinds(parse_language_model(
                    "gpt:layers=4,hidden=8,heads=2,sequence=16,vocabulary=10,window=16,full_every=2")),
                ::testing::ElementsAre(BlockKind::dense));
}

// Eight wide, two heads of 6 = 4 + 2 with values of 3: queries over a rank of 5, keys and values over one of 7.
TEST(LanguageModel, CountsLatentAttention) {
    const LanguageModel model = parse_language_model(
        "gpt:layers=1,hidden=8,heads=2,sequence=16,vocabulary=10,mlp=32,kv_rank=7,q_rank=5,head_width=6,rope_width=2,"
        "value_width=3");
    const double shared = 8 * 5 + 8 * (7 + 2);
    const double split = 5 * 2 * 6 + 7 * 2 * (4 + 3) + 2 * 3 * 8;
    const double mlp = 2 * 8 * 32;
    EXPECT_EQ(block_weights(model, BlockKind::dense), shared + split + mlp);
    EXPECT_EQ(rank_block_weights(model, BlockKind::dense, 2, {}).all(), shared + (split + mlp) / 2);
    EXPECT_EQ(block_flops(model, BlockKind::dense, 1), 2 * 16 * (shared + split + mlp) + 2 * 16 * 16 * 2 * (6 + 3));
    LanguageModel direct = model;
    direct.q_rank = 0;
    EXPECT_EQ(block_weights(direct, BlockKind::dense), block_weights(model, BlockKind::dense) - 8 * 5 - 60 + 8 * 12);
}

// Four heads of three channels in two groups, with states of 5. One projection makes the gate, inputs, B, C and steps.
TEST(LanguageModel, CountsStateSpaceLayers) {
    const LanguageModel model = parse_language_model(
        "gpt:layers=4,hidden=8,heads=2,sequence=16,vocabulary=10,mlp=0,norm=rms,block_norms=1,state=5,state_heads=4,"
        "state_head_width=3,state_groups=2,attention_every=4");
    const BlockKind state{.has_state = true};
    EXPECT_THAT(block_counts(model).size(), 2);
    EXPECT_EQ(model.kind_of(2), state);
    EXPECT_EQ(model.kind_of(3), BlockKind::dense);
    const double matrices = 8 * (2 * 12 + 2 * 10 + 4) + 12 * 8;
    const double vectors = (12 + 20) * (4 + 1) + 3 * 4 + 12 + 8;
    EXPECT_EQ(block_weights(model, state), matrices + vectors);
    EXPECT_EQ(block_flops(model, state, 1), 2 * 16 * matrices + 16 * (16 * (2 * 5 + 12) + 4 * 5 * 12));
}

// Norms of 2 x 8, biases of 3 x 8, 8, 32 and 8, in two blocks; 16 positions, and the last norm.
TEST(LanguageModel, CountsNormsBiasesAndPositions) {
    const std::string matrices = "gpt:layers=2,hidden=8,heads=2,sequence=16,vocabulary=10,mlp=32";
    const double without = parameters_of(parse_language_model(matrices));
    EXPECT_EQ(without, 2 * (4 * 8 * 8 + 2 * 8 * 32) + 10 * 8);
    EXPECT_EQ(parameters_of(parse_language_model(matrices +
                                                 ",norm=layer,qkv_bias=true,out_bias=true,mlp_bias=true,positions=16")),
              without + 2 * (2 * 16 + 24 + 8 + 32 + 8) + 16 * 8 + 16);
}

// Terms of arXiv 2205.05198 for 22 B parameters: s = 2048, b = 4, h = 6144, a = 64, t = 8.
TEST(BlockActivations, AreThePapersTermByTerm) {
    const LanguageModel model = parse_language_model(kTwentyTwoBillion);
    const double sbh = 2048.0 * 4 * 6144;
    const double scores = 5.0 * 64 * 2048 / 6144;  // 5 a s / h
    const auto per_sbh = [&](const BlockActivations& bytes) { return bytes.total() / sbh; };
    EXPECT_NEAR(per_sbh(block_activations(model, BlockKind::dense, 4, 1, false, 2)), 34 + scores, 1e-9);  // equation 1
    EXPECT_NEAR(per_sbh(block_activations(model, BlockKind::dense, 4, 8, false, 2)), 10 + (24 + scores) / 8,
                1e-9);  // equation 2
    EXPECT_NEAR(per_sbh(block_activations(model, BlockKind::dense, 4, 8, true, 2)), (34 + scores) / 8,
                1e-9);  // equation 4
    const BlockActivations selective = block_activations(model, BlockKind::dense, 4, 8, true, 2);
    EXPECT_NEAR((selective.total() - selective.core) / sbh, 34.0 / 8, 1e-9);  // equation 6
    EXPECT_NEAR(selective.input / sbh, 2.0 / 8, 1e-12);                       // what full recompute keeps, table 2
    // Table 5's columns for this model, in GiB, over 48 blocks.
    constexpr double kGiB = 1 << 30;
    EXPECT_NEAR(48 * block_activations(model, BlockKind::dense, 4, 8, false, 2).total() / kGiB, 59.25, 0.01);
    EXPECT_NEAR(48 * (selective.total() - selective.core) / kGiB, 9.56, 0.01);
}

TEST(BlockActivations, WithoutDropoutOrStoredScoresKeepLess) {
    LanguageModel model = parse_language_model(kTwentyTwoBillion);
    model.dropout = false;
    const double tokens_h = 2048.0 * 6144;
    const double scores = 2.0 * 64 * 2048 / 6144;
    EXPECT_NEAR(block_activations(model, BlockKind::dense, 1, 1, false, 2).total() / tokens_h, 32 + scores, 1e-9);
    model.attention = Attention::flash;
    EXPECT_NEAR(block_activations(model, BlockKind::dense, 1, 1, false, 2).total() / tokens_h, 32 + 4.0 * 64 / 6144,
                1e-9);
}

// Of each of two copies: input 64, gate, up and product 3 x 96, 2 bytes each. Of each token: four probabilities of 4
// bytes, and all that is not of a feed-forward layer: three inputs of 64, two of norms' outputs among them, queries,
// keys, values and the projection's input of 64, and a statistic for each of eight heads.
TEST(BlockActivations, OfExpertsAreThoseOfTokensCopies) {
    const LanguageModel model = parse_language_model(
        "gpt:layers=3,hidden=64,heads=8,sequence=16,vocabulary=10,gated=true,experts=4,top_k=2,expert_hidden=96");
    const BlockActivations bytes = block_activations(model, BlockKind::experts, 1, 1, false, 2);
    const double token = 3 * 64 * 2 + 4 * 64 * 2 + 8 * 4;
    EXPECT_EQ(bytes.rest, 16 * (token + 4 * 4 + 2 * (64 + 3 * 96) * 2));
    EXPECT_EQ(bytes.core, 0);
    // Half of the tokens are on each of two ranks, and all heads' halves.
    EXPECT_EQ(block_activations(model, BlockKind::experts, 1, 2, true, 2).rest, bytes.rest / 2);
}
}  // namespace
}  // namespace pipescope
