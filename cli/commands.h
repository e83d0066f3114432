#pragma once

namespace pipescope {
class Program;

// Each in <name>_command.cpp, except that import is in merge_command.cpp. None of them needs torch.
void add_balance_command(Program& program);
void add_simulate_command(Program& program);
void add_advise_command(Program& program);
void add_plan_command(Program& program);
void add_explain_command(Program& program);
void add_schedule_command(Program& program);
void add_launch_command(Program& program);
void add_check_command(Program& program);
void add_compare_command(Program& program);
void add_runs_command(Program& program);
void add_export_command(Program& program);
void add_view_command(Program& program);
void add_record_command(Program& program);
void add_merge_command(Program& program);
void add_import_command(Program& program);
void add_recover_command(Program& program);
void add_doctor_command(Program& program);
}  // namespace pipescope
