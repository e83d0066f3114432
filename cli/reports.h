#pragma once

#include "analysis/trace_comparison.h"
#include "simulator/balance_search.h"
#include "simulator/simulation.h"
#include "trace/trace_records.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// What the commands print: an object with the documented keys (docs/cli.md), and text for people. Pure.

nlohmann::ordered_json balance_json(const FoundBalance& found);
std::string balance_text(const FoundBalance& found);
/// A line where more micro-batches were asked for than there are samples: engine and simulator cut a mini-batch into
/// one sample each at most. Else nothing.
std::string fewer_micro_batches(std::int64_t asked, std::int64_t samples);
/// The same for options, whose replicas share the samples.
std::string fewer_micro_batches(const PipelineOptions& options);

/// "dtype bfloat16, optimizer adam with float32 master weights": what an estimate's bytes and times are of.
std::string basis_text(const std::string& dtype, const PipelineOptions& options);

nlohmann::ordered_json simulation_json(const Simulation& simulation);
std::string simulation_text(const Simulation& simulation);

/// {"others", "stolen", "pressure"}, or null.
nlohmann::ordered_json load_json(const std::optional<MachineLoad>& load);
nlohmann::ordered_json comparison_json(const TraceComparison& compared);
std::string comparison_text(const TraceComparison& compared);

/// The object as it goes to stdout, ended by a newline.
std::string dump(const nlohmann::ordered_json& object);
}  // namespace pipescope
