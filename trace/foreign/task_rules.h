#pragma once

#include "schedule/task_key.h"
#include "trace/store/trace_records.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace re2 {
class RE2;
}

namespace pipescope {
/// A rules file that cannot be used. The message names the file, the rule, the fault and the remedy.
class TaskRulesError : public TraceError {
public:
    using TraceError::TraceError;
};

/// The role of a named range of another program.
enum class RangeRole {
    task,              ///< its kind is in RangeMeaning::task
    step,              ///< one training step
    send_forward,      ///< a partition sends a micro-batch's output
    receive_forward,   ///< a partition receives a micro-batch's input
    send_backward,     ///< a partition sends the gradient of its input
    receive_backward,  ///< a partition receives the gradient of its output
    send,              ///< a message; belongs to the range in which it starts
    receive,           ///< a message, until it has arrived; belongs to the range in which it starts
    loading,           ///< the host waits for its data
};

struct RangeMeaning {
    std::size_t rule = 0;  ///< index into TaskRules::rules()
    RangeRole role = RangeRole::task;
    TaskKind task = TaskKind::forward;
    std::optional<std::int32_t> step;
    std::optional<std::int32_t> partition;    ///< empty: the rank
    std::optional<std::int32_t> chunk;        ///< which of the rank's partitions, from 0; empty: the first one
    std::optional<std::int32_t> micro_batch;  ///< empty: the count of such ranges in the step
    /// Why the range cannot be used, such as "the partition '99999', which must be a whole number from 0 to 1022".
    std::string fault;

    friend bool operator==(const RangeMeaning&, const RangeMeaning&) = default;
};

/// One rule: a regular expression for whole names of ranges, and their meaning.
struct TaskRule {
    std::string name;  ///< for messages
    bool built_in = false;
    std::shared_ptr<const re2::RE2> pattern;  ///< matches in time linear in a name's length, whatever the pattern
    std::size_t kind_part = 0;                ///< number of the pattern's part; 0: it has no such part
    std::size_t step_part = 0;
    std::size_t partition_part = 0;
    std::size_t chunk_part = 0;
    std::size_t micro_batch_part = 0;
    std::vector<std::pair<std::string, std::string>> kinds;  ///< maps the text of the part `kind` to a kind
    std::string kind;                                        ///< if the pattern has no such part
    std::optional<std::int32_t> partition;
    std::optional<std::int32_t> micro_batch;
};

/// The number in a common name of a training step, independent of the rules: "step 7", "Iteration_7", "training iter:
/// 7". Empty for other names.
std::optional<std::int32_t> usual_step_number(std::string_view name);

/// Finds out which ranges of a foreign program are tasks of a pipeline. docs/task-rules.md describes the file.
class TaskRules {
public:
    /// The built-in rules, trace/foreign/task_rules.json.
    TaskRules();
    /// The rules of a file, then the built-in ones. Throws TaskRulesError.
    static TaskRules load(const std::filesystem::path& path);
    /// Parses the text of a rules file, then adds the built-in rules. `file` is its name in messages. Throws
    /// TaskRulesError.
    static TaskRules parse(std::string_view text, const std::string& file);

    /// The meaning according to the first rule that matches the whole name; empty if no rule matches. Has a fault if a
    /// number does not fit a TaskKey.
    std::optional<RangeMeaning> meaning_of(std::string_view name) const;
    const std::vector<TaskRule>& rules() const { return rules_; }

private:
    explicit TaskRules(std::vector<TaskRule> rules) : rules_(std::move(rules)) {}
    std::vector<TaskRule> rules_;
};
}  // namespace pipescope
