#include "benchmarks/published/published_pipelines.h"

#include "base/csv_rows.h"
#include "benchmarks/published/zero_bubble.h"
#include "simulator/memory/memory_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

constexpr double kNsPerSecond = 1e9;
constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr SimulationDetail kTimesOnly{.noise = false, .memory = false};
constexpr SimulationDetail kWithMemory{.noise = false, .memory = true};

std::vector<CsvRow> rows_of(const fs::path& folder, const std::string& name) {
    return read_csv_rows(folder / "benchmarks" / "published" / (name + ".csv"));
}

Cluster cluster_of(const fs::path& folder, const std::string& name) {
    return load_cluster(folder / "examples" / "clusters" / (name + ".json"), device_catalogue());
}

/// The papers' GPT models: 2048 tokens, a vocabulary of 51200.
LanguageModel gpt_of(const CsvRow& row) {
    return parse_language_model("gpt:layers=" + row.text("layers") + ",hidden=" + row.text("hidden") +
                                ",heads=" + row.text("heads") + ",sequence=2048,vocabulary=51200");
}

double seconds(const LayoutStep& step) {
    return step.step_ns() / kNsPerSecond;
}

LayoutStep simulated(const LanguageModel& model, const Cluster& cluster, const Layout& layout,
                     const SimulationDetail& detail = kTimesOnly) {
    return simulate_layout(model, cluster, cluster.groups.front(), layout, detail);
}
}  // namespace

double PublishedSet::mean_error() const {
    double sum = 0;
    for (const PublishedFigure& each : figures) {
        sum += std::abs(each.error());
    }
    return figures.empty() ? 0 : sum / static_cast<double>(figures.size());
}

double PublishedSet::largest_error() const {
    double most = 0;
    for (const PublishedFigure& each : figures) {
        most = std::max(most, std::abs(each.error()));
    }
    return most;
}

PublishedSet megatron_weak_scaling(const fs::path& folder) {
    const Cluster cluster = cluster_of(folder, "dgx-a100");
    PublishedSet set{
        "Megatron-LM, weak scaling: time of a step",
        "s",
        "Efficient Large-Scale Language Model Training on GPU Clusters (arXiv 2104.04473), table 1, all rows, "
        "whose steps follow from their operations. Micro-batch sizes and interleaving as in Megatron-LM's "
        "examples/sc21/run_table_1.sh; full recompute.",
        {}};
    for (const CsvRow& row : rows_of(folder, "megatron_weak_scaling")) {
        Layout layout;
        layout.pipeline = row.count("pp");
        layout.tensor = row.count("tp");
        layout.data = row.count("gpus") / (layout.pipeline * layout.tensor);
        layout.interleave = row.count("interleave");
        layout.micro_batch_size = row.count("micro_batch_size");
        layout.batch = row.count("batch");
        layout.recompute = Recompute::full;
        layout.dtype = "float16";
        set.figures.push_back({row.text("params_b") + " B, " + row.text("gpus") + " GPUs, " + to_string(layout),
                               row.number("iteration_s"), seconds(simulated(gpt_of(row), cluster, layout))});
    }
    return set;
}

std::vector<PublishedSet> selective_recompute(const fs::path& folder) {
    const Cluster cluster = cluster_of(folder, "dgx-a100");
    const std::string source =
        "Reducing Activation Recomputation in Large Transformer Models (arXiv 2205.05198), table 5, all models";
    PublishedSet times{"Selective recompute: time of a step", "s", source + ".", {}};
    PublishedSet memory{"Selective recompute: memory of the first lane",
                        "GiB",
                        source +
                            ", and figure 1, whose parameters leave out the embedding. Predicted are parameters, "
                            "gradients and optimizer state "
                            "with it; and what a step holds besides, at the peak.",
                        {}};
    for (const CsvRow& row : rows_of(folder, "selective_recompute")) {
        Layout layout;
        layout.pipeline = row.count("pp");
        layout.tensor = row.count("tp");
        layout.interleave = row.count("interleave");
        layout.micro_batch_size = row.count("mbs");
        layout.batch = row.count("batch");
        layout.dtype = "float16";
        const std::string name = row.text("model");
        const auto step_with = [&](Recompute recompute, bool sequence_parallel) {
            layout.recompute = recompute;
            layout.sequence_parallel = sequence_parallel;
            return simulated(gpt_of(row), cluster, layout, kWithMemory);
        };
        const LayoutStep full = step_with(Recompute::full, false);
        const LayoutStep selective = step_with(Recompute::selective, true);
        const LayoutStep none = step_with(Recompute::none, false);
        times.figures.push_back({name + ", full recompute", row.number("iteration_s_full_recompute"), seconds(full)});
        times.figures.push_back(
            {name + ", selective, sequence-parallel", row.number("iteration_s_selective_seqpar"), seconds(selective)});
        const auto constants = [](const LayoutStep& step) {
            const MemoryBreakdown& peak = step.simulation.lanes.front().peak;
            return static_cast<double>(peak[MemoryCategory::parameters] + peak[MemoryCategory::gradients] +
                                       peak[MemoryCategory::optimizer]) /
                   kGiB;
        };
        const auto activations = [&](const LayoutStep& step) {
            return static_cast<double>(step.simulation.lanes.front().peak_bytes) / kGiB - constants(step);
        };
        memory.figures.push_back({name + ", parameters", row.number("param_opt_gib"), constants(none)});
        memory.figures.push_back(
            {name + ", activations without recompute", row.number("act_gib_none"), activations(none)});
        memory.figures.push_back({name + ", activations, selective, sequence-parallel",
                                  row.number("act_gib_selective_seqpar"), activations(selective)});
    }
    return {times, memory};
}

PublishedSet strong_scaling(const fs::path& folder) {
    Cluster cluster = cluster_of(folder, "dgx-a100");
    PublishedSet set{
        "Strong scaling of 175 B: time of a step",
        "s",
        "MegaScale (arXiv 2402.15627), table 2, the column of Megatron-LM, all rows; MegaScale's own changes the "
        "model. Not published there, and taken from the "
        "same model in arXiv 2205.05198: micro-batches of one sample, three partitions per lane, selective recompute "
        "with sequence parallelism.",
        {}};
    const LanguageModel model =
        parse_language_model("gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=51200");
    for (const CsvRow& row : rows_of(folder, "strong_scaling")) {
        Layout layout;
        layout.pipeline = 8;
        layout.tensor = 8;
        layout.data = row.count("gpus") / 64;
        cluster.groups.front().nodes = row.count("gpus") / cluster.groups.front().devices_per_node;
        layout.interleave = row.count("interleave");
        layout.micro_batch_size = row.count("micro_batch_size");
        layout.batch = row.count("batch");
        layout.recompute = Recompute::selective;
        layout.sequence_parallel = true;
        set.figures.push_back(
            {row.text("gpus") + " GPUs", row.number("megatron_s"), seconds(simulated(model, cluster, layout))});
    }
    return set;
}

PublishedSet mixtures_of_experts(const fs::path& folder) {
    const Cluster cluster = cluster_of(folder, "dgx-h100");
    PublishedSet set{
        "Mixtures of experts on H100: time of a step",
        "s",
        "Mixtral 8x7B: Megatron-LM, megatron/core/transformer/moe/README.md, 468 TFLOP/s per GPU with the mapping of "
        "the same page, whose operations count all pairs of tokens. Qwen3-235B-A22B: "
        "yanring/Megatron-MoE-ModelZoo, best_practice/qwen3/readme.md, forced balance; its TFLOP/s count causal "
        "pairs, as its steps show. Sums of gradients in buckets of 40 M parameters, copies between partitions "
        "overlapped, both as in these programs. The dispatcher DeepEP sends a token once to each node, which is "
        "--token-dispatch node. With long sequences, the runs repeat the experts' forward in the backward, which is "
        "not modelled, so predictions lack it.",
        {}};
    const std::map<std::string, std::string> models = {
        {"Mixtral-8x7B",
         "gpt:layers=32,hidden=4096,heads=32,kv_heads=8,vocabulary=32000,mlp=14336,gated=true,experts=8,top_k=2"},
        {"Qwen3-235B-A22B",
         "gpt:layers=94,hidden=4096,heads=64,kv_heads=4,head_width=128,vocabulary=151936,gated=true,experts=128,top_k="
         "8,"
         "expert_hidden=1536"}};
    for (const CsvRow& row : rows_of(folder, "mixtures_of_experts")) {
        const LanguageModel model =
            parse_language_model(models.at(row.text("model")) + ",sequence=" + row.text("sequence"));
        Layout layout;
        layout.pipeline = row.count("pp");
        layout.tensor = row.count("tp");
        layout.context = row.count("cp");
        layout.expert = row.count("ep");
        layout.data = row.count("gpus") / (layout.pipeline * layout.tensor * layout.context);
        layout.interleave = row.count("interleave");
        layout.micro_batch_size = row.count("micro_batch_size");
        layout.batch = row.count("batch");
        layout.sequence_parallel = layout.tensor > 1;
        layout.zero = row.count("zero");
        layout.recompute = row.text("recompute") == "full" ? Recompute::full : Recompute::none;
        layout.gradient_bucket = 160'000'000;
        layout.sends = layout.interleave > 1 ? Sends::overlapped : Sends::blocking;
        double measured = 0;
        if (row.text("step_s").empty()) {
            const auto batch = static_cast<double>(layout.batch);
            const auto tokens = static_cast<double>(model.sequence);
            const bool causal = row.text("model") != "Mixtral-8x7B";
            const double skipped =
                3 * 2 * tokens * tokens * model.attention_width() * static_cast<double>(model.layers);
            measured = (step_flops(model, batch) - (causal ? batch * skipped : 0)) /
                       (row.number("tflops") * 1e12 * row.number("gpus"));
        } else {
            measured = row.number("step_s");
        }
        const std::string note = row.text("note").empty() ? "" : ", " + row.text("note");
        layout.dispatch = row.text("note") == "DeepEP" ? TokenDispatch::node : TokenDispatch::expert;
        set.figures.push_back({row.text("model") + ", " + row.text("gpus") + " GPUs, " + row.text("sequence") +
                                   " tokens, " + to_string(layout) + note,
                               measured, seconds(simulated(model, cluster, layout))});
    }
    return set;
}

PublishedSet vtrain(const fs::path& folder) {
    const Cluster cluster = cluster_of(folder, "a100-four-ports");
    PublishedSet set{
        "vTrain's rows of several nodes: time of a step",
        "s",
        "vTrain (arXiv 2312.12391), data/ground_truth_multi.csv of VIA-Research/vTrain, all rows: Megatron-DeepSpeed, "
        "1F1B, full recompute, serial messages, gradients summed in 2 bytes.",
        {}};
    for (const CsvRow& row : rows_of(folder, "vtrain")) {
        Layout layout;
        layout.pipeline = row.count("pp");
        layout.tensor = row.count("tp");
        layout.data = row.count("dp");
        layout.micro_batch_size = row.count("mbs");
        layout.batch = row.count("batch");
        layout.recompute = Recompute::full;
        layout.dtype = "float16";
        layout.gradient_bytes = 2;
        layout.sends = Sends::serial;
        set.figures.push_back({row.text("params_b") + " B, " + to_string(layout), row.number("iteration_ms") / 1e3,
                               seconds(simulated(gpt_of(row), cluster, layout))});
    }
    return set;
}

namespace {
/// After its pipeline, a step of a zero-bubble row sums the gradients of tied embeddings and updates the parameters.
double tail_ns(const Cluster& cluster, const CsvRow& row) {
    const LanguageModel model =
        parse_language_model("gpt:layers=" + row.text("layers") + ",hidden=" + row.text("hidden") +
                             ",heads=" + row.text("heads") + ",sequence=1024,vocabulary=51200");
    Layout layout;
    layout.pipeline = row.count("p");
    layout.batch = layout.pipeline;
    const LayoutStep step = simulated(model, cluster, layout);
    return step.tied_ns + step.optimizer_ns;
}
}  // namespace

std::vector<PublishedSet> zero_bubble_speed_ups(const fs::path& folder) {
    const Cluster cluster = cluster_of(folder, "dgx-a100");
    const std::string source =
        "Zero Bubble Pipeline Parallelism (arXiv 2401.10241), tables 4 and 9: throughput relative to 1F1B. Stages "
        "take the published "
        "times, and copies overlap. The longest span of a lane counts, as in the paper, and the work after it: tied "
        "embeddings "
        "and optimizer. ";
    PublishedSet one{"ZB-1p over 1F1B", "", source + "Simulated with zero-bubble-h1.", {}};
    PublishedSet two{"ZB-2p over 1F1B", "", source + "Simulated with zero-bubble-2p.", {}};
    const std::vector<CsvRow> rows = rows_of(folder, "zero_bubble");
    const std::vector<ZeroBubbleRow> stages = zero_bubble_rows(folder);
    for (std::size_t k = 0; k < stages.size(); ++k) {
        const double tail = tail_ns(cluster, rows[k]);
        const auto span = [&](const Schedule& schedule) {
            return span_of_lanes(simulated_row(stages[k], schedule)) + tail;
        };
        const double base = span(Schedule::one_f_one_b);
        const std::string name = stages[k].model + ", " + std::to_string(stages[k].lanes) + " lanes, " +
                                 std::to_string(stages[k].micro_batches) + " micro-batches";
        const double measured = rows[k].number("samples_1f1b");
        one.figures.push_back({name, rows[k].number("samples_zb1p") / measured, base / span(Schedule::zero_bubble_h1)});
        two.figures.push_back({name, rows[k].number("samples_zb2p") / measured, base / span(Schedule::zero_bubble_2p)});
    }
    return {one, two};
}

namespace {
/// One rank's profile of a model, from Sailor's measured layers.
Profile sailor_profile(const fs::path& folder, const std::string& model) {
    constexpr double kFloat = 4;
    Profile profile;
    profile.model = model;
    profile.device = "GH200";
    std::vector<CsvRow> sizes;
    for (const CsvRow& row : rows_of(folder, "sailor_layers")) {
        if (row.text("model") == model) {
            sizes.push_back(row);
            profile.samples.push_back(row.count("mbs"));
        }
    }
    const auto at_sizes = [&](auto value) {
        PerSize values;
        for (const CsvRow& row : sizes) {
            values.push_back(value(row));
        }
        return values;
    };
    const auto of_samples = [&](double each) {
        PerSize values;
        for (const std::int64_t samples : profile.samples) {
            values.push_back(each * static_cast<double>(samples));
        }
        return values;
    };
    constexpr double kTokens = 2048;
    constexpr double kTokenBytes = 8;
    profile.input_bytes = of_samples(kTokens * kTokenBytes);
    profile.loss_ns = of_samples(0);
    std::vector<CsvRow> layers;
    for (const CsvRow& row : rows_of(folder, "sailor_memory")) {
        if (row.text("model") == model) {
            layers.push_back(row);
        }
    }
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const CsvRow& row = layers[l];
        const std::string kind = l == 0 ? "l0" : l + 1 == layers.size() ? "last" : l == 1 ? "l1" : "lk";
        LayerProfile layer;
        layer.name = "layer " + std::to_string(l);
        layer.forward_ns = at_sizes([&](const CsvRow& size) { return size.number(kind + "_f") * kNsPerSecond; });
        layer.backward_ns = at_sizes([&](const CsvRow& size) { return size.number(kind + "_b") * kNsPerSecond; });
        layer.output_bytes = of_samples(row.number("output_floats") * kFloat);
        layer.saved_bytes = of_samples(row.number("saved_floats") * kFloat);
        layer.transient_bytes = layer.saved_bytes;  // gradients of what the layer keeps, while it runs backward
        layer.keeps_input = false;                  // counted in saved_floats
        layer.parameter_bytes = layer.gradient_bytes = std::llround(row.number("parameters") * kFloat);
        profile.layers.push_back(std::move(layer));
    }
    // Each row of Sailor's profile has the update of the whole model that was profiled: the embedding, two blocks and
    // the last layer (megatron/training.py, profile_all.py of eth-easl/sailor).
    double all = 0;
    double profiled = 0;
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const double parameters = layers[l].number("parameters");
        all += parameters;
        profiled += l <= 2 || l + 1 == layers.size() ? parameters : 0;
    }
    profile.optimizer_ns = sizes.front().number("update") * kNsPerSecond * all / profiled;
    return profile;
}

Balance balance_of(std::string text) {
    std::ranges::replace(text, '-', ',');
    return parse_balance(text);
}
}  // namespace

std::vector<PublishedSet> sailor(const fs::path& folder) {
    // A rank of each node: its share of the stage, with a port of its own.
    Cluster cluster = cluster_of(folder, "alps-gh200");
    cluster.groups.front().devices_per_node = cluster.groups.front().ports_per_node = 1;
    const std::string source =
        "Sailor (eth-easl/sailor), rows with two lanes or more: Megatron-DeepSpeed's 1F1B on nodes of four GH200, one "
        "node per stage. Layers take their measured times and bytes, in float32; messages are serial.";
    PublishedSet times{"Sailor: time of a step", "s", source, {}};
    PublishedSet memory{
        "Sailor: highest memory of a device",
        "GB",
        source + " A parameter takes 24 bytes: itself, its gradient, Adam's state and DeepSpeed's two copies.",
        {}};
    std::map<std::string, CheckedProfile> profiles;
    for (const CsvRow& row : rows_of(folder, "sailor_steps")) {
        Layout layout;
        layout.pipeline = row.count("pp");
        if (layout.pipeline < 2) {
            continue;
        }
        layout.data = row.count("dp");
        layout.micro_batch_size = row.count("mbs");
        layout.batch = row.count("global_batch");
        layout.sends = Sends::serial;
        const std::string model = row.text("model");
        auto found = profiles.find(model);
        if (found == profiles.end()) {
            found = profiles.emplace(model, sailor_profile(folder, model)).first;
        }
        PipelineOptions options;
        options.balance = balance_of(row.text("layers_per_stage"));
        options.checkpoint = Checkpoint::never;
        options.optimizer = "4";  // bytes a byte of gradient
        const LayoutStep step =
            simulate_layout(found->second, options, cluster, cluster.groups.front(), layout, kWithMemory);
        const std::string name =
            model + ", " + row.text("nodes") + " nodes, " + to_string(layout) + ", batch " + row.text("global_batch");
        times.figures.push_back({name, row.number("step_s"), seconds(step)});
        memory.figures.push_back({name, row.number("max_mem_bytes") / 1e9,
                                  (static_cast<double>(highest_peak(step.simulation)) + kSailorContextBytes) / 1e9});
    }
    return {times, memory};
}
}  // namespace pipescope
