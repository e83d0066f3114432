#include "benchmarks/experiments/ablation.h"

#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/sample_statistics.h"
#include "cli/stop_signals.h"
#include "cli/torch/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace pipescope {
namespace {
std::vector<AblationRow> rows_for(const PipelineOptions& pipeline) {
    std::vector<AblationRow> rows{
        {.name = "none", .parts = {.dependency = false, .copy_streams = false, .portals = false}},
        {.name = "+ dependency", .parts = {.dependency = true, .copy_streams = false, .portals = false}},
        {.name = "+ copy streams", .parts = {.dependency = true, .copy_streams = true, .portals = false}},
        {.name = "+ portals", .parts = {.dependency = true, .copy_streams = true, .portals = true}},
        {.name = "scheduled", .driver = Driver::scheduled}};
    const bool on_host = std::all_of(pipeline.hardware.devices.begin(), pipeline.hardware.devices.end(),
                                     [](const std::string& device) { return device == "cpu"; });
    if (on_host) {
        rows[2].skipped_because = "lanes of a CPU share memory: there are no copies that streams could overlap";
    }
    return rows;
}

struct Turns {
    std::vector<double> samples_per_second;
    std::vector<double> utilizations;
};

void take_turn(const ModelSpec& model, const AblationPlan& plan, AblationRow& row, Turns& turns) {
    TrainingOptions training;
    training.pipeline = plan.pipeline;
    training.steps = plan.steps + 1;
    training.warmup = 1;
    training.seed = plan.seed;
    training.driver = row.driver;
    training.autograd = row.parts;
    const TrainingResult result = train_recorded(model, training);
    if (result.interrupted) {
        return;
    }
    const std::vector<Nanoseconds> times = measured_step_times(result);
    turns.samples_per_second.push_back(1e9 * static_cast<double>(plan.pipeline.batch) /
                                       static_cast<double>(median(times).count()));
    if (!result.bubble_fraction) {
        throw Error("the recorder lost ranges of a run, so that its utilization is unknown; use fewer --steps");
    }
    turns.utilizations.push_back(1 - *result.bubble_fraction);
    row.peak_bytes.resize(result.lanes.size());
    for (std::size_t lane = 0; lane < result.lanes.size(); ++lane) {
        row.peak_bytes[lane] = std::max(row.peak_bytes[lane], result.lanes[lane].peak_bytes);
    }
}
}  // namespace

std::vector<AblationRow> run_ablation(const ModelSpec& model, const AblationPlan& plan) {
    std::vector<AblationRow> rows = rows_for(plan.pipeline);
    std::vector<Turns> turns(rows.size());
    const double total = static_cast<double>(plan.rounds) * static_cast<double>(rows.size());
    double done = 0;
    for (std::int64_t round = 0; round < plan.rounds; ++round) {
        for (std::size_t k = 0; k < rows.size() && stop_signal() == 0; ++k) {
            if (!rows[k].skipped_because) {
                take_turn(model, plan, rows[k], turns[k]);
            }
            if (plan.progress) {
                plan.progress(++done / total);
            }
        }
    }
    std::vector<AblationRow> shown;
    for (std::size_t k = 0; k < rows.size(); ++k) {
        const bool measured = !turns[k].utilizations.empty();  // false if the command was asked to stop before
        if (measured) {
            rows[k].samples_per_second = median(turns[k].samples_per_second);
            rows[k].utilization = median(turns[k].utilizations);
        }
        if (measured || rows[k].skipped_because) {
            shown.push_back(std::move(rows[k]));
        }
    }
    if (turns.front().utilizations.empty()) {
        throw Interrupted();
    }
    return shown;
}

nlohmann::ordered_json ablation_json(const std::string& model, const PipelineOptions& pipeline,
                                     const std::vector<AblationRow>& rows) {
    using Json = nlohmann::ordered_json;
    Json object{{"model", model},
                {"balance", pipeline.balance.layers_per_partition()},
                {"chunks", pipeline.chunks},
                {"batch", pipeline.batch},
                {"checkpoint", to_string(pipeline.checkpoint)},
                {"devices", pipeline.hardware.devices},
                {"rows", Json::array()}};
    for (const AblationRow& row : rows) {
        Json each{{"name", row.name}, {"driver", row.driver == Driver::autograd ? "autograd" : "scheduled"}};
        if (row.driver == Driver::autograd) {
            each["dependency"] = row.parts.dependency;
            each["copy_streams"] = row.parts.copy_streams;
            each["portals"] = row.parts.portals;
        }
        if (row.skipped_because) {
            each["skipped_because"] = *row.skipped_because;
        } else {
            each["samples_per_second"] = row.samples_per_second;
            each["utilization"] = row.utilization;
            each["peak_bytes"] = row.peak_bytes;
        }
        object["rows"].push_back(std::move(each));
    }
    return object;
}

std::string ablation_text(const std::vector<AblationRow>& rows, bool markdown) {
    TextTable table({{"driver", Align::left},
                     {"parts", Align::left},
                     {"samples/s"},
                     {"against none"},
                     {"utilization"},
                     {"memory of all lanes"}});
    std::string notes;
    for (const AblationRow& row : rows) {
        const std::string driver = row.driver == Driver::autograd ? "autograd" : "scheduled";
        const std::string parts = row.driver == Driver::autograd ? row.name : "";
        if (row.skipped_because) {
            table.add_row({driver, parts, "not run", "", "", ""});
            notes += fmt::format("{}: {}\n", row.name, *row.skipped_because);
            continue;
        }
        table.add_row({driver, parts, fmt::format("{:.2f}", row.samples_per_second),
                       fmt::format("{:.2f}x", row.samples_per_second / rows.front().samples_per_second),
                       format_percent(row.utilization),
                       format_bytes(std::accumulate(row.peak_bytes.begin(), row.peak_bytes.end(), Bytes{0}))});
    }
    if (!notes.empty()) {
        notes +=
            "On a CPU autograd runs a graph in the thread that called backward, so its driver's lanes overlap only in "
            "the forward.\n";
    }
    return (markdown ? table.markdown() : table.str()) + (notes.empty() ? "" : "\n" + notes);
}
}  // namespace pipescope
