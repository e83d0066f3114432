#include "answers/reports.h"
#include "answers/units.h"
#include "cli/program.h"
#include "cli/torch/torch_program.h"
#include "engine/cuda_runtime.h"
#include "engine/device/lane_device.h"
#include "engine/device_memory.h"
#include "models/emulated_device_wait.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <string>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

Json check(const std::string& name, bool ok, const std::string& detail) {
    return {{"name", name}, {"ok", ok}, {"detail", detail}};
}

std::string describe(c10::Device device) {
    std::string text = device.str();
    if (const auto memory = device_memory(device); memory && memory->total > 0) {
        text += fmt::format(" ({}, {} free)", format_bytes(static_cast<Bytes>(memory->total)),
                            format_bytes(static_cast<Bytes>(memory->free)));
    }
    return text;
}

/// Answers doctor's question about devices: only this program contains LibTorch.
ExitCode devices_command() {
    const bool cuda = load_cuda();
    std::string names;
    for (const c10::Device device : usable_devices()) {
        names += (names.empty() ? "" : ", ") + describe(device);
    }
    Json checks = Json::array();
    checks.push_back(check("lane devices", true, names + (cuda ? "" : "; " + why_no_cuda())));
    if (cuda) {
        const DeviceWaitState wait = device_wait_state();
        checks.push_back(check("waiting kernel", wait.available, wait.detail));
    }
    std::cout << dump({{"checks", checks}});
    return ExitCode::success;
}
}  // namespace

void add_devices_command(Program& program) {
    CLI::App* command = program.add_command("devices", "The devices that lanes can run on, as JSON, for doctor", "");
    command->group("");  // not listed in --help: doctor shows it
    program.set_action(command, [] { return devices_command(); });
}
}  // namespace pipescope
