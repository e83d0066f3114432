#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/reports.h"
#include "cli/text_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

namespace pipescope {
namespace {
ExitCode doctor_command(bool json) {
    const std::vector<DoctorCheck> checks = examine_machine();
    if (json) {
        nlohmann::ordered_json list = nlohmann::ordered_json::array();
        for (const DoctorCheck& check : checks) {
            list.push_back({{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}});
        }
        std::cout << dump({{"checks", std::move(list)}});
    } else {
        TextTable table({{"check", Align::left}, {"", Align::left}, {"detail", Align::left}});
        for (const DoctorCheck& check : checks) {
            table.add_row({check.name, check.ok ? "ok" : check.essential ? "FAILS" : "note", check.detail});
        }
        std::cout << table.str();
    }
    const bool works =
        std::ranges::all_of(checks, [](const DoctorCheck& check) { return check.ok || !check.essential; });
    return works ? ExitCode::success : ExitCode::failure;
}
}  // namespace

void add_doctor_command(Program& program) {
    const auto json = std::make_shared<bool>(false);
    CLI::App* command = program.add_command(
        "doctor", "Show what is installed, what is missing, and how to fix it",
        "Example:\n"
        "  pipescope doctor\n"
        "A 'note' is something optional that is missing. The exit code is 1 only if something essential fails.");
    add_json_flag(*command, *json);
    program.set_action(command, [json] { return doctor_command(*json); });
}
}  // namespace pipescope
