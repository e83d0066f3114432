#include "answers/measured_answer.h"

#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "base/text_file.h"
#include "cluster/language_model.h"
#include "simulator/memory/memory_fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <sstream>

namespace pipescope {
namespace {
constexpr std::size_t kMostSteps = 1000;
constexpr const char* kColumns[] = {"partitions",
                                    "data-parallel",
                                    "tensor-parallel",
                                    "context-parallel",
                                    "expert-parallel",
                                    "interleave",
                                    "micro-batch-size",
                                    "sequence-parallel",
                                    "zero",
                                    "cuts",
                                    "batch",
                                    "recompute",
                                    "dtype",
                                    "device-types",
                                    "gradient-bytes",
                                    "gradient-bucket",
                                    "sends",
                                    "token-dispatch",
                                    "seconds",
                                    "gib"};

struct Row {
    SimulateQuestion question;
    LayoutQuestion layout;
    MeasuredStep step;
};

std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) {
        cells.push_back(trimmed(cell));
    }
    if (line.ends_with(',')) {
        cells.emplace_back();
    }
    return cells;
}

[[noreturn]] void refuse_at(const std::string& place, const std::string& fault) {
    throw UsageError(place + ": " + fault + "; see docs/program-format.md");
}

std::vector<std::string> header_of(const std::string& line, const std::string& place) {
    std::vector<std::string> header = cells_of(line);
    std::set<std::string> names;
    for (std::string& name : header) {
        std::ranges::replace(name, '_', '-');
        name.erase(0, name.find_first_not_of('-') == std::string::npos ? 0 : name.find_first_not_of('-'));
        if (std::ranges::find(kColumns, name) == std::end(kColumns)) {
            std::string all;
            for (const char* each : kColumns) {
                all += (all.empty() ? "" : ", ") + std::string(each);
            }
            refuse_at(place, "column '" + printable(name) + "' is unknown; the columns are " + all);
        }
        if (!names.insert(name).second) {
            refuse_at(place, "column " + name + " appears twice; keep one");
        }
    }
    if (!names.contains("seconds")) {
        refuse_at(place, "column seconds is missing; it says how long a step took; add it");
    }
    return header;
}

double amount_of(const std::string& text, const std::string& column, const std::string& place) {
    const auto value = number_in<double>(text);
    if (!value || !(*value > 0 && *value < 1e9)) {
        refuse_at(place, column + " is '" + printable(text) + "'; it must be above 0; write it as 1.25");
    }
    return *value;
}

bool truth_of(const std::string& text, const std::string& column, const std::string& place) {
    if (text != "yes" && text != "no") {
        refuse_at(place, column + " is '" + printable(text) + "'; write yes or no");
    }
    return text == "yes";
}

Row row_of(const SimulateQuestion& question, const LayoutQuestion& layout, const std::vector<std::string>& header,
           const std::vector<std::string>& cells, const std::string& place) {
    Row row{question, layout, {}};
    if (cells.size() != header.size()) {
        refuse_at(place,
                  fmt::format("it has {} cells; the header has {}; correct the line", cells.size(), header.size()));
    }
    OptionTable table;
    add_simulate_options(table, row.question);
    add_layout_options(table, row.layout);
    for (std::size_t k = 0; k < cells.size(); ++k) {
        constexpr double kGiB = 1024.0 * 1024 * 1024;
        if (header[k] == "seconds") {
            row.step.ns = 1e9 * amount_of(cells[k], header[k], place);
        } else if (cells[k].empty()) {
            continue;
        } else if (header[k] == "gib") {
            row.step.bytes = kGiB * amount_of(cells[k], header[k], place);
        } else if (header[k] == "sequence-parallel") {
            row.layout.layout.sequence_parallel = truth_of(cells[k], header[k], place);
        } else {
            try {
                table.row(header[k]).set(cells[k]);
            } catch (const UsageError& fault) {
                refuse_at(place, fault.what());
            }
        }
    }
    return row;
}

std::vector<Row> rows_of(const SimulateQuestion& question, const LayoutQuestion& layout,
                         const std::filesystem::path& file) {
    std::istringstream lines(read_text_as<UsageError>(file, {"a CSV of measured steps", "see docs/program-format.md"}));
    std::vector<Row> rows;
    std::vector<std::string> header;
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        const std::string place = fmt::format("{}, line {}", file.string(), ++number);
        if (trimmed(line).empty() || line.starts_with('#')) {
            continue;
        }
        if (header.empty()) {
            header = header_of(line, place);
        } else if (rows.size() == kMostSteps) {
            refuse_at(place, fmt::format("more than {} steps; keep those that differ", kMostSteps));
        } else {
            rows.push_back(row_of(question, layout, header, cells_of(line), place));
        }
    }
    if (rows.empty()) {
        refuse_at(file.string(), "it has no step below its header; add a line with seconds");
    }
    return rows;
}
}  // namespace

MeasuredAnswer measured_answer(const SimulateQuestion& question, const LayoutQuestion& layout,
                               const std::filesystem::path& file) {
    const ModelOrProfile what{question.profile};
    if (!what.is_model()) {
        throw UsageError(option_name("measured") +
                         " is given with a profile, whose layers were measured; leave it out, or name a gpt: model");
    }
    const std::vector<Row> rows = rows_of(question, layout, file);
    MeasuredAnswer answer;
    std::vector<MeasuredStep> steps;
    std::string device;
    for (const Row& row : rows) {
        const LayoutStep step = layout_step(what, row.layout, row.question.pipeline);
        if (!device.empty() && device != step.device) {
            throw UsageError(file.string() + " has steps on " + device + " and " + step.device +
                             "; a program is fitted to one type of device; make a file for each");
        }
        device = step.device;
        answer.layouts.push_back(to_string(step.layout));
        answer.measured_ns.push_back(row.step.ns);
        steps.push_back(row.step);
    }
    TrainingProgram program = layout.layout.how();
    answer.calibration =
        calibrated(program, steps, device, parse_language_model(what.name).experts > 0,
                   [&](std::size_t k, const TrainingProgram& tried) {
                       Row row = rows[k];
                       row.layout.layout.program = std::make_shared<const TrainingProgram>(tried);
                       const LayoutStep step = layout_step(what, row.layout, row.question.pipeline);
                       return PredictedStep{step.step_ns(), static_cast<double>(highest_peak(step.simulation))};
                   });
    TrainingProgram& found = answer.calibration.program;
    found.source = fmt::format("{} fitted to {} on {}", program.name.empty() ? "no program" : program.name,
                               counted(rows.size(), "measured step", "measured steps"), device) +
                   (program.source.empty() ? "" : "; " + program.source);
    found.name = program.name.empty() ? "measured" : program.name + "-measured";
    return answer;
}

nlohmann::ordered_json to_json(const MeasuredAnswer& answer) {
    const Calibration& found = answer.calibration;
    nlohmann::ordered_json object{{"program", found.program.name}, {"work_factor", found.program.work_factor}};
    object["step_ns"] = found.fits_step ? nlohmann::ordered_json(found.program.step_ns) : nullptr;
    object["context_bytes"] =
        found.fits_context ? nlohmann::ordered_json(*found.program.context_bytes) : nlohmann::ordered_json(nullptr);
    object["mean_error_left_out"] = found.left_out.empty() ? nlohmann::ordered_json(nullptr)
                                                           : nlohmann::ordered_json(mean_absolute(found.left_out));
    for (std::size_t k = 0; k < answer.layouts.size(); ++k) {
        object["steps"].push_back(
            {{"layout", answer.layouts[k]},
             {"measured_ns", std::llround(answer.measured_ns[k])},
             {"error_before", found.before[k]},
             {"error_after", found.after[k]},
             {"error_left_out",
              found.left_out.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(found.left_out[k])}});
    }
    return object;
}

std::string to_text(const MeasuredAnswer& answer) {
    const Calibration& found = answer.calibration;
    std::string text = fmt::format("{}: work_factor {:.4g}", found.program.name, found.program.work_factor);
    text += found.fits_step ? fmt::format(", step_ns {:.4g}", found.program.step_ns) : "";
    text += found.fits_context ? fmt::format(", context_bytes {}", *found.program.context_bytes) : "";
    text += fmt::format(", fitted to {}\n", counted(answer.layouts.size(), "measured step", "measured steps"));
    TextTable table({{"layout", Align::left}, {"measured"}, {"error before"}, {"fitted"}, {"left out"}});
    const auto percent = [](double error) { return fmt::format("{:+.1f} %", 100 * error); };
    for (std::size_t k = 0; k < answer.layouts.size(); ++k) {
        table.add_row({answer.layouts[k], format_duration(Nanoseconds{std::llround(answer.measured_ns[k])}),
                       percent(found.before[k]), percent(found.after[k]),
                       found.left_out.empty() ? "" : percent(found.left_out[k])});
    }
    text += table.str();
    return text + (found.left_out.empty()
                       ? "one step cannot say how far others lie\n"
                       : fmt::format("mean error of steps left out: {:.1f} %\n", 100 * mean_absolute(found.left_out)));
}
}  // namespace pipescope
