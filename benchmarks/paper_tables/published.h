#pragma once

#include "schedule/checkpoint.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// One row of a published table: configuration and result.
struct PublishedRow {
    std::string name;   ///< as in the table
    std::string model;  ///< zoo model with options
    std::int64_t batch = 1;
    std::int64_t chunks = 1;
    std::vector<std::int64_t> balance;  ///< in layers of the published model; one entry: one device
    Checkpoint checkpoint = Checkpoint::except_last;
    double published = 0;
    std::string not_predicted = {};  ///< reason; empty: it is predicted
};

struct PublishedTable {
    std::string title;
    std::string unit;  ///< of `published`
    std::string assumptions;
    std::vector<PublishedRow> rows;
    std::optional<std::size_t> baseline;  ///< row that speed-ups refer to; empty: the table has none
};

// torchgpipe (arXiv 2004.09910), tables 2 to 4, and its documentation, version 0.0.2. Batch sizes, micro-batches and
// balances are those of the benchmarks in torchgpipe's repository, on eight Tesla P40.
PublishedTable amoebanet_speed();
PublishedTable unet_speed();
PublishedTable resnet_speed();
PublishedTable unet_memory();
PublishedTable amoebanet_parameters();
PublishedTable amoebanet_activations();
/// Table 1. The first two rows are not predicted. The skips of the third pass through all partitions in between.
PublishedTable unet_ablation();

/// The profiles needed by the tables, with their micro-batch sizes.
struct NeededProfile {
    std::string model;
    std::vector<std::int64_t> samples;
};
std::vector<NeededProfile> needed_profiles();
/// "unet:B=5,C=64" has the file unet_B5_C64.json.
std::string profile_file_name(const std::string& model);
}  // namespace pipescope
