#include "answers/balance_answer.h"
#include "answers/reports.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "profiler/profile/profile_file.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
ExitCode balance_command(const BalanceQuestion& flags, bool json) {
    check_balance(flags);  // before the profile is read
    const BalanceAnswer answer = balance_answer(flags, load_profile(flags.profile));
    std::cout << (json ? dump(to_json(answer)) : to_text(answer));
    print_warnings(warnings_of(flags));
    return answer.found.feasible ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_balance_command(Program& program) {
    const auto flags = std::make_shared<BalanceQuestion>();
    const auto json = std::make_shared<bool>();
    CLI::App* command =
        program.add_command("balance", "Find where to cut a profiled model into partitions",
                            "Example:\n"
                            "  pipescope balance p.json -n 4 -m 8 --batch 64 --memory-limit 16GiB\n"
                            "Exit code 3: no balance keeps --memory-limit. The one that needs least is printed,\n"
                            "with the smallest limit and the fewest lanes that would be enough.");
    command->add_option("PROFILE", flags->profile, "Profile file, as 'pipescope profile' writes it")->required();
    add_options(*command, [&](OptionTable& table) { add_balance_options(table, *flags); });
    add_json_flag(*command, *json);
    program.set_action(command, [flags, json] { return balance_command(*flags, *json); });
}
}  // namespace pipescope
