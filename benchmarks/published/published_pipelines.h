#pragma once

#include "cluster/layout.h"

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// A published figure and what the simulator says.
struct PublishedFigure {
    std::string row;
    double measured = 0;
    double predicted = 0;

    double error() const { return predicted / measured - 1; }
};

/// Figures of one kind from one source.
struct PublishedSet {
    std::string title;
    std::string unit;
    std::string about;  ///< source, and what is assumed
    std::vector<PublishedFigure> figures;

    double mean_error() const;     ///< of the figures' absolute errors
    double largest_error() const;  ///< absolute
};

// Each predicts the rows of one CSV in `folder`/benchmarks/published, on the cluster files of
// `folder`/examples/clusters.

PublishedSet megatron_weak_scaling(const std::filesystem::path& folder);
/// Times, and the memory of table 5.
std::vector<PublishedSet> selective_recompute(const std::filesystem::path& folder);
PublishedSet strong_scaling(const std::filesystem::path& folder);
/// Runs of mixtures of experts, some with context parallelism.
PublishedSet mixtures_of_experts(const std::filesystem::path& folder);
PublishedSet vtrain(const std::filesystem::path& folder);
/// Throughput over that of 1F1B, of ZB-1p and ZB-2p.
std::vector<PublishedSet> zero_bubble_speed_ups(const std::filesystem::path& folder);
/// Times and memory of the rows with two lanes or more.
std::vector<PublishedSet> sailor(const std::filesystem::path& folder);

/// Bytes that Sailor's runs hold on a GH200 besides tensors. Set from its row OPT-350/N1/plan_config_N1_D1_M4_G32,
/// which has one lane and is in no set.
inline constexpr double kSailorContextBytes = 4.26e9;
}  // namespace pipescope
