#include "cluster/step_parts.h"

#include "schedule/quantities.h"
#include "simulator/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
std::string percent(double share) {
    const auto tenths = std::llround(share * 1000);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}
}  // namespace

StepParts step_parts(const LayoutStep& step) {
    const double whole = step.step_ns();
    const auto lanes = static_cast<double>(step.simulation.lanes.size());
    StepParts parts;
    if (!(whole > 0) || lanes == 0) {
        return parts;
    }
    const double busy = mean_busy_ns(step.simulation) / whole;
    parts.recompute = busy * step.recompute_share;
    parts.collectives = busy * step.collective_share;
    parts.compute = busy - parts.recompute - parts.collectives;
    std::int64_t computed = 0;
    double sent = 0;
    for (const Slice& slice : step.simulation.timeline.slices) {
        if (is_compute(slice.key.kind)) {
            computed = std::max(computed, slice.end.count());
        } else if (is_copy(slice.key.kind)) {
            sent += static_cast<double>((slice.end - slice.start).count());
        }
    }
    // With serial messages the receiver is busy as long again.
    const double held = step.layout.sends == Sends::overlapped ? 0 : step.layout.sends == Sends::serial ? 2 : 1;
    parts.sends = held * sent / lanes / whole;
    const double exposed = static_cast<double>(step.simulation.step_time.count() - computed) + step.tied_ns;
    parts.gradients = std::max(0.0, exposed) / whole;
    parts.optimizer = step.optimizer_ns / whole;
    parts.bubble = std::max(0.0, 1 - busy - parts.sends - parts.gradients - parts.optimizer);
    return parts;
}

std::array<std::pair<const char*, double>, 7> named_parts(const StepParts& parts) {
    return {{{"compute", parts.compute},
             {"recompute", parts.recompute},
             {"collectives", parts.collectives},
             {"sends", parts.sends},
             {"bubble", parts.bubble},
             {"gradients", parts.gradients},
             {"optimizer", parts.optimizer}}};
}

std::string to_string(const StepParts& parts) {
    auto all = named_parts(parts);
    std::ranges::stable_sort(all, std::greater<>(), &std::pair<const char*, double>::second);
    std::string text;
    for (const auto& [name, share] : all) {
        constexpr double kLeast = 0.005;
        if (share >= kLeast) {
            text += (text.empty() ? "" : ", ") + std::string(name) + " " + percent(share);
        }
    }
    return text;
}

std::string next_constraint(const LayoutStep& step) {
    const StepParts parts = step_parts(step);
    const Layout& layout = step.layout;
    const Simulation& simulation = step.simulation;
    std::string memory = "the highest peak is " + format_bytes(highest_peak(simulation));
    if (const std::optional<Bytes> limit = simulation.options.hardware.memory_limit) {
        memory += " of " + format_bytes(*limit);
    }
    const std::array<std::pair<double, std::string>, 5> remedies{
        {{parts.bubble, "the bubble is " + percent(parts.bubble) + " of the step: more micro-batches (now " +
                            std::to_string(layout.micro_batches()) +
                            "), more partitions a lane, or fewer lanes shrink it"},
         {parts.recompute, "recomputing is " + percent(parts.recompute) +
                               " of the step: memory limits it, more lanes or ranks would free some"},
         {parts.collectives, "collectives inside layers are " + percent(parts.collectives) +
                                 " of the step: fewer tensor-parallel devices or a faster link shrink them"},
         {parts.sends, "waiting for sends is " + percent(parts.sends) +
                           " of the step: overlapped sends, fewer partitions a lane or a faster link shrink it"},
         {parts.gradients,
          "exposed sums of gradients are " + percent(parts.gradients) +
              " of the step: more micro-batches a step, fewer replicas or 2-byte gradients shrink them"}}};
    const auto largest = std::ranges::max_element(remedies, {}, &std::pair<double, std::string>::first);
    constexpr double kWorthIt = 0.02;
    return (largest->first >= kWorthIt ? largest->second : std::string("the device's own speed limits the step")) +
           "; " + memory;
}
}  // namespace pipescope
