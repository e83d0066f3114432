#pragma once

#include "schedule/checkpoint.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// One row of a published table: what was run, and what came out.
struct PublishedRow {
    std::string name;   ///< as the table has it
    std::string model;  ///< of the zoo, with options
    std::int64_t batch = 1;
    std::int64_t chunks = 1;
    std::vector<std::int64_t> balance;  ///< in the published model's own layers; one entry: one device
    Checkpoint checkpoint = Checkpoint::except_last;
    double published = 0;
    std::string not_predicted = {};  ///< why; empty: it is
};

struct PublishedTable {
    std::string title;
    std::string unit;  ///< of `published`
    std::string assumptions;
    std::vector<PublishedRow> rows;
    std::optional<std::size_t> baseline;  ///< of the speed-ups; none: the table has none
};

// torchgpipe (arXiv 2004.09910), tables 2 to 4; its documentation, version 0.0.2. Batch sizes, micro-batches and
// balances are those of the benchmarks in torchgpipe's repository, on eight Tesla P40.
PublishedTable amoebanet_speed();
PublishedTable unet_speed();
PublishedTable resnet_speed();
PublishedTable unet_memory();
PublishedTable amoebanet_parameters();
PublishedTable amoebanet_activations();
/// Table 1. Its first two rows are not predicted; the skips of the third pass through every partition between.
PublishedTable unet_ablation();

/// All profiles the tables need, with the micro-batch sizes they need them at.
struct NeededProfile {
    std::string model;
    std::vector<std::int64_t> samples;
};
std::vector<NeededProfile> needed_profiles();
/// "unet:B=5,C=64" lies in unet_B5_C64.json.
std::string profile_file_name(const std::string& model);
}  // namespace pipescope
