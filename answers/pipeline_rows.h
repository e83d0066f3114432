#pragma once

#include "answers/asked_pipeline.h"
#include "answers/option_table.h"
#include "simulator/search/balance_algorithm.h"

#include <string>

namespace pipescope {
// Options of the pipeline for a question's table. The pipeline must outlive the table.
OptionRow& add_balance_option(OptionTable& table, AskedPipeline& asked);  ///< --balance
/// -m --chunks, which pipeline_options() requires unless the schedule is a file; --batch; --checkpoint
void add_batch_options(OptionTable& table, AskedPipeline& asked);
void add_mini_batch_option(OptionTable& table, AskedPipeline& asked);    ///< --batch alone
void add_checkpoint_option(OptionTable& table, AskedPipeline& asked);    ///< --checkpoint alone
void add_memory_limit_option(OptionTable& table, AskedPipeline& asked);  ///< --memory-limit alone
void add_algorithm_option(OptionTable& table, BalanceAlgorithm& algorithm);
void add_hardware_options(OptionTable& table, AskedPipeline& asked);  ///< --devices, --cores, links, --speed, ..
/// --schedule: one of `schedules`, or a file. `help` may have several lines.
void add_schedule_option(OptionTable& table, AskedPipeline& asked, const std::string& help, bool* all = nullptr);
/// --schedule and --placement. With `all`, --schedule also accepts "all", which sets `*all`.
void add_schedule_options(OptionTable& table, AskedPipeline& asked, const std::string& schedules, bool* all = nullptr);
/// --optimizer, --master-weights and --dtype: memory of parameters besides their values.
void add_parameter_options(OptionTable& table, AskedPipeline& asked);
void add_replicas_option(OptionTable& table, AskedPipeline& asked);      ///< --replicas, one number
void add_update_option(OptionTable& table, AskedPipeline& asked);        ///< --update
void add_pair_overlap_option(OptionTable& table, AskedPipeline& asked);  ///< --pair-overlap
/// --device-types, --device-catalogue and --headroom. `help` describes the purpose of the types.
void add_device_type_options(OptionTable& table, AskedPipeline& asked, const std::string& help);
/// --force, with the same help text everywhere.
void add_force_option(OptionTable& table, bool& force);
/// Adds all options of the pipeline: balance, batch, schedule, hardware, replicas, simulation and parameters.
/// `all_schedules`: as `all` of add_schedule_options().
void add_simulated_pipeline_options(OptionTable& table, AskedPipeline& asked, bool* all_schedules = nullptr);
}  // namespace pipescope
