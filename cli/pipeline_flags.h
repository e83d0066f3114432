#pragma once

#include "simulator/number_ranges.h"
#include "simulator/simulation.h"

#include <CLI/App.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// The flags that describe a pipeline, as typed. Shared by balance, simulate, plan and run.
struct PipelineFlags {
    std::string balance;
    std::int64_t chunks = 1;
    std::int64_t batch = 1;
    std::string checkpoint = "except_last";
    std::string schedule = "gpipe";
    std::string placement;
    std::string devices;
    std::string link_bandwidth;
    std::string link_latency;
    std::string link_sharing = "none";
    std::string speed;
    std::string memory_limit;
    int cores = 0;
    std::string optimizer = "sgd";
};

// Each adds one group of options to a command; `flags` must outlive the parsing.
void add_balance_option(CLI::App& command, PipelineFlags& flags);  ///< --balance, required
void add_batch_options(CLI::App& command, PipelineFlags& flags);   ///< -m --chunks and --batch, required; --checkpoint
void add_mini_batch_option(CLI::App& command, PipelineFlags& flags);  ///< --batch alone, required
void add_algorithm_option(CLI::App& command, std::string& algorithm);
void add_hardware_options(CLI::App& command, PipelineFlags& flags);  ///< --devices, --cores, links, --speed, ..
void add_schedule_options(CLI::App& command, PipelineFlags& flags,
                          const std::string& schedules);  ///< --schedule, one of those the text lists; --placement
void add_optimizer_option(CLI::App& command, PipelineFlags& flags);
/// --json, with the same words everywhere.
void add_json_flag(CLI::App& command, bool& json);
void add_force_flag(CLI::App& command, bool& force);
CLI::Option* add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& of);

/// The flags as options. Throws UsageError that names the flag. An empty balance stays {1}: `balance` has none yet.
PipelineOptions pipeline_options(const PipelineFlags& flags);

/// "1,2,4" as whole numbers of at least `least`.
std::vector<std::int64_t> parse_whole_numbers(const std::string& text, const std::string& option, std::int64_t least);
}  // namespace pipescope
