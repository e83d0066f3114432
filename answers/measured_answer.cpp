#include "answers/measured_answer.h"

#include "answers/text_table.h"
#include "answers/units.h"
#include "base/csv_rows.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "cluster/language_model.h"
#include "simulator/memory/memory_fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>

namespace pipescope {
namespace {
constexpr std::size_t kMostSteps = 1000;
constexpr const char* kPage = "; see docs/program-format.md";

struct Row {
    SimulateQuestion question;
    LayoutQuestion layout;
    MeasuredStep step;
};

/// The options of a row, which say what differs between steps of one model on one cluster.
std::set<std::string> row_options() {
    LayoutQuestion layout;
    OptionTable table;
    add_layout_options(table, layout);
    std::set<std::string> names{"batch", "recompute", "dtype", "device-types", "optimizer", "schedule"};
    for (const OptionRow& row : table.rows()) {
        names.insert(row.name);
    }
    names.erase("cluster");
    names.erase("program");
    return names;
}

/// "data_parallel" and "--data-parallel" are the option data-parallel.
std::string option_of(std::string column) {
    std::ranges::replace(column, '_', '-');
    const std::size_t first = column.find_first_not_of('-');
    return first == std::string::npos ? column : column.substr(first);
}

void check_columns(const CsvRow& row, const std::string& file) {
    const std::set<std::string> options = row_options();
    std::set<std::string> names;
    for (const auto& [column, cell] : row.values()) {
        const std::string name = option_of(column);
        if (!options.contains(name) && name != "seconds" && name != "gib") {
            throw UsageError(file + ": column '" + printable(name) + "' is unknown; the columns are seconds, gib, " +
                             joined_text(options, ", ", std::identity()) + kPage);
        }
        if (!names.insert(name).second) {
            throw UsageError(file + ": column " + name + " appears twice; keep one" + kPage);
        }
    }
    if (!names.contains("seconds")) {
        throw UsageError(file + ": column seconds is missing; it says how long a step took; add it" + kPage);
    }
}

double amount_of(const std::string& text, const std::string& column) {
    const auto value = number_in<double>(text);
    if (!value || !(*value > 0 && *value < 1e9)) {
        throw UsageError(column + " is '" + printable(text) + "'; it must be above 0; write it as 1.25" + kPage);
    }
    return *value;
}

bool truth_of(const std::string& text, const std::string& column) {
    if (text != "yes" && text != "no") {
        throw UsageError(column + " is '" + printable(text) + "'; write yes or no" + kPage);
    }
    return text == "yes";
}

void take_cell(Row& row, OptionTable& table, const std::string& column, const std::string& cell) {
    constexpr double kGiB = 1024.0 * 1024 * 1024;
    if (column == "seconds") {
        row.step.ns = 1e9 * amount_of(cell, column);
    } else if (column == "gib" && !cell.empty()) {
        row.step.bytes = kGiB * amount_of(cell, column);
    } else if (!cell.empty()) {
        OptionRow& option = table.row(column);
        if (!option.is_flag()) {
            option.set(cell);
        } else if (truth_of(cell, column)) {
            option.take("");
        }
    }
}

Row row_of(const SimulateQuestion& question, const LayoutQuestion& layout, const CsvRow& cells) {
    Row row{question, layout, {}};
    OptionTable table;
    add_simulate_options(table, row.question);
    add_layout_options(table, row.layout);
    for (const auto& [column, cell] : cells.values()) {
        try {
            take_cell(row, table, option_of(column), cell);
        } catch (const UsageError& fault) {
            throw UsageError(cells.place() + ": " + fault.what());
        }
    }
    return row;
}

std::vector<Row> rows_of(const SimulateQuestion& question, const LayoutQuestion& layout,
                         const std::filesystem::path& file) {
    std::vector<Row> rows;
    for (const CsvRow& cells : read_csv_rows(file, "a CSV of measured steps", kMostSteps)) {
        if (rows.empty()) {
            check_columns(cells, file.string());
        }
        rows.push_back(row_of(question, layout, cells));
    }
    return rows;
}
}  // namespace

MeasuredAnswer measured_answer(const ModelOrProfile& what, const SimulateQuestion& question,
                               const LayoutQuestion& layout, const std::filesystem::path& file) {
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
        calibrated(program, steps, device, what.model().experts > 0, [&](std::size_t k, const TrainingProgram& tried) {
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

nlohmann::ordered_json with_measured(nlohmann::ordered_json object, const std::optional<MeasuredAnswer>& measured) {
    if (measured) {
        object["measured"] = to_json(*measured);
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
