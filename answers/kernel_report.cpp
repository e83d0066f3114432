#include "answers/kernel_report.h"

#include "answers/or_null.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/printable.h"
#include "base/quantities.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;
constexpr std::size_t kMostShown = 10;
constexpr std::size_t kMostListed = 1000;  // of the names, for traces whose programs make up names

Json figures_json(const KernelSum& sum) {
    return {{"count", sum.count},  {"total_ns", sum.total},   {"share", sum.share},
            {"mean_ns", sum.mean}, {"median_ns", sum.median}, {"p95_ns", sum.p95}};
}

Json launch_json(const KernelLaunch& launch) {
    const auto unless_zero = [](std::int64_t value) { return value > 0 ? Json(value) : Json(nullptr); };
    return {{"grid", launch.grid},
            {"block", launch.block},
            {"registers", unless_zero(launch.registers)},
            {"shared_memory", launch.shared_memory},
            {"configurations", launch.configurations}};
}

Json collective_json(const CollectiveSum& sum) {
    return {{"type", sum.type},
            {"element_type", text_or_null(sum.element_type)},
            {"bytes", sum.bytes > 0 ? Json(sum.bytes) : Json(nullptr)},
            {"ranks", sum.group_size > 0 ? Json(sum.group_size) : Json(nullptr)},
            {"count", sum.count},
            {"total_ns", sum.total},
            {"shortest_ns", sum.shortest},
            {"transfer_ns", or_null(sum.transfer)},
            {"skew_ns", or_null(sum.skew)},
            {"late_device", text_or_null(sum.late_device)},
            {"late_skew_ns", sum.late_device.empty() ? Json(nullptr) : Json(sum.late_skew)},
            {"bus_bandwidth", or_null(sum.bus_bandwidth)},
            {"best_bandwidth", or_null(sum.best_bandwidth)}};
}

Json sum_json(const KernelSum& sum) {
    Json object;
    if (sum.task) {
        object["kind"] = to_string(*sum.task);
        object["partition"] = sum.partition;
    }
    object["name"] = sum.name;
    object["activity"] = sum.activity;
    object.update(figures_json(sum));
    object["bytes"] = or_null(sum.bytes);
    object["bandwidth"] = or_null(sum.bandwidth);
    object["launch"] = sum.launch ? launch_json(*sum.launch) : Json(nullptr);
    return object;
}

/// Without control characters; of a long name, its start.
std::string shown_kernel(const std::string& name) {
    constexpr std::size_t kMost = 60;
    return printable(name.size() <= kMost ? name : name.substr(0, kMost - 2) + "..");
}

std::string length_text(double ns) {
    return format_duration(Nanoseconds{static_cast<std::int64_t>(ns)});
}
/// Shows those whose size is known. The skew is the mean wait of a rank for the others, and the last is the device that
/// they waited for longest.
std::string collectives_text(const std::vector<CollectiveSum>& collectives) {
    TextTable table({{"messages of NCCL", Align::left},
                     {"size"},
                     {"ranks"},
                     {"count"},
                     {"mean"},
                     {"skew"},
                     {"last", Align::left},
                     {"bus bandwidth"},
                     {"best"}});
    const auto bandwidth_text = [](const std::optional<double>& value) {
        return value ? format_bytes(static_cast<Bytes>(*value)) + "/s" : std::string("?");
    };
    std::size_t shown = 0;
    for (const CollectiveSum& sum : collectives) {
        if (sum.bytes == 0 || shown == kMostShown) {
            continue;
        }
        ++shown;
        const auto count = static_cast<double>(sum.count);
        table.add_row({sum.type, format_bytes(sum.bytes), sum.group_size > 0 ? std::to_string(sum.group_size) : "?",
                       std::to_string(sum.count), length_text(static_cast<double>(sum.total) / count),
                       sum.skew ? length_text(static_cast<double>(*sum.skew) / count) : "?",
                       shown_kernel(sum.late_device), bandwidth_text(sum.bus_bandwidth),
                       bandwidth_text(sum.best_bandwidth)});
    }
    return shown > 0 ? table.str() : std::string();
}

}  // namespace

Json kernels_json(const KernelSums& sums) {
    if (sums.empty()) {
        return nullptr;
    }
    Json object{{"by_name", Json::array()}, {"by_task", Json::array()}, {"by_stream", Json::array()}};
    for (const auto& [key, list] : {std::pair("by_name", &sums.by_name), {"by_task", &sums.by_task}}) {
        for (std::size_t k = 0; k < std::min(list->size(), kMostListed); ++k) {
            object[key].push_back(sum_json((*list)[k]));
        }
    }
    for (const KernelSum& sum : sums.by_stream) {
        object["by_stream"].push_back(
            {{"stream", sum.stream}, {"count", sum.count}, {"total_ns", sum.total}, {"share", sum.share}});
    }
    object["collectives"] = Json::array();
    for (std::size_t k = 0; k < std::min(sums.collectives.size(), kMostListed); ++k) {
        object["collectives"].push_back(collective_json(sums.collectives[k]));
    }
    return object;
}

Json kernels_json(const std::vector<ComparedKernels>& kernels) {
    Json list = Json::array();
    for (std::size_t k = 0; k < std::min(kernels.size(), kMostListed); ++k) {
        const ComparedKernels& each = kernels[k];
        list.push_back({{"name", each.after.name},
                        {"activity", each.after.activity},
                        {"before", each.before.count > 0 ? figures_json(each.before) : Json(nullptr)},
                        {"after", each.after.count > 0 ? figures_json(each.after) : Json(nullptr)}});
    }
    return list;
}

std::string kernels_text(const KernelSums& sums) {
    if (sums.empty()) {
        return {};
    }
    TextTable table({{"most time on devices", Align::left}, {"count"}, {"total"}, {"share"}, {"mean"}, {"95 % below"}});
    for (std::size_t k = 0; k < std::min(sums.by_name.size(), kMostShown); ++k) {
        const KernelSum& sum = sums.by_name[k];
        table.add_row({shown_kernel(sum.name), std::to_string(sum.count), format_duration(Nanoseconds{sum.total}),
                       format_percent(sum.share), length_text(sum.mean), format_duration(Nanoseconds{sum.p95})});
    }
    const std::string collectives = collectives_text(sums.collectives);
    return collectives.empty() ? table.str() : table.str() + "\n" + collectives;
}

std::string kernels_text(const std::vector<ComparedKernels>& kernels) {
    if (kernels.empty()) {
        return {};
    }
    TextTable table({{"largest changes on devices", Align::left},
                     {"before"},
                     {"after"},
                     {"difference"},
                     {"mean before"},
                     {"mean after"}});
    for (std::size_t k = 0; k < std::min(kernels.size(), kMostShown); ++k) {
        const ComparedKernels& each = kernels[k];
        table.add_row({shown_kernel(each.after.name), format_duration(Nanoseconds{each.before.total}),
                       format_duration(Nanoseconds{each.after.total}),
                       format_duration(Nanoseconds{each.after.total - each.before.total}),
                       each.before.count > 0 ? length_text(each.before.mean) : "",
                       each.after.count > 0 ? length_text(each.after.mean) : ""});
    }
    return table.str();
}

Json unattributed_json(const std::vector<LaneDeviceTime>& devices) {
    LaneDeviceTime all;
    for (const LaneDeviceTime& each : devices) {
        all.busy += each.busy;
        all.unattributed += each.unattributed;
    }
    return devices.empty() ? Json(nullptr) : Json(all.share());
}

std::string device_text(const std::vector<LaneDeviceTime>& devices) {
    if (devices.empty()) {
        return {};
    }
    std::string text = fmt::format("{} of the devices' work belongs to no task, message, collective or optimizer",
                                   format_percent(unattributed_json(devices).get<double>()));
    std::string lanes;
    constexpr double kLeast = 0.001;
    for (const LaneDeviceTime& each : devices) {
        if (each.share() >= kLeast) {
            lanes += fmt::format("{}lane {}: {}", lanes.empty() ? "" : ", ", each.lane, format_percent(each.share()));
        }
    }
    return text + (lanes.empty() ? "\n" : fmt::format(" ({})\n", lanes));
}
}  // namespace pipescope
