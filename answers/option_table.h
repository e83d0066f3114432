#pragma once

#include "base/error.h"
#include "base/number_ranges.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace pipescope {
/// Which form of a question an option is for: about lanes, about a cluster, or both.
enum class OptionUse { both, lanes, cluster };

/// An option of a question. A command calls it --link-bandwidth, the Python package link_bandwidth.
struct OptionRow {
    std::string name;        ///< "link-bandwidth"
    std::string short_name;  ///< "m"; empty: none
    std::string alias;       ///< a second name; empty: none
    std::string help;
    std::string value;  ///< stands for the value in the help: "RATE"; empty: a flag, which takes none
    std::string group;  ///< group in the help: "Hardware"
    bool required = false;
    bool is_whole_number = false;
    OptionUse use = OptionUse::both;
    /// Sets the question's field. Throws UsageError. The text of a flag is empty.
    std::function<void(const std::string&)> take;
    /// Like `take`, with the items of a list; empty: the value is not a list.
    std::function<void(const std::vector<std::string>&)> take_items;
    std::optional<std::string> given;  ///< the text that was taken

    bool is_flag() const { return value.empty(); }
    /// Takes a text. Refuses an empty text.
    void set(const std::string& text);
};

/// An option's name, and its value as a program gives it: a flag, a text, or the items of a list.
struct OptionValue {
    std::string name;
    std::variant<bool, std::string, std::vector<std::string>> value;
};

/// Parses a whole number, possibly negative, of at most `most`. Throws UsageError, which names `option`.
std::int64_t parse_whole_number(const std::string& text, const std::string& option, std::int64_t most);

/// The options of one question. They set its fields, so the question must outlive the table.
class OptionTable {
public:
    OptionTable() = default;
    OptionTable(OptionTable&&) = default;  // not copyable: its functions refer to the rows
    OptionTable& operator=(OptionTable&&) = delete;

    /// `names`: "-m,--chunks"; a second long name is an alias. `parse` makes the value from a text, or from a text and
    /// the option's name for messages. The returned row keeps its address.
    template <class Value, class Parse>
    OptionRow& add(const std::string& names, Value& value, Parse parse, const std::string& help,
                   const std::string& type, const std::string& group = "") {
        OptionRow& row = add_row(names, help, type, group);
        const std::string name = option_name(row.name);
        row.take = [&value, parse, name](const std::string& text) {
            if constexpr (std::is_invocable_v<Parse, const std::string&, const std::string&>) {
                value = parse(text, name);
            } else {
                value = parse(text);
            }
        };
        return row;
    }
    /// A whole number, or an optional one.
    template <class Number>
    OptionRow& add_number(const std::string& names, Number& value, const std::string& help, const std::string& type,
                          const std::string& group = "") {
        constexpr bool kIsInt = std::is_same_v<Number, int> || std::is_same_v<Number, std::optional<int>>;
        using Whole = std::conditional_t<kIsInt, int, std::int64_t>;
        const auto parse = [](const std::string& text, const std::string& option) {
            return static_cast<Whole>(parse_whole_number(text, option, std::numeric_limits<Whole>::max()));
        };
        OptionRow& row = add(names, value, parse, help, type, group);
        row.is_whole_number = true;
        return row;
    }
    /// A text, or an optional one.
    template <class Text>
    OptionRow& add_text(const std::string& names, Text& value, const std::string& help, const std::string& type,
                        const std::string& group = "") {
        return add(
            names, value, [](const std::string& text) { return text; }, help, type, group);
    }
    OptionRow& add_list(const std::string& names, std::vector<std::string>& value, const std::string& help,
                        const std::string& type, const std::string& group = "");
    OptionRow& add_flag(const std::string& name, bool& value, const std::string& help, const std::string& group = "");

    std::deque<OptionRow>& rows() { return rows_; }
    const std::deque<OptionRow>& rows() const { return rows_; }
    /// The row with that name. Precondition: it exists.
    OptionRow& row(std::string_view name);
    const OptionRow& row(std::string_view name) const;
    /// True if the table has the option and it was given.
    bool is_given(std::string_view name) const;
    /// Sets OptionRow::use of all rows from `first` on.
    void use_from(std::size_t first, OptionUse use);
    void require(std::initializer_list<std::string_view> names);
    /// Takes values by name. Throws UsageError for the first value that is wrong or missing, in the table's order.
    void take(const std::vector<OptionValue>& values);
    /// Throws UsageError for the first given option that is not for this form of the question.
    void check_use(bool has_cluster) const;

private:
    OptionRow& add_row(const std::string& names, const std::string& help, const std::string& type,
                       const std::string& group);

    std::deque<OptionRow> rows_;
};

/// Throws UsageError for an option without meaning for a cluster.
[[noreturn]] void refuse_with_cluster(const std::string& name);
/// What to do if --cluster is missing, for messages.
inline constexpr const char* kClusterRemedy = "name a cluster file, or a built-in one such as dgx-h100";
}  // namespace pipescope
