#include "benchmarks/paper_tables/published.h"

#include "schedule/micro_batches.h"

#include <map>
#include <set>

namespace pipescope {
namespace {
using enum Checkpoint;

constexpr const char* kUNet = "unet:B=5,C=64";
constexpr const char* kAmoebaNet = "amoebanetd:L=18,D=256";
constexpr const char* kResNet = "resnet101";
}  // namespace

PublishedTable amoebanet_speed() {
    const std::string assumptions =
        "AmoebaNet-D (18, 256); throughput relative to n = 2, m = 1. With m = 1 all micro-batches are checkpointed, "
        "otherwise all but the last.";
    return {"Paper, table 2: speed of AmoebaNet-D",
            "samples/s",
            assumptions,
            {{"n = 2, m = 1", kAmoebaNet, 96, 1, {7, 17}, always, 26.733},
             {"n = 2, m = 4", kAmoebaNet, 256, 4, {9, 15}, except_last, 41.133},
             {"n = 2, m = 32", kAmoebaNet, 1280, 32, {9, 15}, except_last, 47.386},
             {"n = 4, m = 1", kAmoebaNet, 160, 1, {3, 4, 5, 12}, always, 26.827},
             {"n = 4, m = 4", kAmoebaNet, 360, 4, {3, 6, 7, 8}, except_last, 44.543},
             {"n = 4, m = 32", kAmoebaNet, 1152, 32, {3, 6, 7, 8}, except_last, 72.412},
             {"n = 8, m = 1", kAmoebaNet, 196, 1, {2, 2, 2, 2, 2, 3, 4, 7}, always, 24.918},
             {"n = 8, m = 4", kAmoebaNet, 480, 4, {2, 2, 2, 3, 3, 4, 4, 4}, except_last, 70.065},
             {"n = 8, m = 32", kAmoebaNet, 1280, 32, {2, 2, 2, 3, 3, 4, 4, 4}, except_last, 132.413}},
            0};
}

PublishedTable unet_speed() {
    return {"Paper, table 4: speed of U-Net",
            "samples/s",
            "U-Net (5, 64), images of 192 x 192; naive-1 neither cuts nor recomputes.",
            {{"naive-1", kUNet, 40, 1, {241}, never, 28.500},
             {"pipeline-1", kUNet, 80, 2, {241}, except_last, 24.456},
             {"pipeline-2", kUNet, 512, 32, {104, 137}, except_last, 35.502},
             {"pipeline-4", kUNet, 512, 16, {30, 66, 84, 61}, except_last, 67.042},
             {"pipeline-8", kUNet, 640, 40, {16, 27, 31, 44, 22, 57, 27, 17}, except_last, 88.497}},
            0};
}

PublishedTable resnet_speed() {
    return {"Documentation 0.0.2: speed of ResNet-101",
            "samples/s",
            "The documentation does not give its rows' settings; they are taken from torchgpipe's later benchmark.",
            {{"naive-1", kResNet, 118, 1, {370}, never, 100.506},
             {"pipeline-1", kResNet, 220, 2, {370}, except_last, 73.925},
             {"pipeline-2", kResNet, 25000, 1667, {135, 235}, except_last, 135.691},
             {"pipeline-4", kResNet, 5632, 256, {44, 92, 124, 110}, except_last, 230.216},
             {"pipeline-8", kResNet, 5400, 150, {26, 22, 33, 44, 44, 66, 66, 69}, except_last, 312.945}},
            0};
}

PublishedTable unet_memory() {
    return {"Paper, table 3: memory of U-Net",
            "GiB",
            "Batch 32, SGD. Published: the sum over devices of what the allocator reserved. Predicted: the sum of the "
            "lanes' peaks of allocated bytes.",
            {{"naive-1 (6, 72)", "unet:B=6,C=72", 32, 1, {285}, never, 20.3},
             {"pipeline-1 (11, 128)", "unet:B=11,C=128", 32, 32, {505}, except_last, 20.5},
             {"pipeline-2 (24, 128)", "unet:B=24,C=128", 32, 32, {526, 551}, except_last, 43.4},
             {"pipeline-4 (24, 160)", "unet:B=24,C=160", 32, 32, {472, 54, 36, 515}, except_last, 79.1},
             {"pipeline-8 (48, 160)", "unet:B=48,C=160", 32, 32, {800, 140, 62, 36, 36, 36, 36, 987}, always, 154.1}},
            std::nullopt};
}

PublishedTable amoebanet_parameters() {
    return {
        "Documentation 0.0.2: parameter memory of AmoebaNet-D",
        "GiB",
        "Three copies of each parameter (weight, gradient, one state) of 4 bytes each. By its own parameter counts, "
        "what the documentation calls GB is 2^30 bytes. Its L counts a third of the cells.",
        {{"naive-1 (6, 208)", "amoebanetd:L=18,D=208", 128, 1, {24}, never, 1.00},
         {"pipeline-1 (6, 416)", "amoebanetd:L=18,D=416", 128, 128, {24}, except_last, 4.01},
         {"pipeline-2 (6, 544)", "amoebanetd:L=18,D=544", 128, 128, {16, 8}, except_last, 6.45},
         {"pipeline-4 (12, 544)", "amoebanetd:L=36,D=544", 128, 128, {16, 12, 7, 7}, except_last, 13.00},
         {"pipeline-8 (24, 512)", "amoebanetd:L=72,D=512", 128, 128, {23, 16, 11, 6, 6, 5, 5, 6}, except_last, 22.42}},
        std::nullopt};
}

PublishedTable amoebanet_activations() {
    PublishedTable table = amoebanet_parameters();
    table.title = "Documentation 0.0.2: peak activation memory of AmoebaNet-D";
    table.assumptions =
        "Batch and micro-batches are 128, as in torchgpipe's later benchmark, because the documentation does not give "
        "them. The figures are the sum of the lanes' predicted peaks without parameters, gradients and state.";
    table.rows.erase(table.rows.begin());  // has no naive-1
    const double published[] = {6.64, 11.31, 18.72, 35.78};
    for (std::size_t k = 0; k < table.rows.size(); ++k) {
        table.rows[k].published = published[k];
    }
    return table;
}

PublishedTable unet_ablation() {
    return {
        "Paper, table 1: what each component is worth",
        "samples/s",
        "U-Net (5, 64) on four devices. Rows without the backward dependency, or with copies on the compute stream, "
        "are not predicted, because the autograd engine and the device decide their order. The row with streams but "
        "without portals is predicted by passing every skip through all layers between. Speed-ups are relative to "
        "that row.",
        {{"none", kUNet, 128, 8, {34, 76, 70, 61}, except_last, 30.662, "not predicted: autograd orders the backward"},
         {"dependency", kUNet, 128, 8, {34, 76, 70, 61}, except_last, 41.306, "not predicted: copies hold up kernels"},
         {"dependency, streams", kUNet, 128, 8, {34, 76, 70, 61}, except_last, 55.191},
         {"dependency, streams, portals", kUNet, 128, 8, {34, 76, 70, 61}, except_last, 58.477}},
        2};
}

std::vector<NeededProfile> needed_profiles() {
    std::map<std::string, std::set<std::int64_t>> sizes;
    for (const PublishedTable& table :
         {amoebanet_speed(), unet_speed(), resnet_speed(), unet_memory(), amoebanet_parameters(), unet_ablation()}) {
        for (const PublishedRow& row : table.rows) {
            const std::vector<std::int64_t> of_row = micro_batch_sizes(row.batch, row.chunks);
            sizes[row.model].insert({of_row.front(), of_row.back(), 1});
        }
    }
    std::vector<NeededProfile> needed;
    for (const auto& [model, each] : sizes) {
        needed.push_back({model, {each.begin(), each.end()}});
    }
    return needed;
}

std::string profile_file_name(const std::string& model) {
    std::string name;
    for (const char letter : model) {
        name += letter == ':' || letter == ',' ? "_" : letter == '=' ? "" : std::string(1, letter);
    }
    return name + ".json";
}
}  // namespace pipescope
