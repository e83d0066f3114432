#include "gui/report/page_tables.h"

#include "answers/advice_report.h"
#include "gui/document/baseline.h"
#include "gui/document/headlines.h"
#include "gui/document/step_analysis.h"
#include "gui/document/throughput.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/plan/planner.h"
#include "trace/store/sql_query.h"

#include <nlohmann/json.hpp>

#include <QFileInfo>
#include <QLocale>

#include <algorithm>
#include <cmath>
#include <functional>

namespace pipescope {
namespace {
template <class T, class Format>
QString orUnknown(const std::optional<T>& value, Format format) {
    return value ? format(*value) : unknownValue();
}

QString number(std::int64_t value) {
    return QLocale().toString(static_cast<qlonglong>(value));
}

QString duration(Nanoseconds time) {
    return formatDuration(time.count());
}

/// Reason to withhold the bubble fraction of the compared steps; empty if it is known.
QString refusal(const TraceDocument& document) {
    const QString why = document.whyNoBubble();
    return why.isEmpty() ? why : translated("not shown: %1").arg(why);
}

QString modelOf(const TraceDocument& document) {
    return QString::fromStdString(document.run.model);
}

QString placementText(const PipelineOptions& options) {
    QStringList lanes;
    for (const LaneId lane : options.placement) {
        lanes << number(lane.value());
    }
    return lanes.isEmpty() ? translated("each on its own") : lanes.join(QStringLiteral(", "));
}

QString devicesText(const PipelineOptions& options) {
    QStringList devices;
    for (const std::string& device : options.hardware.devices) {
        devices << QString::fromStdString(device);
    }
    return devices.isEmpty() ? translated("one for each lane") : devices.join(QStringLiteral(", "));
}

QString linkText(const Link& link) {
    if (link.is_free()) {
        return translated("copies cost nothing");
    }
    QStringList parts;
    parts << (!link.times.empty()         ? translated("measured times of messages")
              : link.bytes_per_second > 0 ? formatRate(link.bytes_per_second)
                                          : translated("unlimited bandwidth"));
    if (link.latency_ns > 0) {
        parts << translated("latency %1").arg(formatDuration(std::llround(link.latency_ns)));
    }
    if (link.sharing != LinkSharing::none) {
        parts << translated("shared: %1").arg(QString::fromStdString(to_string(link.sharing)));
    }
    if (link.protocol != LinkProtocol::eager) {
        parts << QString::fromStdString(to_string(link.protocol));
    }
    return parts.join(QStringLiteral(", "));
}

/// One limit if all lanes have the same.
QString limitsText(const PipelineOptions& options) {
    const std::vector<Bytes> limits = memory_limits_of(options.hardware, num_lanes(options));
    if (limits.empty()) {
        return translated("none");
    }
    QStringList lanes;
    for (const Bytes limit : limits) {
        lanes << formatBytes(limit);
    }
    const bool same = std::adjacent_find(limits.begin(), limits.end(), std::not_equal_to<>()) == limits.end();
    return same ? lanes.front() : lanes.join(QStringLiteral(", "));
}

/// "16 samples in 4 micro-batches"
QString batchText(const RecordedRun& run) {
    const QString pieces = formatCount(run.options->chunks, translated("micro-batch"), translated("micro-batches"));
    const std::optional<std::int64_t> batch = known_batch(run);
    return batch ? translated("%1 in %2").arg(formatCount(*batch, translated("sample"), translated("samples")), pieces)
                 : pieces;
}

PageTable configuration(const TraceDocument& document) {
    PageTable table{translated("Configuration"), {translated("Setting"), translated("Value")}, {}, {}};
    const auto add = [&](const QString& name, const QString& value) { table.rows.push_back({name, value}); };
    add(translated("File"), QFileInfo(document.path).fileName());
    add(translated("Model"), document.run.model.empty() ? unknownValue() : modelOf(document));
    if (document.baseline) {
        add(translated("Earlier run"), QFileInfo(document.baseline->path).fileName());
        for (const auto& [name, run] : {std::pair(translated("after"), &document.run),
                                        {translated("before"), &document.baseline->compared.run}}) {
            if (run->options) {
                add(translated("Pipeline %1").arg(name),
                    translated("%1, balance %2, %3, checkpoint %4, %5")
                        .arg(QString::fromStdString(to_string(run->options->schedule)),
                             QString::fromStdString(to_string(run->options->balance)), batchText(*run),
                             QString::fromStdString(to_string(run->options->checkpoint)), devicesText(*run->options)));
            }
        }
        return table;
    }
    const std::optional<PipelineOptions> known =
        document.simulation ? std::optional(document.simulation->options) : document.run.options;
    const QString why = QString::fromStdString(document.run.why_not_simulated);
    if (!known) {
        table.note = why.isEmpty() ? translated("The file does not say how the run was configured.")
                                   : translated("It is not known how the run was configured: the file %1.").arg(why);
        return table;
    }
    if (!document.simulation && !why.isEmpty()) {
        table.note = translated("As the file says, which %1.").arg(why);
    }
    const PipelineOptions& options = *known;
    add(translated("Schedule"), QString::fromStdString(to_string(options.schedule)));
    add(translated("Updates"), QString::fromStdString(to_string(options.update)));
    add(translated("Balance (layers per partition)"), QString::fromStdString(to_string(options.balance)));
    add(translated("Micro-batches"),
        number(document.simulation ? document.simulation->micro_batches
                                   : std::min(options.chunks, options.batch / std::max(1, options.replicas))));
    add(translated("Mini-batch"), is_batch_unknown(document.run)
                                      ? unknownValue()
                                      : formatCount(options.batch, translated("sample"), translated("samples")));
    add(translated("Checkpoint"), checkpointText(document.run, options));
    const bool hasDtype = document.simulation && !document.simulation->dtype.empty();
    add(translated("Dtype"), hasDtype ? QString::fromStdString(document.simulation->dtype) : unknownValue());
    add(translated("Optimizer"), optimizerText(document.run, options));
    add(translated("Placement (lane of each partition)"), placementText(options));
    add(translated("Devices"), devicesText(options));
    add(translated("Link"), linkText(options.hardware.link));
    add(translated("Replicas"), number(options.replicas));
    add(translated("Micro-batches in flight"),
        options.most_in_flight > 0 ? translated("at most %1").arg(options.most_in_flight) : translated("not limited"));
    if (document.simulation) {  // other options may fit no number of lanes
        add(translated("Memory limit per lane"), limitsText(options));
    }
    return table;
}

constexpr const char* kPeakName = "Peak memory of the fullest lane";

/// The highest peak of all lanes; empty if none is known.
std::optional<Bytes> highest(const std::vector<LaneFacts>& lanes, std::optional<Bytes> LaneFacts::*peak) {
    std::optional<Bytes> most;
    for (const LaneFacts& lane : lanes) {
        most = std::max(most, lane.*peak);  // an empty optional is less than any value
    }
    return most;
}

/// The highest peak over the compared steps.
void addPeak(const TraceDocument& document, PageTable& table) {
    std::optional<Bytes> measured;
    std::optional<Bytes> simulated;
    for (const ComparedLane& lane : document.comparison->lanes) {
        measured = std::max(measured, lane.measured_peak_bytes);
        simulated = std::max(simulated, lane.simulated_peak_bytes);  // an unknown one is less than any value
    }
    if (measured || simulated) {
        const bool both = measured && simulated && *measured > 0 && *simulated > 0;
        const auto over = [](Bytes a, Bytes b) { return static_cast<double>(a) / static_cast<double>(b); };
        const double ratio = !both ? 0 : document.baseline ? over(*measured, *simulated) : over(*simulated, *measured);
        table.rows.push_back({translated(kPeakName), orUnknown(measured, formatBytes),
                              orUnknown(simulated, formatBytes), both ? formatShareChange(ratio - 1) : unknownValue()});
    }
}

/// Rates of the judged steps, as far as the measured ones are known.
void addRates(const TraceDocument& document, const JudgedStep& judged, PageTable& table) {
    const std::array rates = ratesOf(throughputOf(document, Source::measured, judged.measured));
    const std::array others = ratesOf(throughputOf(document, Source::simulated, judged.simulated));
    for (std::size_t k = 0; k < rates.size(); ++k) {
        if (!rates[k].value.isEmpty()) {
            table.rows.push_back({rates[k].name, rates[k].value,
                                  others[k].value.isEmpty() ? unknownValue() : others[k].value, unknownValue()});
        }
    }
}

/// The simulated step of a file without measured ones. Like figuresTable(), it begins with step, bubble and memory.
PageTable simulatedTotals(const TraceDocument& document, std::int32_t step) {
    const Simulation& simulation = *document.simulation;
    PageTable table{translated("Simulated step"), {translated("Figure"), translated("Simulated")}, {}, {}};
    const StepFigures expected = expected_figures(simulation);
    const auto add = [&](const QString& name, const QString& value) { table.rows.push_back({name, value}); };
    add(simulation.noise ? translated("Step time, expected") : translated("Step time"), duration(expected.step));
    const bool isLayout = document.run.on_cluster.has_value();
    if (isLayout) {
        add(translated("Pipeline of the step"), duration(expected.step - simulation.after_pipeline));
    }
    add(isLayout ? translated("Pipeline's bubble") : translated("Bubble fraction"), formatShare(expected.bubble));
    if (const auto peak = highest(laneFacts(document, step), &LaneFacts::simulatedPeak)) {
        add(translated(kPeakName), formatBytes(*peak));
    }
    if (isLayout) {
        add(translated("Layout"), QString::fromStdString(document.run.on_cluster->layout));
    }
    if (simulation.noise) {
        const StepBand band = longer_by(*simulation.noise, simulation.after_pipeline);
        add(translated("Step time without noise"), duration(figures_without_noise(simulation).step));
        add(translated("Step time, 90 % of steps"),
            translated("%1 to %2").arg(duration(band.low), duration(band.high)));
    }
    add(isLayout ? translated("Pipeline's utilization") : translated("Utilization"), formatShare(expected.utilization));
    add(translated("Speedup over one device"), QLocale().toString(expected.speedup, 'f', 2) + QStringLiteral("×"));
    for (const Rate& rate : ratesOf(throughputOf(document, Source::simulated, expected.step))) {
        if (!rate.value.isEmpty()) {
            add(rate.name, rate.value);
        }
    }
    if (simulation.noise) {
        table.note = translated("Figures without remark are of the expected step.");
    }
    return table;
}

/// The table with a title and header in the words of the document.
PageTable inWords(const TraceDocument& document, PageTable table) {
    table.title = inWordsOf(document, table.title);
    for (QString& header : table.header) {
        header = inWordsOf(document, header);
    }
    return table;
}

PageTable largest(const TraceDocument& document) {
    PageTable table{translated("Tasks whose median durations differ most"),
                    {translated("Task"), translated("Measured"), translated("Simulated"), translated("Difference")},
                    {},
                    {}};
    if (!document.whyNoTwins.empty()) {
        table.note = translated("Not compared: %1.").arg(QString::fromStdString(document.whyNoTwins));
    }
    if (document.comparison) {
        for (const ComparedTask& each : document.comparison->worst) {
            table.rows.push_back(
                {translated("step %1: %2").arg(each.task.step).arg(taskName(shownKey(document, each.task))),
                 formatDuration(each.measured.count()), formatDuration(each.simulated.count()),
                 formatDurationChange(differenceOf(document, each.measured, each.simulated).count())});
        }
        if (!table.rows.empty()) {
            table.note = translated(
                "Medians over the compared steps, of which the task names the one with this median. "
                "A task that took long in a single step only is not listed.");
        }
    }
    return inWords(document, std::move(table));
}

PageTable unmatched(const TraceDocument& document) {
    PageTable table{
        translated("Unmatched tasks"), {translated("Reason"), translated("Tasks"), translated("Such as")}, {}, {}};
    for (const UnmatchedTasks& each : unmatchedTasks(document)) {
        QStringList examples;
        for (const TaskKey& task : each.examples) {
            examples << QString::fromStdString(to_string(task));
        }
        table.rows.push_back({each.reason, number(static_cast<std::int64_t>(each.count)),
                              examples.mid(0, 2).join(QStringLiteral(", "))});
    }
    return table;
}

/// The processes of a merged trace.
PageTable processes(const TraceDocument& document) {
    PageTable table{translated("Processes"),
                    {translated("Rank"), translated("Host"), translated("Process"), translated("Lanes"),
                     translated("Times are off by at most")},
                    {},
                    {}};
    for (const MergedProcess& process : document.run.processes) {
        QStringList lanes;
        for (const LaneId lane : process.lanes) {
            lanes << number(lane.value());
        }
        table.rows.push_back(
            {number(process.rank), process.host.empty() ? unknownValue() : QString::fromStdString(process.host),
             process.pid == 0 ? unknownValue() : QString::number(process.pid), lanes.join(QStringLiteral(", ")),
             process.bound ? formatDuration(process.bound->count()) : translated("unknown")});
    }
    return table;
}

QString shownFact(const SqlValue& value) {
    if (const auto* text = std::get_if<std::string>(&value)) {
        return QString::fromStdString(*text);
    }
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        return QString::number(*integer);
    }
    if (const auto* real = std::get_if<double>(&value)) {
        return QString::number(*real);
    }
    return {};
}

std::vector<QStringList> rowsOf(const QString& path, const char* sql) {
    std::vector<QStringList> rows;
    try {
        for (const std::vector<SqlValue>& row :
             query_sql(path.toStdString(), sql, {.most_rows = 100, .cancelled = {}}).rows) {
            QStringList cells;
            for (const SqlValue& value : row) {
                cells << shownFact(value);
            }
            rows.push_back(cells);
        }
    } catch (const Error&) {
        rows.clear();  // not a database, or no such table
    }
    return rows;
}

QString plain(const nlohmann::json& value) {
    const std::string text = value.is_string() ? value.get<std::string>()
                                               : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return QString::fromStdString(text);
}

/// Flattens {"machine": {"cpu": "x"}} to ("machine.cpu", "x").
void flatten(const QString& name, const nlohmann::json& value, std::vector<QStringList>& rows, int depth = 0) {
    constexpr int kDeepest = 4;
    if (!value.is_object() || depth == kDeepest) {
        rows.push_back({name, plain(value)});
        return;
    }
    for (const auto& [key, each] : value.items()) {
        const QString own = QString::fromStdString(key);
        flatten(name.isEmpty() ? own : name + QLatin1Char('.') + own, each, rows, depth + 1);
    }
}

/// Facts in a trace that no view shows. Empty if the file is not a PipeScope trace.
struct RunFacts {
    std::vector<QStringList> environment;  ///< property, value
    std::vector<QStringList> losses;       ///< source, recorded, dropped, truncated, open at exit
    std::vector<QStringList> diagnostics;  ///< severity, source, text
};

RunFacts readRunFacts(const QString& path) {
    RunFacts facts;
    for (const QStringList& row : rowsOf(path,
                                         "SELECT key, value FROM PIPESCOPE_RUN WHERE key IN ('environment', "
                                         "'recording_start') ORDER BY key DESC")) {
        const nlohmann::json value = nlohmann::json::parse(row[1].toStdString(), nullptr, false);
        if (!value.is_discarded()) {
            flatten(row[0] == QLatin1String("environment") ? QString() : QStringLiteral("recorded"), value,
                    facts.environment);
        }
    }
    facts.losses = rowsOf(path,
                          "SELECT source, sum(recorded), sum(dropped), sum(truncated), sum(openAtExit) "
                          "FROM PIPESCOPE_DROPS GROUP BY source ORDER BY source");
    facts.diagnostics = rowsOf(path, "SELECT severity, source, text FROM PIPESCOPE_DIAGNOSTIC ORDER BY severity DESC");
    return facts;
}
}  // namespace

QString pageTitle(const TraceDocument& document) {
    const QString file = QFileInfo(document.path).fileName();
    return document.run.model.empty() ? file : translated("%1 – %2").arg(modelOf(document), file);
}

PageTable figuresTable(const TraceDocument& document, std::int32_t step) {
    PageTable table{translated("Measured and simulated"),
                    {translated("Figure"), translated("Measured"), translated("Simulated"), translated("Difference")},
                    {},
                    {}};
    if (!document.comparison) {
        if (!document.measured && document.simulation && document.simulated) {
            return simulatedTotals(document, step);
        }
        table.note = translated("The file does not have two timelines to compare.");
        return table;
    }
    const Comparison& found = *document.comparison;
    const JudgedStep judged = found.judged();
    const bool stepKnown = document.whyNoStepTime().isEmpty();
    const bool otherKnown = !document.baseline || document.baseline->whyNoStepTime.isEmpty();
    table.rows.push_back({judged.is_mean ? translated("Step time, mean") : translated("Step time, median"),
                          stepKnown ? formatDuration(judged.measured.count()) : translated("refused"),
                          otherKnown ? formatDuration(judged.simulated.count()) : translated("refused"),
                          stepKnown && otherKnown
                              ? formatShareChange(document.baseline ? 1 / (1 + found.step_error) - 1 : found.step_error)
                              : unknownValue()});
    const QString refused = refusal(document);
    const QString lostBefore = document.baseline ? document.baseline->whyNoBubble : QString();
    const bool known = refused.isEmpty() && lostBefore.isEmpty();
    table.rows.push_back(
        {judged.is_mean ? translated("Bubble fraction, mean") : translated("Bubble fraction, median"),
         refused.isEmpty() ? formatShare(judged.measured_bubble) : refused,
         lostBefore.isEmpty() ? formatShare(judged.simulated_bubble) : translated("refused"),
         known ? pointsBetween(document, judged.measured_bubble, judged.simulated_bubble) : unknownValue()});
    addPeak(document, table);
    table.rows.push_back(
        {translated("Whole step, host included, median"), orUnknown(found.measured_wall_step_time, duration),
         document.baseline ? orUnknown(document.baseline->compared.figures->wall_step_time, duration) : unknownValue(),
         unknownValue()});
    if (stepKnown && otherKnown) {
        addRates(document, judged, table);
    }
    if (document.whyNoTwins.empty()) {
        table.rows.push_back({translated("Tasks with a twin"), number(found.tasks_matched), number(found.tasks_matched),
                              unknownValue()});
        table.rows.push_back({translated("Tasks without a twin (except the optimizer)"),
                              number(found.tasks_unmatched - found.tasks_only_simulated),
                              number(found.tasks_only_simulated), unknownValue()});
    }
    const std::size_t compared = found.steps.size();
    table.note = compared < document.comparableSteps
                     ? translated("Over %1 of %2 steps, evenly chosen, without warm-up.")
                           .arg(compared)
                           .arg(document.comparableSteps)
                     : translated("Over %1, without warm-up.")
                           .arg(formatCount(compared, translated("step"), translated("steps")));
    return inWords(document, std::move(table));
}

PageTable adviceTable(const Advice& advice) {
    PageTable table{translated("What to change"),
                    {translated("Change"), translated("Step time"), translated("Difference"), translated("Bubble"),
                     translated("Peak memory"), translated("Effect"), translated("Why")},
                    {},
                    {}};
    for (const Move& move : advice.moves) {
        const StepFigures figures = expected_figures(move.simulation);
        table.rows.push_back(
            {QString::fromStdString(move.title), duration(figures.step),
             formatShareChange(relative_change(advice, move)), formatShare(figures.bubble),
             move.simulation.memory_unknown ? unknownValue() : formatBytes(highest_peak(move.simulation)),
             QString::fromStdString(effect_text(advice, move)), QString::fromStdString(move.why)});
    }
    table.note = translated("Single changes, simulated, against a simulated step of %1.")
                     .arg(duration(expected_figures(advice.base).step));
    if (advice.model_error) {
        QString error = QString::fromStdString(model_error_text(*advice.model_error));
        error[0] = error[0].toUpper();
        table.note += QLatin1Char(' ') + error + QLatin1Char('.');
    }
    return table;
}

PageTable lanesTable(const TraceDocument& document, std::int32_t step) {
    PageTable table{
        translated("Lanes in step %1").arg(step),
        {translated("Lane"), translated("Busy measured"), translated("simulated"), translated("Bubble measured"),
         translated("simulated"), translated("Peak memory measured"), translated("simulated")},
        {},
        {}};
    for (const LaneFacts& each : laneFacts(document, step)) {
        table.rows.push_back(
            {each.lane, orUnknown(each.measuredBusy, duration), orUnknown(each.simulatedBusy, duration),
             document.measured && !document.whyNoBubble(step).isEmpty() ? translated("refused")
                                                                        : orUnknown(each.measuredBubble, formatShare),
             orUnknown(each.simulatedBubble, formatShare), orUnknown(each.measuredPeak, formatBytes),
             orUnknown(each.simulatedPeak, formatBytes)});
    }
    if (!document.measured) {
        for (const qsizetype column : {5, 3, 1}) {  // nothing was measured
            table.header.removeAt(column);
            for (QStringList& row : table.rows) {
                row.removeAt(column);
            }
        }
        table.header.replace(1, translated("Busy simulated"));
        table.header.replace(2, translated("Bubble simulated"));
        table.header.replace(3, translated("Peak memory simulated"));
    }
    if (document.simulation && document.simulation->noise) {
        table.note = translated("Simulated lanes are those of a step without noise.");
    }
    return inWords(document, std::move(table));
}

std::vector<PageTable> runTables(const TraceDocument& document) {
    const RunFacts run = readRunFacts(document.path);
    std::vector<PageTable> tables{
        largest(document),
        unmatched(document),
        configuration(document),
        processes(document),
        {translated("Lost records"),
         {translated("Source"), translated("Recorded"), translated("Lost"), translated("Cut short"),
          translated("Never ended")},
         run.losses,
         run.losses.empty() ? translated("The file tells of none.") : QString()},
        {translated("Diagnostics"),
         {translated("Severity"), translated("Source"), translated("What")},
         run.diagnostics,
         {}},
        {translated("Environment"),
         {translated("Property"), translated("Value")},
         run.environment,
         run.environment.empty() ? translated("The file does not say where it was recorded.") : QString()}};
    std::erase_if(tables, [](const PageTable& table) { return table.rows.empty() && table.note.isEmpty(); });
    return tables;
}
}  // namespace pipescope
