#pragma once

#include "analysis/trace_comparison.h"
#include "schedule/backward_half.h"
#include "simulator/plan/schedule_comparison.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
class TextTable;

// Output of the commands: an object with the documented keys (docs/cli.md), and human-readable text. Pure functions.

/// A search's lower bound, or null if it found none, which it reports as 0.
nlohmann::ordered_json bound_json(std::int64_t lower_bound_ns);
/// `simulation` is for the found balance, with noise.
nlohmann::ordered_json balance_json(const FoundBalance& found, const Simulation& simulation);
std::string balance_text(const FoundBalance& found, const Simulation& simulation);
/// A note if more micro-batches were requested than there are samples, since a mini-batch is cut into micro-batches of
/// at least one sample. Otherwise empty.
std::string fewer_micro_batches(std::int64_t asked, std::int64_t samples);
/// fewer_micro_batches() for options with replicas, which share the samples.
std::string fewer_micro_batches(const PipelineOptions& options);

/// Basis of an estimate's bytes and times: "dtype bfloat16, optimizer adam with float32 master weights".
std::string basis_text(const std::string& dtype, const PipelineOptions& options);

/// The bytes, or null if the profile does not know the layers' bytes.
nlohmann::ordered_json bytes_json(const Simulation& simulation, Bytes bytes);
/// The bytes as text, or "unknown" if the profile does not know the layers' bytes.
std::string peak_text(const Simulation& simulation, Bytes bytes);
inline constexpr std::string_view kMemoryUnknown =
    "memory: unknown, since the profile was measured from a trace that does not say what the layers hold";

/// A warning, on a line after an empty line, for micro-batches of a size outside the profile. The command profiles
/// them.
std::string extrapolation_text(const std::string& profile_command);

inline constexpr std::string_view kStaggeredNote =
    "\nstaggered updates: a step time is the period of consecutive steps\n";

/// Bytes that a profile may lack are null. Without `batch_known`, rates in samples and tokens are null too: the batch
/// then counts micro-batches (is_batch_unknown()).
nlohmann::ordered_json simulation_json(const Simulation& simulation, bool batch_known = true);
/// Whether a table shows speedup, and samples, tokens and operations per second. Only a whole step has them.
enum class Rates { shown, left_out };

/// Without a warning about extrapolation.
std::string simulation_text(const Simulation& simulation, Rates rates = Rates::shown);

/// Bytes by category; -1 for an unknown category, null if all are unknown.
nlohmann::ordered_json memory_json(const MemoryBreakdown& memory);
/// The categories, largest first: "saved 12 MiB, parameters 3 MiB". If there are many, the smallest are combined.
std::string memory_text(const MemoryBreakdown& memory);

/// "I", "W" or null.
nlohmann::ordered_json half_json(std::optional<BackwardHalf> half);
/// {"others", "stolen", "pressure"}, or null.
nlohmann::ordered_json load_json(const std::optional<MachineLoad>& load);
/// The object of `bubbles` in compare.schema.json.
nlohmann::ordered_json bubbles_json(const BubbleReport& report);
nlohmann::ordered_json comparison_json(const TraceComparison& compared);
std::string comparison_text(const TraceComparison& compared);
/// Adds a row with a lane's measured and simulated peak and the error. Adds another row if the memory model gives a
/// different peak at the measured instants.
void add_peaks(std::size_t lane, const Comparison& comparison, TextTable& figures);

/// The object as printed on stdout, with a final newline.
std::string dump(const nlohmann::ordered_json& object);

/// Output of `pipescope simulate --schedule all`. docs/cli.md lists the keys.
nlohmann::ordered_json schedules_json(const ScheduleComparison& comparison);
std::string schedules_text(const ScheduleComparison& comparison);
}  // namespace pipescope
