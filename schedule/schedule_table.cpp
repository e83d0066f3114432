#include "schedule/schedule_table.h"

#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "schedule/lane_plan.h"
#include "schedule/placement.h"
#include "schedule/schedule_programs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace pipescope {
namespace {
using Action = ScheduleTable::Action;

constexpr std::string_view kOverlap = "OVERLAP_F_B";

constexpr char kInputOnly = 'I';  // a backward without its W

char letter_of(const Action& action) {
    return action.input_only ? kInputOnly : letter_of(action.task.kind).value_or('?');
}

constexpr std::string_view kReduceGradients = "REDUCE_GRAD";
constexpr std::string_view kUpdate = "O";
constexpr std::string_view kPlacement = "# placement ";

std::string text_of(const Action& action) {
    if (action.task.kind == TaskKind::all_reduce) {
        return std::to_string(action.task.partition) + std::string(kReduceGradients);
    }
    if (action.task.kind == TaskKind::optimizer) {
        return std::to_string(action.task.partition) + std::string(kUpdate);
    }
    return std::to_string(action.task.partition) + letter_of(action) + std::to_string(action.task.micro_batch);
}

/// Position of a cell, counted from 1.
struct Place {
    std::size_t row = 0;
    std::size_t column = 0;
};
std::string text_of(const Place& place) {
    return "row " + std::to_string(place.row + 1) + ", column " + std::to_string(place.column + 1);
}

/// A cell or line for a message. No valid one has other characters than ASCII, of which some are invisible.
std::string visible(std::string_view text) {
    constexpr std::size_t kMost = 40;
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string safe;
    for (const char each : printable(shortened(text, kMost))) {
        if (const auto byte = static_cast<unsigned char>(each); byte >= 0x80) {
            safe.append("\\x").append(1, kDigits[byte / 16]).append(1, kDigits[byte % 16]);
        } else {
            safe += each;
        }
    }
    return safe;
}

[[noreturn]] void refuse_cell(const Place& place, std::string_view cell) {
    throw UsageError(text_of(place) + " is '" + visible(cell) +
                     "'; a cell is empty or a partition, one of F, B, I, W, R, L, and a micro-batch, such as 3F0, or "
                     "a partition and O; correct it");
}

std::optional<std::int32_t> number_of(std::string_view text, const char* what, std::int32_t limit, const Place& place) {
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end != text.data() + text.size() || text.starts_with('-')) {
        return std::nullopt;
    }
    if (error == std::errc::result_out_of_range || value >= limit) {
        throw UsageError(text_of(place) + " holds " + visible(text) + ", a " + what +
                         " that is too large; the largest is " + std::to_string(limit - 1) + "; renumber from 0");
    }
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::optional<Action> parse_action(std::string_view text, const Place& place) {
    const std::size_t at = text.find_first_not_of("0123456789");
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    if (text.substr(at) == kReduceGradients) {
        const auto partition = number_of(text.substr(0, at), "partition", kMostPartitions, place);
        return partition ? std::optional(Action{{0, TaskKind::all_reduce, *partition, -1, -1}}) : std::nullopt;
    }
    if (text.substr(at) == kUpdate) {
        const auto partition = number_of(text.substr(0, at), "partition", kMostPartitions, place);
        return partition ? std::optional(Action{{0, TaskKind::optimizer, *partition, -1, -1}}) : std::nullopt;
    }
    const bool input_only = text[at] == kInputOnly;
    const auto kind = input_only ? TaskKind::backward : kind_of_letter(text[at]);
    const auto partition = number_of(text.substr(0, at), "partition", kMostPartitions, place);
    const auto micro_batch = number_of(text.substr(at + 1), "micro-batch", kMostMicroBatches, place);
    const bool is_of_a_step =
        kind == TaskKind::all_reduce || kind == TaskKind::optimizer || kind == TaskKind::shared_sum;
    if (!kind || is_of_a_step || !partition || !micro_batch) {
        return std::nullopt;
    }
    return Action{{0, *kind, *partition, *micro_batch, -1}, input_only};
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kSpace = " \t";
    const std::size_t first = text.find_first_not_of(kSpace);
    return first == std::string_view::npos ? std::string_view{}
                                           : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// A cell's content. Spreadsheets may put quotes around it.
std::string_view content_of(std::string_view cell) {
    cell = trimmed(cell);
    const bool quoted = cell.size() >= 2 && cell.front() == '"' && cell.back() == '"';
    return quoted ? trimmed(cell.substr(1, cell.size() - 2)) : cell;
}

/// "0UNSHARD", "2RECV_B1", "(0SEND_F0;2RECV_F0)BATCH_P2P"
bool is_communication(std::string_view text) {
    constexpr std::string_view kBatch = "BATCH_P2P";
    constexpr std::string_view kDigits = "0123456789";
    if (text.starts_with('(') && text.ends_with(kBatch)) {
        const std::size_t middle = text.find(';');
        const std::size_t end = text.size() - kBatch.size() - 1;
        return middle < end && text[end] == ')' && is_communication(trimmed(text.substr(1, middle - 1))) &&
               is_communication(trimmed(text.substr(middle + 1, end - middle - 1)));
    }
    const std::size_t at = text.find_first_not_of(kDigits);
    if (at == 0 || at == std::string_view::npos) {
        return false;
    }
    const std::string_view what = text.substr(at);
    const std::size_t number = what.find_first_of(kDigits);
    const std::string_view name = what.substr(0, number);
    const bool is_message = name == "SEND_F" || name == "RECV_F" || name == "SEND_B" || name == "RECV_B";
    return what == "UNSHARD" || what == "RESHARD" ||
           (is_message && number != std::string_view::npos &&
            what.find_first_not_of(kDigits, number) == std::string_view::npos);
}

ScheduleTable::Cell parse_cell(std::string_view cell, const Place& place) {
    const std::string_view text = content_of(cell);
    if (text.empty()) {
        return {};
    }
    if (text.front() != '(') {
        const auto action = parse_action(text, place);
        if (!action) {
            refuse_cell(place, cell);
        }
        return {*action};
    }
    const std::size_t middle = text.find(';');
    const std::size_t end = text.find(')');
    if (middle == std::string_view::npos || end == std::string_view::npos || middle > end ||
        text.substr(end + 1) != kOverlap) {
        refuse_cell(place, cell);
    }
    const auto first = parse_action(text.substr(1, middle - 1), place);
    const auto second = parse_action(text.substr(middle + 1, end - middle - 1), place);
    if (!first || !second) {
        refuse_cell(place, cell);
    }
    return {*first, *second};
}

/// Calls each(action, place) for every task, row by row.
template <class Each>
void for_each_action(const ScheduleTable& table, Each each) {
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
        for (std::size_t column = 0; column < table.rows[row].size(); ++column) {
            for (const Action& action : table.rows[row][column]) {
                each(action, Place{row, column});
            }
        }
    }
}

/// True if the rows are those of a bidirectional pipeline (PipelineShape::bidirectional): as many as partitions, the
/// second half of the micro-batches in reverse.
bool is_from_both_ends(const ScheduleTable& table) {
    std::int32_t partitions = 0;
    std::int32_t micro_batches = 0;
    for_each_action(table, [&](const Action& action, const Place&) {
        partitions = std::max(partitions, action.task.partition + 1);
        micro_batches = std::max(micro_batches, action.task.micro_batch + 1);
    });
    bool fits = micro_batches > 0 && micro_batches % 2 == 0 && partitions % 2 == 0 &&
                table.rows.size() == static_cast<std::size_t>(partitions);
    for_each_action(table, [&](const Action& action, const Place& place) {
        const auto here = static_cast<std::size_t>(action.task.partition);
        const std::size_t reversed = mirrored(here, table.rows.size());
        const bool is_second = action.task.micro_batch >= micro_batches / 2;
        fits = fits &&
               (place.row == (is_second ? reversed : here) || (action.task.micro_batch < 0 && place.row == reversed));
    });
    return fits;
}

/// Collects the tasks of a table by type, and checks the preconditions of a TaskGraph.
class TableCheck {
public:
    explicit TableCheck(const ScheduleTable& table) : bidirectional_(is_from_both_ends(table)) {
        for_each_action(table, [this](const Action& action, const Place& place) { note(action, place); });
        if (places_.empty()) {
            throw UsageError("the schedule holds no task; write at least a forward and a backward, such as 0F0,0B0");
        }
        check_rows(table);
        check_complete();
        check_order();
        check_updates(table);
        check_placement_line(table);
    }

    bool is_bidirectional() const { return bidirectional_; }
    int num_partitions() const { return static_cast<int>(lanes_.size()); }
    int num_micro_batches() const { return micro_batches_; }
    std::vector<LaneId> placement() const {
        std::vector<LaneId> placement;
        for (const auto& [partition, place] : lanes_) {
            placement.emplace_back(static_cast<std::int64_t>(row_of(partition, 0, place)));
        }
        return placement;
    }

private:
    using Key = std::pair<std::int32_t, std::int32_t>;  // partition, micro-batch
    using Places = std::map<char, std::pair<Place, std::size_t>>;

    /// The row that runs micro-batch i on the partition, whose first cell is at `place`.
    std::size_t row_of(std::int32_t partition, std::int32_t i, const Place& place) const {
        const auto here = static_cast<std::size_t>(partition);
        return !bidirectional_ ? place.row : i >= (micro_batches_ + 1) / 2 ? mirrored(here, lanes_.size()) : here;
    }

    void note(const Action& action, const Place& place) {
        const auto [lane, is_new] = lanes_.emplace(action.task.partition, place);
        if (bidirectional_ && action.task.micro_batch < 0) {
            return;  // once for each copy of the partition
        }
        if (!is_new && lane->second.row != place.row && !bidirectional_) {
            throw UsageError(text_of(place) + " holds " + text_of(action) + ", but partition " +
                             std::to_string(action.task.partition) + " runs on lane " +
                             std::to_string(lane->second.row) + " (" + text_of(lane->second) +
                             "); a partition has one lane; move it there");
        }
        Places& places = places_[{action.task.partition, action.task.micro_batch}];
        const auto [earlier, first] = places.emplace(letter_of(action), std::pair(place, order_));
        if (!first) {
            throw UsageError(text_of(place) + " holds " + text_of(action) + " again; " +
                             text_of(earlier->second.first) + " has it; each task runs once; remove one");
        }
        ++order_;
        has_losses_ = has_losses_ || action.task.kind == TaskKind::loss;
        micro_batches_ = std::max(micro_batches_, action.task.micro_batch + 1);
    }

    void check_rows(const ScheduleTable& table) const {
        std::vector<bool> works(table.rows.size(), false);
        for_each_action(table, [&works](const Action&, const Place& place) { works[place.row] = true; });
        for (std::size_t row = 0; row < works.size(); ++row) {
            if (!works[row]) {
                throw UsageError("row " + std::to_string(row + 1) +
                                 " holds no task; each row is a lane, which runs at least one; remove it");
            }
        }
    }

    void check_complete() const {
        int partition = 0;
        for (const auto& [each, place] : lanes_) {
            if (each != partition++) {
                throw UsageError("no row runs partition " + std::to_string(partition - 1) + ", but " + text_of(place) +
                                 " runs partition " + std::to_string(each) +
                                 "; partitions are numbered from 0 without gaps; add it or renumber");
            }
        }
        for (const auto& [each, place] : lanes_) {
            for (std::int32_t i = 0; i < micro_batches_; ++i) {
                const auto found = places_.find({each, i});
                const Places none;
                check_task({each, i}, found == places_.end() ? none : found->second, row_of(each, i, place));
            }
        }
    }

    void check_task(const Key& key, const Places& places, std::size_t row) const {
        const auto lacks = [&](char letter) {
            throw UsageError("row " + std::to_string(row + 1) + " lacks " + std::to_string(key.first) + letter +
                             std::to_string(key.second) +
                             "; each micro-batch runs forward and backward once on each "
                             "partition; add it");
        };
        const bool halves = places.contains('I') || places.contains('W');
        if (!places.contains('F')) {
            lacks('F');
        }
        if (halves && places.contains('B')) {
            const Place& both = places.at('B').first;
            throw UsageError(text_of(both) + " holds " + std::to_string(key.first) + "B" + std::to_string(key.second) +
                             ", whose halves I or W stand in the row too; keep B, or both halves");
        }
        if (halves && !places.contains('I')) {
            lacks('I');
        }
        if (halves && !places.contains('W')) {
            lacks('W');
        }
        if (!halves && !places.contains('B')) {
            lacks('B');
        }
        if (has_losses_ && key.first + 1 == num_partitions() && !places.contains('L')) {
            throw UsageError("row " + std::to_string(row + 1) + " lacks " + std::to_string(key.first) + "L" +
                             std::to_string(key.second) +
                             "; a schedule has the loss of each micro-batch, or of none; add it, or remove every L");
        }
        if (places.contains('L') && key.first + 1 != num_partitions()) {
            throw UsageError(text_of(places.at('L').first) + " holds the loss of partition " +
                             std::to_string(key.first) + "; the last partition, " +
                             std::to_string(num_partitions() - 1) + ", has the loss; move it there");
        }
    }

    void check_order() const {
        for (const auto& [key, places] : places_) {
            for (const auto& [first, second] : {std::pair{'F', 'B'},
                                                {'F', 'I'},
                                                {'I', 'W'},
                                                {'F', 'R'},
                                                {'R', 'B'},
                                                {'R', 'I'},
                                                {'F', 'L'},
                                                {'L', 'B'},
                                                {'L', 'I'}}) {
                const auto before = places.find(first);
                const auto after = places.find(second);
                if (before != places.end() && after != places.end() && after->second.second < before->second.second) {
                    const std::string numbers = std::to_string(key.second);
                    throw UsageError(text_of(after->second.first) + " holds " + std::to_string(key.first) + second +
                                     numbers + " before " + std::to_string(key.first) + first + numbers +
                                     " in column " + std::to_string(before->second.first.column + 1) +
                                     "; swap the two");
                }
            }
        }
    }

    /// An update needs all gradients of its lane.
    void check_updates(const ScheduleTable& table) const {
        std::map<std::size_t, std::pair<std::string, Place>> updates;  // by row
        for_each_action(table, [&updates](const Action& action, const Place& place) {
            const auto update = updates.find(place.row);
            const bool is_update = action.task.kind == TaskKind::optimizer;
            if (update == updates.end()) {
                if (is_update) {
                    updates.emplace(place.row, std::pair(text_of(action), place));
                }
                return;
            }
            const auto& [text, at] = update->second;
            throw UsageError(is_update
                                 ? text_of(place) + " holds " + text_of(action) + " after " + text + " in column " +
                                       std::to_string(at.column + 1) +
                                       "; a lane updates all its partitions at once; remove one"
                                 : text_of(at) + " holds " + text + " before " + text_of(action) + " in column " +
                                       std::to_string(place.column + 1) +
                                       "; a lane's update needs all its gradients; move it to the end of the row");
        });
    }

    void check_placement_line(const ScheduleTable& table) const {
        if (table.placement.empty()) {
            return;
        }
        if (table.placement.size() != lanes_.size()) {
            throw UsageError("the placement line has " + counted(table.placement.size(), "lane", "lanes") + " for " +
                             counted(lanes_.size(), "partition", "partitions") +
                             "; it has the lane of each partition; correct it, or remove it");
        }
        for (const auto& [partition, place] : lanes_) {
            const LaneId lane = table.placement[static_cast<std::size_t>(partition)];
            if (const std::size_t row = row_of(partition, 0, place); lane.index() != row) {
                throw UsageError("the placement line puts partition " + std::to_string(partition) + " on lane " +
                                 std::to_string(lane.value()) + ", but " + text_of(place) + " runs it on lane " +
                                 std::to_string(row) + "; correct the line, or remove it");
            }
        }
    }

    bool bidirectional_;
    std::map<std::int32_t, Place> lanes_;  // first cell of each partition
    std::map<Key, Places> places_;         // by letter: the cell, and its rank among all tasks
    std::size_t order_ = 0;
    std::int32_t micro_batches_ = 0;
    bool has_losses_ = false;
};

bool has_letter(const ScheduleTable& table, char letter) {
    bool found = false;
    for_each_action(table, [&](const Action& action, const Place&) { found = found || letter_of(action) == letter; });
    return found;
}

/// The checkpoint mode whose micro-batches are those that the table recomputes; `otherwise` if there is none.
Checkpoint checkpoint_of(const ScheduleTable& table, int micro_batches, Checkpoint otherwise) {
    std::set<int> recomputed;
    for_each_action(table, [&](const Action& action, const Place&) {
        if (action.task.kind == TaskKind::recompute) {
            recomputed.insert(action.task.micro_batch);
        }
    });
    for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last}) {
        bool is_it = true;
        for (int i = 0; i < micro_batches; ++i) {
            is_it = is_it && recomputed.contains(i) == is_checkpointed(mode, MicroBatchId{i}, micro_batches);
        }
        if (is_it && !recomputed.empty()) {
            return mode;
        }
    }
    return otherwise;
}

/// Recomputes in the table must match the checkpoint mode, which determines what a micro-batch keeps.
void check_recomputes(const ScheduleTable& table, const PipelineShape& shape) {
    std::set<std::pair<int, int>> recomputed;
    for_each_action(table, [&](const Action& action, const Place& place) {
        if (action.task.kind != TaskKind::recompute) {
            return;
        }
        recomputed.emplace(action.task.partition, action.task.micro_batch);
        if (!is_checkpointed(shape.checkpoint, MicroBatchId{action.task.micro_batch}, shape.num_micro_batches)) {
            throw UsageError(text_of(place) + " recomputes micro-batch " + std::to_string(action.task.micro_batch) +
                             ", but not all R cells are there; a schedule recomputes on each partition every "
                             "micro-batch (checkpoint always), every one but the last (except_last), or none; add "
                             "the others, or remove every R");
        }
    });
    for (int j = 0; j < shape.num_partitions; ++j) {
        for (int i = 0; i < shape.num_micro_batches; ++i) {
            if (is_checkpointed(shape.checkpoint, MicroBatchId{i}, shape.num_micro_batches) &&
                !recomputed.contains({j, i})) {
                throw UsageError("row " +
                                 std::to_string(shape.lane_of(Cell{MicroBatchId{i}, PartitionId{j}}).value() + 1) +
                                 " lacks " + std::to_string(j) + "R" + std::to_string(i) + ", which checkpoint " +
                                 to_string(shape.checkpoint) +
                                 " needs; add it, or remove every R to have each recompute before its backward");
            }
        }
    }
}
}  // namespace

namespace {
/// The lanes of "# placement 0,1". A spreadsheet may have added empty cells behind them.
std::vector<LaneId> parse_placement_line(std::string_view line, std::size_t number) {
    const auto refuse = [line, number] {
        throw UsageError("line " + std::to_string(number) + " is '" + visible(line) +
                         "'; only the first line may begin with #, and has the lane of each partition, such as "
                         "'# placement 0,1'; correct it, or remove it");
    };
    if (number != 1 || !line.starts_with(kPlacement)) {
        refuse();
    }
    std::string_view rest = line.substr(kPlacement.size());
    rest = rest.substr(0, rest.find_last_not_of(", \t") + 1);
    std::vector<LaneId> placement;
    for (bool more = true; more;) {
        const std::size_t comma = rest.find(',');
        const std::string_view lane = trimmed(rest.substr(0, comma));
        const auto value = number_in<std::int64_t>(lane);
        if (!value || *value < 0) {
            refuse();
        }
        placement.emplace_back(*value);
        more = comma != std::string_view::npos;
        rest.remove_prefix(more ? comma + 1 : rest.size());
    }
    return placement;
}
}  // namespace

ScheduleTable parse_schedule_csv(std::string_view text, std::size_t* communication_cells) {
    ScheduleTable table;
    std::size_t communication = 0;
    if (constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf"; text.starts_with(kByteOrderMark)) {
        text.remove_prefix(kByteOrderMark.size());
    }
    const std::size_t first_end = text.find('\n');
    const bool has_return = first_end != std::string_view::npos && first_end > 0 && text[first_end - 1] == '\r';
    table.line_end = first_end == std::string_view::npos || has_return ? "\r\n" : "\n";
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (!line.empty() && line.back() == '\r') {
            line.remove_suffix(1);
        }
        if (line.starts_with('#')) {
            table.placement = parse_placement_line(line, number);
            continue;
        }
        if (trimmed(line).empty()) {
            if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
                break;
            }
            throw UsageError("line " + std::to_string(number) + " is empty; each line is the row of a lane; remove it");
        }
        auto& row = table.rows.emplace_back();
        while (true) {
            const std::size_t comma = line.find(',');
            const std::string_view cell = line.substr(0, comma);
            const bool left_out = is_communication(content_of(cell));
            communication += left_out ? 1 : 0;
            row.push_back(left_out ? ScheduleTable::Cell{} : parse_cell(cell, {table.rows.size() - 1, row.size()}));
            if (comma == std::string_view::npos) {
                break;
            }
            line.remove_prefix(comma + 1);
        }
    }
    if (communication_cells != nullptr) {
        *communication_cells = communication;
    }
    return table;
}

std::string to_csv(const ScheduleTable& table) {
    std::string text;
    if (!table.placement.empty()) {
        text += std::string(kPlacement) + placement_text(table.placement) + table.line_end;
    }
    for (const auto& row : table.rows) {
        for (std::size_t column = 0; column < row.size(); ++column) {
            const ScheduleTable::Cell& cell = row[column];
            text += column > 0 ? "," : "";
            if (cell.size() == 2) {
                text += "(" + text_of(cell[0]) + ";" + text_of(cell[1]) + ")" + std::string(kOverlap);
            } else if (!cell.empty()) {
                text += text_of(cell.front());
            }
        }
        text += table.line_end;
    }
    return text;
}

namespace {
/// True if each recompute stands right before its backward, where a table without recomputes has it.
bool recomputes_right_before(const TaskGraph& graph) {
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        const std::span<const TaskIndex> order = graph.lane_order(LaneId{lane});
        for (std::size_t k = 0; k < order.size(); ++k) {
            const TaskKey& key = graph.tasks()[order[k]].key;
            if (key.kind != TaskKind::recompute) {
                continue;
            }
            if (k + 1 == order.size()) {
                return false;
            }
            const TaskKey& next = graph.tasks()[order[k + 1]].key;
            if (next.kind != TaskKind::backward || cell_of(next) != cell_of(key)) {
                return false;
            }
        }
    }
    return true;
}
}  // namespace

ScheduleTable schedule_table(const TaskGraph& graph) {
    const bool draws_recomputes = !recomputes_right_before(graph);
    const bool splits = std::any_of(graph.tasks().begin(), graph.tasks().end(),
                                    [](const Task& task) { return task.key.kind == TaskKind::backward_weight; });
    ScheduleTable table;
    table.rows.resize(static_cast<std::size_t>(graph.num_lanes()));
    std::vector<std::size_t> ends(graph.tasks().size(), 0);
    std::vector<std::size_t> free(table.rows.size(), 0);  // by lane
    constexpr std::size_t kAlone = ~std::size_t{0};
    std::vector<std::size_t> joint_of(graph.tasks().size(), kAlone);
    std::vector<bool> has_cell(graph.joints().size());  // by joint
    for (std::size_t k = 0; k < graph.joints().size(); ++k) {
        for (const TaskIndex task : graph.joints().at(k)) {
            joint_of[task] = k;
        }
    }
    for (TaskIndex task = 0; task < graph.tasks().size(); ++task) {
        const Task& each = graph.tasks()[task];
        std::size_t start = 0;
        for (const TaskIndex needed : graph.dependencies(task)) {
            start = std::max(start, ends[needed]);
        }
        const bool drawn = is_compute(each.key.kind) && (each.key.kind != TaskKind::recompute || draws_recomputes);
        if (is_copy(each.key.kind)) {
            ends[task] = start;
            continue;
        }
        std::size_t& lane = free[each.lane.index()];
        const bool is_joint = drawn && joint_of[task] != kAlone;
        if (is_joint && has_cell[joint_of[task]]) {  // tasks that run as one share it
            ScheduleTable::Cell& cell = table.rows[each.lane.index()].back();
            if (each.key.kind == TaskKind::backward_weight) {
                cell.back().input_only = false;  // both halves are one backward
            } else {
                cell.push_back({each.key, splits && each.key.kind == TaskKind::backward});
            }
            ends[task] = lane;
            continue;
        }
        if (is_joint) {
            has_cell[joint_of[task]] = true;
        }
        start = std::max(start, lane);
        ends[task] = start + (drawn ? 1 : 0);
        lane = ends[task];
        if (drawn) {
            auto& row = table.rows[each.lane.index()];
            row.resize(start + 1);
            row[start] = {{each.key, splits && each.key.kind == TaskKind::backward}};
        }
    }
    const std::size_t columns = free.empty() ? 0 : *std::max_element(free.begin(), free.end());
    for (auto& row : table.rows) {
        row.resize(columns);
    }
    return table;
}

PipelineShape table_shape(const ScheduleTable& table, const PipelineShape& base) {
    const TableCheck check(table);
    PipelineShape shape = base;
    shape.num_partitions = check.num_partitions();
    shape.num_micro_batches = check.num_micro_batches();
    shape.placement = check.placement();
    shape.bidirectional = check.is_bidirectional();
    shape.loss = LossScope::micro_batch;
    shape.checkpoint = checkpoint_of(table, shape.num_micro_batches, base.checkpoint);
    shape.check();
    return shape;
}

namespace {
/// True for a forward and a backward in one cell.
bool is_pair(const ScheduleTable::Cell& cell) {
    return cell.size() == 2 && cell.front().task.kind == TaskKind::forward &&
           cell.back().task.kind == TaskKind::backward;
}
}  // namespace

TaskGraph table_graph(const ScheduleTable& table, const PipelineShape& base) {
    const PipelineShape shape = table_shape(table, base);
    const bool has_recomputes = recomputes(table);
    if (has_recomputes) {
        check_recomputes(table, shape);
    }
    const bool losses = has_letter(table, 'L');
    const bool splits = splits_backward(table);
    std::vector<LanePlan> plans(table.rows.size(), LanePlan(shape));
    std::vector<std::size_t> begins(table.rows.size());  // by row: where the tasks that may run as one begin
    const bool joins = shape.joins_pairs && pairs_tasks(table);
    for_each_action(table, [&](const Action& action, const Place& place) {
        LanePlan& plan = plans[place.row];
        const ScheduleTable::Cell& cell = table.rows[place.row][place.column];
        if (&action == &cell.front() || !is_pair(cell)) {
            begins[place.row] = plan.size();
        }
        const Cell task = cell_of(action.task);
        if (action.task.kind == TaskKind::all_reduce || action.task.kind == TaskKind::optimizer) {
            return;  // add_all_reduces() and consecutive_steps() put them at the end
        }
        const bool is_backward = action.task.kind == TaskKind::backward;
        if (action.task.kind == TaskKind::forward && !losses) {
            plan.forward(task);
        } else if (is_backward && !has_recomputes) {
            plan.backward(task);
        } else {
            plan.add(action.task.kind, task);
        }
        if (is_backward && splits && !action.input_only) {
            plan.backward_weight(task);
        }
        const bool is_joint = is_pair(cell) ? &action == &cell.back() : is_backward && splits && !action.input_only;
        if (joins && is_joint) {
            plan.join_from(begins[place.row]);
        }
    });
    std::vector<LaneProgram> programs;
    std::vector<LaneJoints> joints;
    for (LanePlan& plan : plans) {
        programs.push_back(plan.take());
        joints.push_back(plan.take_joints());
    }
    add_all_reduces(shape, programs);
    return TaskGraph(shape, programs, joints);
}

bool pairs_tasks(const ScheduleTable& table) {
    return std::ranges::any_of(table.rows, [](const auto& row) { return std::ranges::any_of(row, is_pair); });
}

bool splits_backward(const ScheduleTable& table) {
    return has_letter(table, 'I') || has_letter(table, 'W');
}

bool recomputes(const ScheduleTable& table) {
    return has_letter(table, 'R');
}
}  // namespace pipescope
