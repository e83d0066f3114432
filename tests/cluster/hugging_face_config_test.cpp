// Models described by Hugging Face configurations: their parameters are those of the published checkpoints.

#include "cluster/hugging_face_config.h"
#include "base/error.h"
#include "cluster/language_model.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Writes the configuration to a folder, and reads the model from there.
class HuggingFaceConfigTest : public ::testing::Test {
protected:
    std::string text_of(const std::string& json, const std::string& keys = "") {
        std::ofstream(folder_.path() / "config.json") << json;
        return "hf:" + folder_.path().string() + keys;
    }
    LanguageModel model_of(const std::string& json, const std::string& keys = "") {
        return parse_language_model(text_of(json, keys));
    }
    void expect_refusal(const std::string& json, const std::string& part) {
        const std::string text = text_of(json);
        const std::string message = thrown<UsageError>([&] { parse_language_model(text); });
        EXPECT_THAT(message, HasSubstr(part)) << json;
        EXPECT_THAT(message, HasSubstr(folder_.path().string())) << json;
    }

private:
    TemporaryFolder folder_;
};

const std::string kLlama = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192)";

struct Published {
    const char* name;
    std::int64_t parameters;
    const char* config;
};
// Counts of the checkpoints. Each is also what transformers 5.24 counts in the model of that configuration
// (docs/evidence/model-parameters.md). DeepSeek-V3's includes the biases of its routers, but no multi-token prediction.
TEST_F(HuggingFaceConfigTest, HasThePublishedParameters) {
    const std::vector<Published> models = {
        {"Llama 2 7B", 6'738'415'616,
         R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
         "max_position_embeddings": 4096})"},
        {"Llama 2 70B", 68'976'648'192,
         R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings":
         4096})"},
        {"Llama 3 8B", 8'030'261'248,
         R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
         "max_position_embeddings": 8192})"},
        {"Llama 3.1 405B", 405'853'388'800,
         R"({"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
         "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
         "max_position_embeddings": 131072})"},
        {"Llama 3.2 1B", 1'235'814'400,
         R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
         "max_position_embeddings": 131072, "tie_word_embeddings": true})"},
        {"Mistral 7B", 7'241'732'096,
         R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096,
         "max_position_embeddings": 32768})"},
        {"Mistral Nemo 12B", 12'247'782'400,
         R"({"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 14336, "num_hidden_layers": 40,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072,
         "sliding_window": null})"},
        {"Mixtral 8x7B", 46'702'792'704,
         R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000, "num_local_experts": 8,
         "num_experts_per_tok": 2, "sliding_window": null})"},
        {"Mixtral 8x22B", 140'630'071'296,
         R"({"model_type": "mixtral", "hidden_size": 6144, "intermediate_size": 16384, "num_hidden_layers": 56,
         "num_attention_heads": 48, "num_key_value_heads": 8, "vocab_size": 32768, "num_local_experts": 8,
         "num_experts_per_tok": 2, "sliding_window": null})"},
        {"Qwen2 7B", 7'615'616'512,
         R"({"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
         "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "use_sliding_window":
         false, "sliding_window": 131072, "max_window_layers": 28})"},
        {"Qwen2.5 0.5B", 494'032'768,
         R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
         "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings":
         true})"},
        {"Qwen2.5 72B", 72'706'203'648,
         R"({"model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
         "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064})"},
        {"Qwen3 0.6B", 596'049'920,
         R"({"model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
         "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
         "tie_word_embeddings": true})"},
        {"Qwen3 8B", 8'190'735'360,
         R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936})"},
        {"Qwen1.5 MoE A2.7B", 14'315'784'192,
         R"({"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
         "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "num_experts": 60,
         "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
         "decoder_sparse_step": 1})"},
        {"Qwen2 57B A14B", 57'408'658'944,
         R"({"model_type": "qwen2_moe", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers":
         28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 151936, "num_experts": 64,
         "num_experts_per_tok": 8, "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480,
         "decoder_sparse_step": 1})"},
        {"Qwen3 30B A3B", 30'532'122'624,
         R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
         "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
         "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step":
         1, "mlp_only_layers": []})"},
        {"Qwen3 235B A22B", 235'093'634'560,
         R"({"model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers":
         94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
         "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "decoder_sparse_step":
         1, "mlp_only_layers": []})"},
        {"DeepSeek V2 Lite", 15'706'484'224,
         R"({"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers":
         27, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400, "n_routed_experts":
         64, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408,
         "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": null, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_layer_freq": 1, "max_position_embeddings": 163840})"},
        {"DeepSeek V2", 235'741'434'880,
         R"({"model_type": "deepseek_v2", "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers":
         60, "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 102400,
         "n_routed_experts": 160, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size":
         1536, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_layer_freq": 1, "max_position_embeddings": 163840})"},
        {"DeepSeek V3", 671'026'419'200,
         R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers":
         61, "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280,
         "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size":
         2048, "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
         "topk_method": "noaux_tc", "max_position_embeddings": 163840})"},
        {"Gemma 2B", 2'506'172'416,
         R"({"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
         "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 256000})"},
        {"Gemma 7B", 8'537'680'896,
         R"({"model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
         "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "vocab_size": 256000})"},
        {"Gemma 2 9B", 9'241'705'984,
         R"({"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_hidden_layers": 42,
         "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000,
         "sliding_window": 4096})"},
        {"Gemma 2 27B", 27'227'128'320,
         R"({"model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864, "num_hidden_layers": 46,
         "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 256000,
         "sliding_window": 4096})"},
        {"Gemma 3 1B", 999'885'952,
         R"({"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers":
         26, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144,
         "sliding_window": 512, "sliding_window_pattern": 6})"},
        {"GPT-2", 124'439'808,
         R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
         "vocab_size": 50257})"},
        {"GPT-2 XL", 1'557'611'200,
         R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
         "vocab_size": 50257})"},
        {"GPT-NeoX 20B", 20'554'567'680,
         R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
         "num_attention_heads": 64, "vocab_size": 50432})"},
        {"Pythia 6.9B", 6'857'302'016,
         R"({"model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 32,
         "num_attention_heads": 32, "vocab_size": 50432})"},
        {"GPT-OSS 20B", 20'914'757'184,
         R"({"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
         "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128})"},
        {"GPT-OSS 120B", 116'829'156'672,
         R"({"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
         "num_local_experts": 128, "num_experts_per_tok": 4, "sliding_window": 128})"},
        {"Phi-1.5", 1'418'270'720,
         R"({"model_type": "phi", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
         "num_attention_heads": 32, "vocab_size": 51200})"},
        {"Phi-2", 2'779'683'840,
         R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
         "num_attention_heads": 32, "vocab_size": 51200})"},
        {"Phi-3 mini", 3'821'079'552,
         R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "sliding_window": 2047})"},
        {"Phi-4", 14'659'507'200,
         R"({"model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920, "num_hidden_layers": 40,
         "num_attention_heads": 40, "num_key_value_heads": 10, "vocab_size": 100352, "sliding_window": null})"},
        {"Falcon 7B", 6'921'720'704,
         R"({"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
         "vocab_size": 65024, "multi_query": true, "parallel_attn": true, "bias": false,
         "new_decoder_architecture": false})"},
        {"Falcon 40B", 41'303'293'952,
         R"({"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
         "num_kv_heads": 8, "vocab_size": 65024, "multi_query": true, "parallel_attn": true, "bias": false,
         "new_decoder_architecture": true})"},
        {"BLOOM 560M", 559'214'592,
         R"({"model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880})"},
        {"BLOOM 176B", 176'247'271'424,
         R"({"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880})"},
        {"OPT 1.3B", 1'315'758'080,
         R"({"model_type": "opt", "hidden_size": 2048, "ffn_dim": 8192, "num_hidden_layers": 24,
         "num_attention_heads": 32, "vocab_size": 50272, "word_embed_proj_dim": 2048})"},
        {"OPT 66B", 65'719'701'504,
         R"({"model_type": "opt", "hidden_size": 9216, "ffn_dim": 36864, "num_hidden_layers": 64,
         "num_attention_heads": 72, "vocab_size": 50272, "word_embed_proj_dim": 9216})"},
    };
    for (const Published& each : models) {
        const LanguageModel model = model_of(each.config);
        EXPECT_EQ(static_cast<std::int64_t>(parameters_of(model)), each.parameters) << each.name;
        EXPECT_EQ(parse_language_model(to_string(model)), model) << each.name;
        EXPECT_THAT(parse_hugging_face_config(each.config).warnings, IsEmpty()) << each.name;
    }
}

// The weights of one module that predicts a further token, without the embedding and the output layer that it shares:
// 11.5 billion (the model's README.md).
TEST_F(HuggingFaceConfigTest, CountsMultiTokenPredictionApart) {
    const LanguageModel model = model_of(R"({"model_type": "deepseek_v3"})");
    EXPECT_EQ(model.mtp, 1);
    EXPECT_EQ(parameters_of(model), 671'026'419'200);
    EXPECT_NEAR(rank_mtp_weights(model, 1, {}).all(), 11.5e9, 0.15e9);
    EXPECT_EQ(model_of(R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 0})").mtp, 0);
}

TEST_F(HuggingFaceConfigTest, TakesAFileOrItsFolder) {
    const LanguageModel model = model_of(kLlama + "}");
    const std::string folder = text_of(kLlama + "}");
    EXPECT_EQ(parse_language_model(folder + "/config.json"), model);
    EXPECT_THAT(thrown<UsageError>([&] { parse_language_model(folder + "/missing.json"); }), HasSubstr("missing.json"));
    EXPECT_THAT(thrown<UsageError>([] { parse_language_model("hf:"); }), HasSubstr("hf: has no path"));
    EXPECT_TRUE(is_language_model("hf:x"));
    EXPECT_FALSE(is_language_model("hf.json"));
}

TEST_F(HuggingFaceConfigTest, TakesKeysAfterThePath) {
    EXPECT_EQ(model_of(kLlama + "}").sequence, 4096);  // the usual length, although the model takes 8192
    const LanguageModel model = model_of(kLlama + "}", ",sequence=8192,attention=standard");
    EXPECT_EQ(model.sequence, 8192);
    EXPECT_EQ(model.attention, Attention::standard);
    for (const char* keys : {",sequence=long", ",sequence", ",sequnce=8192"}) {
        EXPECT_THAT(thrown<UsageError>([&] { model_of(kLlama + "}", keys); }),
                    HasSubstr("; write it as hf:folder/config.json,sequence=4096"))
            << keys;
    }
    EXPECT_EQ(model.mlp, 14336);
    const std::string text = text_of(kLlama + "}");
    EXPECT_THAT(thrown<UsageError>([&] { parse_language_model(text + ",sequences=8192"); }),
                HasSubstr("the nearest is sequence"));
}

TEST_F(HuggingFaceConfigTest, MissingKeysHaveTheFamilysDefaults) {
    EXPECT_EQ(to_string(model_of(R"({"model_type": "gpt2"})")),
              "gpt:layers=12,hidden=768,heads=12,kv_heads=12,sequence=1024,vocabulary=50257,mlp=3072,gated=false,"
              "tied=true,dropout=true,attention=flash,positions=1024,norm=layer,qkv_bias=true,out_bias=true,"
              "mlp_bias=true");
    EXPECT_EQ(model_of(R"({"model_type": "mistral"})").kv_heads, 8);
    EXPECT_EQ(model_of(R"({"model_type": "llama", "num_key_value_heads": null})").kv_heads, 32);
    EXPECT_FALSE(model_of(R"({"model_type": "gpt2", "resid_pdrop": 0, "embd_pdrop": 0})").dropout);
}

TEST_F(HuggingFaceConfigTest, KnowsWhichBlocksHaveWindows) {
    const auto full_blocks = [&](const std::string& json) {
        const LanguageModel model = model_of(json);
        std::vector<std::int64_t> full;
        for (std::int64_t block = 0; block < model.layers; ++block) {
            if (!model.kind_of(block).has_window) {
                full.push_back(block);
            }
        }
        return full;
    };
    EXPECT_THAT(full_blocks(R"({"model_type": "mistral", "num_hidden_layers": 3, "sliding_window": 64})"), IsEmpty());
    EXPECT_THAT(full_blocks(R"({"model_type": "mistral", "num_hidden_layers": 3, "sliding_window": null})"),
                ElementsAre(0, 1, 2));
    // A window as long as the samples changes nothing.
    EXPECT_THAT(full_blocks(R"({"model_type": "mistral", "num_hidden_layers": 2})"), ElementsAre(0, 1));
    EXPECT_THAT(full_blocks(R"({"model_type": "gemma2", "num_hidden_layers": 5, "sliding_window": 64})"),
                ElementsAre(1, 3));
    EXPECT_THAT(full_blocks(R"({"model_type": "gemma3_text", "num_hidden_layers": 13, "sliding_window": 64})"),
                ElementsAre(5, 11));
    EXPECT_THAT(full_blocks(R"({"model_type": "gpt_oss", "num_hidden_layers": 4})"), ElementsAre(1, 3));
    const std::string qwen = R"({"model_type": "qwen2", "num_hidden_layers": 4, "sliding_window": 64,
        "max_window_layers": 3, "use_sliding_window": )";
    EXPECT_THAT(full_blocks(qwen + "true}"), ElementsAre(0, 1, 2));
    EXPECT_THAT(full_blocks(qwen + "false}"), ElementsAre(0, 1, 2, 3));
    const auto listed = [](const std::string& types) {
        return R"({"model_type": "gpt_oss", "num_hidden_layers": 3, "layer_types": [)" + types + "]}";
    };
    EXPECT_THAT(full_blocks(listed(R"("full_attention", "sliding_attention", "sliding_attention")")), ElementsAre(0));
    EXPECT_THAT(full_blocks(listed(R"("sliding_attention", "sliding_attention", "full_attention")")), ElementsAre(2));
    expect_refusal(listed(R"("full_attention", "sliding_attention", "full_attention")"), "layer_types has no pattern");
    expect_refusal(listed(R"("full_attention", "linear_attention", "full_attention")"), "'linear_attention'");
    expect_refusal(listed(R"("full_attention")"), "names 1 layers of 3");
}

TEST_F(HuggingFaceConfigTest, KnowsWhichBlocksHaveExperts) {
    const LanguageModel every =
        model_of(R"({"model_type": "qwen3_moe", "num_hidden_layers": 6, "decoder_sparse_step": 2,
        "mlp_only_layers": [0, 1]})");
    std::vector<bool> experts;
    for (std::int64_t block = 0; block < 6; ++block) {
        experts.push_back(every.kind_of(block).has_experts);
    }
    EXPECT_THAT(experts, ElementsAre(false, false, false, true, false, true));
    expect_refusal(R"({"model_type": "qwen3_moe", "mlp_only_layers": [3]})", "mlp_only_layers is [3]");
    expect_refusal(R"({"model_type": "deepseek_v3", "moe_layer_freq": 2})", "moe_layer_freq is 2");
}

TEST_F(HuggingFaceConfigTest, RefusesWhatItDoesNotKnow) {
    expect_refusal("[]", "one JSON object");
    expect_refusal("{", "is not valid JSON");
    expect_refusal("{}", "model_type is missing");
    expect_refusal(
        R"({"model_type": "mamba2"})",
        "model_type is 'mamba2'; the known families are llama, mistral, mixtral, qwen2, qwen3, qwen2_moe, "
        "qwen3_moe, deepseek_v2, deepseek_v3, gemma, gemma2, gemma3_text, gpt2, gpt_neox, gpt_oss, phi, phi3, "
        "falcon, bloom, opt; describe the model with gpt:");
    expect_refusal(R"({"model_type": "gemma3", "text_config": {}, "vision_config": {}})", "text_config is given");
    expect_refusal(kLlama + R"(, "hidden_size": 4096})", "hidden_size");
    expect_refusal(kLlama + R"(, "n_embd": 1024})", "both name the same number");
    expect_refusal(R"({"model_type": "llama", "hidden_size": "4096"})", "hidden_size");
    expect_refusal(R"({"model_type": "llama", "num_attention_heads": 33})",
                   "heads is 33, which does not divide hidden");
    expect_refusal(R"({"model_type": "deepseek_v2"})", "num_experts_per_tok is missing");
    expect_refusal(R"({"model_type": "opt", "word_embed_proj_dim": 512})", "word_embed_proj_dim is 512");
    expect_refusal(R"({"model_type": "opt", "do_layer_norm_before": false})", "do_layer_norm_before is false");
    expect_refusal(R"({"model_type": "gpt2", "add_cross_attention": true})", "add_cross_attention is true");
    expect_refusal(R"({"model_type": "qwen2_moe", "shared_expert_intermediate_size": 1000})",
                   "no multiple of moe_intermediate_size, 1408");
}

// Gemma's configuration names its activation twice, GPT-2's has its width as null.
TEST_F(HuggingFaceConfigTest, TakesOtherNamesOfKeys) {
    const std::string gemma = R"({"model_type": "gemma", "hidden_act": "gelu", "hidden_activation": null})";
    EXPECT_THAT(read_language_model(text_of(gemma)).warnings, IsEmpty());
    EXPECT_EQ(model_of(R"({"model_type": "gpt2", "n_inner": null, "intermediate_size": 3000})").mlp, 3000);
    EXPECT_EQ(model_of(R"({"model_type": "gpt2", "n_inner": null})").mlp, 3072);
    EXPECT_EQ(model_of(R"({"model_type": "bloom", "n_embed": 128, "hidden_size": 128})").hidden, 128);
}

TEST_F(HuggingFaceConfigTest, WarnsOfUnknownKeys) {
    const std::string text = text_of(kLlama + R"(, "torch_dtype": "bfloat16", "rope_scaling": null, "attn_rank": 3})");
    EXPECT_THAT(read_language_model(text).warnings, ElementsAre(HasSubstr("are not known here: attn_rank; ")));
}
}  // namespace
}  // namespace pipescope
