#pragma once

#include "cli/pipeline_flags.h"
#include "cluster/layout.h"

#include <CLI/App.hpp>

#include <set>
#include <string>
#include <vector>

namespace pipescope {
/// The layout of a model on a cluster, as on the command line. Shared by simulate and explain.
struct LayoutFlags {
    std::string cluster;  ///< file; empty: no layout
    Layout layout;

    bool given() const { return !cluster.empty(); }
};

/// Adds --cluster and the options of the layout. `flags` must outlive the parsing.
void add_layout_options(CLI::App& command, LayoutFlags& flags);
/// Throws UsageError for options of the command that say nothing with --cluster, or nothing without it.
void check_layout_options(const CLI::App& command, const LayoutFlags& flags);

/// Throws UsageError for the first given option that is of `own` without --cluster, or, with it, neither of `own` nor
/// of `others`. Names have no dashes.
void check_options_with_cluster(const CLI::App& command, bool has_cluster, const std::set<std::string>& own,
                                const std::set<std::string>& others);

/// The cluster of --cluster, with the devices of --device-catalogue or the built-in ones.
Cluster cluster_of(const LayoutFlags& flags, const PipelineFlags& pipeline);
/// The nodes of the type in --device-types, or the only ones. Throws UsageError if several are left.
const NodeGroup& node_group(const Cluster& cluster, const PipelineFlags& pipeline);
/// Simulates the layout of MODEL ("gpt:..") or of the profile in that file. `recompute` is the text of --recompute.
LayoutStep simulate_layout(const std::string& model_or_profile, const LayoutFlags& flags, const PipelineFlags& pipeline,
                           const std::string& recompute, const SimulationDetail& detail);

/// The figures of a step; without what needs its timeline.
nlohmann::ordered_json layout_json(const LayoutStep& step);
/// Explains the length of a step: its parts, and its bubble by cause. Precondition: it has its timeline.
nlohmann::ordered_json explanation_json(const LayoutStep& step);
std::string layout_text(const LayoutStep& step);
}  // namespace pipescope
