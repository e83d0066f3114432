#include "benchmarks/published/published_runs.h"

#include "base/csv_rows.h"
#include "base/error.h"
#include "base/printable.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

namespace pipescope {
namespace {
bool is_yes(const CsvRow& row, const std::string& column) {
    return row.text(column) == "yes";
}

/// The short dtype of a row's products; empty: that of everything else.
std::string product_dtype(const CsvRow& row) {
    const std::string& dtype = row.text("dtype");
    const auto has = [&](const char* part) { return dtype.find(part) != std::string::npos; };
    return has("fp4")                      ? "float4"
           : !has("fp8") && !has("float8") ? ""
           : has("rowwise")                ? "float8-rowwise"
           : has("mx")                     ? "float8-mx"
                                           : "float8";
}

/// Why a row has no prediction; empty if it has one.
std::string reason_to_leave_out(const CsvRow& row, const std::vector<DeviceType>& catalogue) {
    if (row.text("attention") == "state-space") {
        return "state-space layers in an irregular order";
    }
    if (row.count("expert") > row.count("data") * row.count("tensor") * row.count("context")) {
        return "experts on more devices than a lane has";
    }
    if (row.text("task") == "lora") {
        return "frozen parameters";
    }
    const auto device = std::ranges::find(catalogue, row.text("device"), &DeviceType::name);
    if (device == catalogue.end()) {
        return "device not in the catalogue";
    }
    if (!product_dtype(row).empty() && !device->flops_per_second.contains(product_dtype(row))) {
        return "no rate for " + row.text("dtype");
    }
    return {};
}

LanguageModel model_of(const CsvRow& row) {
    std::string text = "gpt:layers=" + row.text("layers") + ",hidden=" + row.text("hidden") +
                       ",heads=" + row.text("heads") + ",sequence=" + row.text("sequence") +
                       ",vocabulary=" + row.text("vocabulary");
    const auto add = [&](const char* key, const std::string& value) {
        text += value.empty() ? "" : std::string(",") + key + "=" + value;
    };
    add("kv_heads", row.text("kv_heads"));
    add("head_width", row.text("head_width"));
    add("mlp", row.text("mlp").empty() ? row.text("expert_hidden") : row.text("mlp"));
    add("gated", is_yes(row, "gated") ? "true" : "false");
    add("tied", is_yes(row, "tied") ? "true" : "false");
    add("dropout", "false");
    add("attention", row.text("program") == "megatron-deepspeed" ? "standard" : "flash");
    add("experts", row.text("experts"));
    add("top_k", row.text("top_k"));
    if (!row.text("experts").empty()) {
        add("expert_hidden", row.text("expert_hidden"));
    }
    add("shared_experts", row.text("shared_experts"));
    if (std::string keys = row.text("model_keys"); !keys.empty()) {
        std::ranges::replace(keys, ';', ',');
        text += "," + keys;
    }
    return parse_language_model(text);
}

/// Of the row, or the default of its program: MaxText's remat_policy (base.yml), and torchtitan's activation_checkpoint
/// (llama3_8b.toml).
std::string recompute_of(const CsvRow& row) {
    const std::string& program = row.text("program");
    return !row.text("recompute").empty() ? row.text("recompute")
           : program == "maxtext"         ? "full"
           : program == "torchtitan"      ? "selective"
                                          : "";
}

/// `programs`: "own", the row's; empty: none; or the file of one for all rows.
Layout layout_of(const CsvRow& row, const std::string& programs) {
    Layout layout;
    TrainingProgram program =
        programs.empty() ? TrainingProgram{} : *load_program(programs == "own" ? row.text("program") : programs);
    layout.pipeline = row.count("pipeline");
    layout.data = row.count("data");
    layout.tensor = row.count("tensor");
    layout.context = row.count("context");
    layout.expert = row.count("expert");
    // Some programs count the embedding and the output layer as blocks; a partition of a layout has a block or more.
    layout.interleave = std::max(1, std::min(row.count("interleave"), row.count("layers") / layout.pipeline));
    layout.batch = row.count("batch");
    // torchtitan runs as many micro-batches as a pipeline has lanes (pipeline_parallel_microbatches).
    const bool as_lanes = row.text("program") == "torchtitan" && layout.pipeline > 1;
    layout.micro_batch_size = !row.text("micro_batch").empty() ? row.count("micro_batch")
                              : as_lanes ? std::max<std::int64_t>(1, layout.batch / layout.data / layout.pipeline)
                                         : 1;
    // The last micro-batch of a step may be smaller; the step then has as many samples as whole ones.
    const std::int64_t at_once = layout.data * layout.micro_batch_size;
    layout.batch = (layout.batch + at_once - 1) / at_once * at_once;
    layout.product_dtype = product_dtype(row);
    layout.dtype = layout.product_dtype.empty() ? row.text("dtype") : "bfloat16";
    layout.zero = row.count("zero");
    layout.gradient_bytes = row.text("gradient_bytes").empty() ? 4 : row.count("gradient_bytes");
    const std::string recompute = recompute_of(row);
    layout.recompute = recompute == "full" ? Recompute::full
                       : recompute == "selective" || recompute == "products" || recompute == "operators"
                           ? Recompute::selective
                           : Recompute::none;
    const bool is_deepspeed = row.text("program") == "megatron-deepspeed";
    layout.sequence_parallel = layout.tensor > 1 && !is_deepspeed;
    layout.gradient_bucket = program.gradient_bucket.value_or(is_deepspeed ? 0 : 160'000'000);
    layout.sends = is_deepspeed ? Sends::serial : layout.interleave > 1 ? Sends::overlapped : Sends::blocking;
    if (row.text("tensor_overlap") == "no") {
        program.tensor_overlap = 0;
    }
    if (!programs.empty()) {
        layout.program = std::make_shared<const TrainingProgram>(program);
    }
    return layout;
}

Cluster cluster_of(const CsvRow& row, const std::filesystem::path& folder, const std::vector<DeviceType>& catalogue) {
    const std::string& name = row.text("device");
    const bool is_a100 = name.starts_with("A100");
    Cluster cluster =
        load_cluster(folder / "examples" / "clusters" / (is_a100 ? "dgx-a100.json" : "dgx-h100.json"), catalogue);
    NodeGroup& group = cluster.groups.front();
    const DeviceType& device = find_device(catalogue, name);
    if (!is_a100) {
        group.link.bytes_per_second = device.link_bytes_per_second * device.link_efficiency;
        group.link.latency_ns = device.link_latency_ns;
    }
    group.device = device;
    group.devices_per_node = std::min(row.count("node_devices"), row.count("devices"));
    group.ports_per_node = row.count("node_devices");
    group.nodes = row.count("devices") / group.devices_per_node;
    cluster.between_nodes.bytes_per_second *= row.number("port_gbit") / (is_a100 ? 200 : 400);
    return cluster;
}
}  // namespace

std::vector<PublishedRun> published_runs(const std::filesystem::path& folder, const std::string& programs) {
    const std::vector<DeviceType> catalogue = device_catalogue();
    std::vector<PublishedRun> runs;
    for (const CsvRow& row : read_csv_rows(folder / "benchmarks" / "published" / "runs.csv")) {
        PublishedRun run;
        run.run = row.text("run");
        run.set = row.text("set");
        run.source = row.text("source");
        run.program = row.text("program");
        run.device = row.text("device");
        run.experts = !row.text("experts").empty();
        run.tunes = row.text("task") != "pretrain";
        run.seconds = row.text("step_s").empty() ? 0 : row.number("step_s");
        if (!row.text("memory_gib").empty()) {
            run.gib = row.number("memory_gib");
        }
        run.about = row.text("model") + ", " + row.text("devices") + " devices, " + row.text("sequence") + " tokens";
        run.left_out = reason_to_leave_out(row, catalogue);
        if (run.left_out.empty()) {
            const Layout layout = layout_of(row, programs);
            run.about += ", " + to_string(layout) +
                         (layout.recompute == Recompute::none ? "" : ", recompute " + to_string(layout.recompute));
            try {
                const Cluster cluster = cluster_of(row, folder, catalogue);
                run.step = simulate_layout(model_of(row), cluster, cluster.groups.front(), layout,
                                           {.noise = false, .memory = true});
                run.step->profile.reset();  // large, and not needed
            } catch (const Error& fault) {
                throw Error("run " + run.run + ": " + fault.what());
            }
        }
        runs.push_back(std::move(run));
    }
    return runs;
}

std::vector<RunErrors> errors_by_set(const std::vector<PublishedRun>& runs) {
    std::vector<RunErrors> sets;
    for (const PublishedRun& run : runs) {
        if (!run.ran()) {
            continue;
        }
        auto found = std::ranges::find(sets, run.set, &RunErrors::set);
        if (found == sets.end()) {
            found = sets.insert(sets.end(), RunErrors{.set = run.set});
        }
        ++found->rows;
        if (!run.step) {
            continue;
        }
        ++found->predicted;
        found->signed_mean += run.error();
        found->absolute_mean += std::abs(run.error());
        if (found->worst == nullptr || std::abs(run.error()) > std::abs(found->worst->error())) {
            found->worst = &run;
        }
    }
    for (RunErrors& set : sets) {
        const double rows = std::max(1, set.predicted);
        set.signed_mean /= rows;
        set.absolute_mean /= rows;
    }
    return sets;
}
}  // namespace pipescope
