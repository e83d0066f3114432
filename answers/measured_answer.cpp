#include "answers/measured_answer.h"

#include "answers/or_null.h"
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
constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr const char* kPage = "; see docs/program-format.md";

struct Row {
    std::string place;  ///< "runs.csv, line 2"
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
    constexpr double kLeast = 1e-9;
    constexpr double kMost = 1e9;
    if (!value || !(*value >= kLeast && *value < kMost)) {
        throw UsageError(column + " is '" + printable(text) + "'; it must be from 1e-9 to below 1e9; write it as 1.25" +
                         kPage);
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

/// What the row does not say is as the question has it.
Row row_of(const SimulateQuestion& question, const LayoutQuestion& layout, const CsvRow& cells) {
    Row row{cells.place(), question, layout, {}};
    OptionTable table;
    add_simulate_options(table, row.question);
    add_layout_options(table, row.layout);
    for (const auto& [column, cell] : cells.values()) {
        try {
            take_cell(row, table, option_of(column), cell);
        } catch (const UsageError& fault) {
            throw UsageError(row.place + ": " + fault.what());
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

/// The step's layout, as the row says it. Throws UsageError that begins with the row's place.
LayoutStep step_of(const ModelOrProfile& what, const Row& row) {
    try {
        return layout_step(what, row.layout, row.question.pipeline);
    } catch (const UsageError& fault) {
        throw UsageError(row.place + ": " + fault.what());
    }
}

/// Operations a second that the step's devices can do at most, in the quickest of its dtypes; 0: unknown.
double peak_of(const LayoutStep& step, const Cluster& cluster) {
    const Layout& layout = step.layout;
    double sum = 0;
    for (const PipelinePart& part : parse_pipeline_parts(step.device, cluster, layout.pipeline)) {
        double most = 0;
        for (const std::string& dtype : {layout.dtype, layout.product_dtype}) {
            const auto& rates = part.group->device.flops_per_second;
            const auto found = rates.find(dtype);
            most = std::max(most, found == rates.end() ? 0 : found->second);
        }
        sum += most * static_cast<double>(part.lanes * layout.stage_devices());
    }
    return sum;
}

/// Refuses a step that its devices cannot have run: it needs more operations a second than their peak, or more memory
/// than they have. Predicted tensors may be off, so they may exceed the memory as far as those of published runs do.
void check_possible(const Row& row, const LayoutStep& step, const Cluster& cluster) {
    constexpr const char* kRemedy =
        "; check seconds and batch, and add the columns that say the layout, such as data-parallel, tensor-parallel, "
        "partitions, zero and recompute: what a row does not say is as in the command, and plan gives no layout";
    const std::string place = row.place + ": ";
    const std::string devices = counted(step.layout.devices(), "device", "devices") + " of type " + step.device;
    constexpr double kTera = 1e12;
    const double rate = std::min(step.model_flops, step.causal_flops) / row.step.ns * 1e9;
    if (const double peak = peak_of(step, cluster); peak > 0 && rate > peak) {
        throw UsageError(
            fmt::format("{}seconds is {}; the step's {:.4g} TFLOP then take {:.4g} TFLOP/s on {}, whose "
                        "peak is {:.4g}{}{}",
                        place, shortest(row.step.ns / 1e9), rate * row.step.ns / 1e9 / kTera, rate / kTera, devices,
                        peak / kTera, kRemedy, kPage));
    }
    const Bytes memory = std::ranges::max(step.memory, {}, &TypeMemory::bytes).bytes;
    if (row.step.bytes && *row.step.bytes > static_cast<double>(memory)) {
        throw UsageError(
            fmt::format("{}gib is {}; a device of type {} has {}; write the most memory that one device "
                        "showed, in GiB{}",
                        place, shortest(*row.step.bytes / kGiB), step.device, format_bytes(memory), kPage));
    }
    const Bytes tensors = highest_peak(step.simulation);
    const Bytes shown = step.layout.how().shown_bytes(tensors);
    if (static_cast<double>(shown) * step.range.peak_low > static_cast<double>(memory)) {
        throw UsageError(
            fmt::format("{}the layout {} needs {} of tensors on a device of {}, so no such step can run{}{}", place,
                        to_string(step.layout), format_bytes(tensors), format_bytes(memory), kRemedy, kPage));
    }
}
/// Refuses rows that cannot be of one program: it makes all steps slower or quicker than predicted, not a single one.
void check_alike(const MeasuredAnswer& answer, const std::vector<MeasuredStep>& steps,
                 const std::vector<double>& predicted) {
    constexpr double kMostRatio = 10;
    std::vector<double> ratios;
    for (std::size_t k = 0; k < steps.size(); ++k) {
        ratios.push_back(steps[k].ns / predicted[k]);
    }
    const auto [least, most] = std::ranges::minmax_element(ratios);
    if (*most > kMostRatio * *least) {
        const auto about = [&](auto ratio) {
            const auto k = static_cast<std::size_t>(ratio - ratios.begin());
            return fmt::format("{}, seconds {}: {:.3g} of its prediction", answer.places[k],
                               shortest(steps[k].ns / 1e9), *ratio);
        };
        throw UsageError(
            fmt::format("{}; {}; steps of one program differ from their predictions by factors that are at "
                        "most {} times as large as each other; check the unit of seconds and the layouts{}",
                        about(most), about(least), kMostRatio, kPage));
    }
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
    std::vector<double> predicted;  // ns
    std::string device;
    const Cluster cluster = cluster_of(layout, question.pipeline);
    for (const Row& row : rows) {
        const LayoutStep step = step_of(what, row);
        if (!device.empty() && device != step.device) {
            throw UsageError(file.string() + " has steps on " + device + " and " + step.device +
                             "; a program is fitted to one type of device; make a file for each");
        }
        check_possible(row, step, cluster);
        device = step.device;
        answer.layouts.push_back(to_string(step.layout));
        answer.places.push_back(row.place);
        answer.batches.push_back(step.layout.batch);
        steps.push_back(row.step);
        predicted.push_back(step.step_ns());
    }
    check_alike(answer, steps, predicted);
    TrainingProgram program = layout.layout.how();
    answer.fit = fitted_program(
        program, steps, device, what.model().experts > 0, [&](std::size_t k, const TrainingProgram& tried) {
            Row row = rows[k];
            row.layout.layout.program = std::make_shared<const TrainingProgram>(tried);
            const LayoutStep step = step_of(what, row);
            return PredictedStep{step.step_ns(), static_cast<double>(highest_peak(step.simulation))};
        });
    answer.measured = std::move(steps);
    TrainingProgram& found = answer.fit.program;
    found.source = fmt::format("{} fitted to {} on {}", program.name.empty() ? "no program" : program.name,
                               counted(rows.size(), "measured step", "measured steps"), device) +
                   (program.source.empty() ? "" : "; " + program.source);
    found.name = program.name.empty() ? "measured" : program.name + std::string(kMeasuredName);
    return answer;
}

namespace {
/// What a device shows in the fitted program, over what it showed, less 1. Empty without measured memory, and if no
/// program says what a process holds besides tensors.
std::optional<double> memory_error(const MeasuredAnswer& answer, std::size_t step) {
    const TrainingProgram& program = answer.fit.program;
    const std::optional<double>& bytes = answer.measured[step].bytes;
    if (!bytes || !program.context_bytes) {
        return std::nullopt;
    }
    const Bytes tensors = std::llround(answer.fit.tensor_bytes[step]);
    return static_cast<double>(program.shown_bytes(tensors)) / *bytes - 1;
}

/// Why memory is not fitted although it was measured; empty if it is, or was not.
std::string memory_text(const MeasuredAnswer& answer) {
    const ProgramFit& found = answer.fit;
    if (!found.below_tensors) {
        return "";
    }
    const std::size_t k = *found.below_tensors;
    const auto bytes = [](double number) { return format_bytes(std::llround(number)); };
    return fmt::format(
        "{}: a device showed {}, less than its predicted tensors of {}{}; such a peak cannot say what a process holds "
        "besides tensors, so {} stays; check gib, recompute and zero",
        answer.places[k], bytes(*answer.measured[k].bytes), bytes(found.tensor_bytes[k]),
        found.program.reserved_share > 0 ? " with the allocator's share" : "",
        found.program.context_bytes ? "context_bytes of the program" : "the device's headroom");
}
}  // namespace

nlohmann::ordered_json to_json(const MeasuredAnswer& answer) {
    const ProgramFit& found = answer.fit;
    nlohmann::ordered_json object{{"program", found.program.name}, {"work_factor", found.program.work_factor}};
    object["step_ns"] = found.fits_step ? nlohmann::ordered_json(found.program.step_ns) : nullptr;
    object["context_bytes"] =
        found.fits_context ? nlohmann::ordered_json(*found.program.context_bytes) : nlohmann::ordered_json(nullptr);
    object["memory_not_fitted_because"] = text_or_null(memory_text(answer));
    object["mean_error_left_out"] = found.left_out.empty() ? nlohmann::ordered_json(nullptr)
                                                           : nlohmann::ordered_json(mean_absolute(found.left_out));
    for (std::size_t k = 0; k < answer.layouts.size(); ++k) {
        const std::optional<double>& bytes = answer.measured[k].bytes;
        object["steps"].push_back(
            {{"layout", answer.layouts[k]},
             {"batch", answer.batches[k]},
             {"measured_ns", std::llround(answer.measured[k].ns)},
             {"error_before", found.before[k]},
             {"error_after", found.after[k]},
             {"error_left_out",
              found.left_out.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(found.left_out[k])},
             {"measured_bytes", bytes ? nlohmann::ordered_json(std::llround(*bytes)) : nlohmann::ordered_json(nullptr)},
             {"tensor_bytes", std::llround(found.tensor_bytes[k])},
             {"memory_error_after", or_null(memory_error(answer, k))}});
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
    const ProgramFit& found = answer.fit;
    std::string text = fmt::format("{}: work_factor {:.4g}", found.program.name, found.program.work_factor);
    text += found.fits_step ? fmt::format(", step_ns {:.4g}", found.program.step_ns) : "";
    text += found.fits_context ? fmt::format(", context_bytes {}", *found.program.context_bytes) : "";
    text += fmt::format(", fitted to {}\n", counted(answer.layouts.size(), "measured step", "measured steps"));
    std::vector<Column> columns{{"layout", Align::left}, {"batch"},  {"measured"},
                                {"error before"},        {"fitted"}, {"left out"}};
    const bool has_memory =
        std::ranges::any_of(answer.measured, [](const MeasuredStep& each) { return each.bytes.has_value(); });
    if (has_memory) {
        columns.insert(columns.end(), {{"memory"}, {"tensors"}, {"memory fitted"}});
    }
    TextTable table(columns);
    for (std::size_t k = 0; k < answer.layouts.size(); ++k) {
        const MeasuredStep& step = answer.measured[k];
        std::vector<std::string> cells{answer.layouts[k],
                                       std::to_string(answer.batches[k]),
                                       format_duration(Nanoseconds{std::llround(step.ns)}),
                                       format_error_percent(found.before[k]),
                                       format_error_percent(found.after[k]),
                                       found.left_out.empty() ? "" : format_error_percent(found.left_out[k])};
        if (has_memory) {
            cells.push_back(step.bytes ? format_bytes(std::llround(*step.bytes)) : "");
            cells.push_back(format_bytes(std::llround(found.tensor_bytes[k])));
            cells.push_back(format_error_percent(memory_error(answer, k)));
        }
        table.add_row(std::move(cells));
    }
    text += table.str();
    if (const std::string why = memory_text(answer); !why.empty()) {
        text += why + "\n";
    }
    return text + (found.left_out.empty()
                       ? "one step cannot say how far others lie\n"
                       : fmt::format("mean error of steps left out: {:.1f} %\n", 100 * mean_absolute(found.left_out)));
}
}  // namespace pipescope
