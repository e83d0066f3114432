#pragma once

#include <string>
#include <string_view>

namespace pipescope {
/// When the lanes update their parameters. synchronous: once all lanes are done with the step. staggered: each lane as
/// soon as it is done with its own tasks of the step; then it goes on with the next step, so steps overlap.
/// Source: Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 4.
enum class Update { synchronous, staggered };

std::string to_string(Update update);
/// Throws UsageError for other names.
Update parse_update(std::string_view name);
}  // namespace pipescope
