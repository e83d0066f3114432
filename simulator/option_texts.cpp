#include "simulator/option_texts.h"

#include "base/printable.h"
#include "schedule/placement.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace pipescope {
namespace {
std::string joined(const auto& values, const auto& text) {
    return joined_text(values, ",", text);
}
std::string bytes_text(Bytes bytes) {
    return std::to_string(bytes) + "B";
}
}  // namespace

std::vector<OptionText> option_texts(const PipelineOptions& options) {
    std::vector<OptionText> texts;
    const auto add = [&texts](const char* option, std::string value) { texts.push_back({option, std::move(value)}); };
    const auto add_if = [&add](bool given, const char* option, const auto& value) {
        if (given) {
            add(option, value());
        }
    };
    const Hardware& hardware = options.hardware;
    const Link& link = hardware.link;
    add("balance", to_string(options.balance));
    add("chunks", std::to_string(options.chunks));
    add("batch", std::to_string(options.batch));
    add("checkpoint", to_string(options.checkpoint));
    add("schedule", to_string(options.schedule));
    add_if(options.update != Update::synchronous, "update", [&] { return to_string(options.update); });
    add_if(!options.placement.empty(), "placement", [&] { return placement_text(options.placement); });
    add_if(takes_backward_order(options.schedule) && options.backward_order != BackwardOrder::last_first, "backward",
           [&] { return to_string(options.backward_order); });
    add_if(options.recompute_start != RecomputeStart::early, "recompute",
           [&] { return to_string(options.recompute_start); });
    add_if(options.replicas > 1, "replicas", [&] { return std::to_string(options.replicas); });
    add_if(options.pair_overlap.has_value(), "pair-overlap", [&] { return shortest(*options.pair_overlap); });
    add_if(options.most_in_flight > 0, "in-flight", [&] { return std::to_string(options.most_in_flight); });
    add_if(!hardware.devices.empty(), "devices", [&] { return joined(hardware.devices, std::identity()); });
    add_if(hardware.host_cores > 0, "cores", [&] { return std::to_string(hardware.host_cores); });
    add_if(hardware.processes > 1, "processes", [&] { return std::to_string(hardware.processes); });
    add_if(!hardware.speeds.empty(), "speed", [&] { return joined(hardware.speeds, shortest); });
    if (!hardware.memory_limits.empty()) {
        add("memory-limit", joined(hardware.memory_limits, bytes_text));
    } else if (hardware.memory_limit) {
        add("memory-limit", bytes_text(*hardware.memory_limit));
    }
    add_if(hardware.expandable_segments, "expandable-segments", [] { return "true"; });
    add_if(link.bytes_per_second > 0, "link-bandwidth", [&] { return shortest(link.bytes_per_second / 1e9) + "GB/s"; });
    add_if(link.latency_ns > 0, "link-latency", [&] { return shortest(link.latency_ns / 1e3) + "us"; });
    add_if(link.sharing != LinkSharing::none, "link-sharing", [&] { return to_string(link.sharing); });
    add_if(link.protocol != LinkProtocol::eager, "link-protocol", [&] { return to_string(link.protocol); });
    add("optimizer", options.optimizer);
    add_if(options.master_weights, "master-weights", [] { return "true"; });
    return texts;
}

std::vector<OptionText> changed_options(const PipelineOptions& from, const PipelineOptions& to) {
    const std::vector<OptionText> before = option_texts(from);
    const std::vector<OptionText> after = option_texts(to);
    std::vector<OptionText> changes = after;
    std::erase_if(changes, [&](const OptionText& each) { return std::ranges::find(before, each) != before.end(); });
    for (const OptionText& each : before) {
        if (std::ranges::find(after, each.option, &OptionText::option) == after.end()) {
            changes.push_back({each.option, ""});
        }
    }
    if (!from.hardware.link.times.empty() && to.hardware.link.times.empty()) {
        changes.push_back({"links", ""});
    }
    PipelineOptions implied = to;
    implied.placement.clear();
    place(implied);
    const bool is_named = std::ranges::find(changes, "placement", &OptionText::option) != changes.end();
    if (from.schedule != to.schedule && implied.placement != to.placement && !is_named) {
        changes.push_back({"placement", placement_text(to.placement)});  // the earlier schedule implied it
    }
    return changes;
}
}  // namespace pipescope
