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
/// Which of a question's two forms an option is for: the one about lanes, or the one about a cluster.
enum class OptionUse { both, lanes, cluster };

/// An option of a question. A command calls it --link-bandwidth, the Python package link_bandwidth.
struct OptionRow {
    std::string name;        ///< "link-bandwidth"
    std::string short_name;  ///< "m"; empty: none
    std::string alias;       ///< a second name; empty: none
    std::string help;
    std::string value;  ///< stands for the value in the help: "RATE"; empty: a flag, which takes none
    std::string group;  ///< of the help: "Hardware"
    bool required = false;
    bool is_whole_number = false;
    OptionUse use = OptionUse::both;
    /// Sets the question's field. Throws UsageError. A flag's text is empty.
    std::function<void(const std::string&)> take;
    /// As `take`, for the items of a list; empty: the value is no list.
    std::function<void(const std::vector<std::string>&)> take_items;
    std::optional<std::string> given;  ///< the text that was taken

    bool is_flag() const { return value.empty(); }
    /// Takes a text; refuses an empty one.
    void set(const std::string& text);
};

/// An option's value by name, as a program gives it: a flag, a text, or the items of a list.
struct OptionValue {
    std::string name;
    std::variant<bool, std::string, std::vector<std::string>> value;
};

/// Parses a whole number, which may be negative and is at most `most`. Throws UsageError with `option` as its name.
std::int64_t parse_whole_number(const std::string& text, const std::string& option, std::int64_t most);

/// The options of one question, which set its fields: the question must outlive the table.
class OptionTable {
public:
    OptionTable() = default;
    OptionTable(OptionTable&&) = default;  // without copies: its functions refer to the rows
    OptionTable& operator=(OptionTable&&) = delete;

    /// `names`: "-m,--chunks", the second long name being an alias. `parse` makes the value of a text, or of a text and
    /// the option's name for messages. The row stays where it is.
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
    /// A list of texts.
    OptionRow& add_list(const std::string& names, std::vector<std::string>& value, const std::string& help,
                        const std::string& type, const std::string& group = "");
    OptionRow& add_flag(const std::string& name, bool& value, const std::string& help, const std::string& group = "");

    std::deque<OptionRow>& rows() { return rows_; }
    const std::deque<OptionRow>& rows() const { return rows_; }
    /// The row of that name. Precondition: there is one.
    OptionRow& row(std::string_view name);
    const OptionRow& row(std::string_view name) const;
    /// True if the table has the option and it was given.
    bool is_given(std::string_view name) const;
    /// Says what the rows from that one on are for.
    void use_from(std::size_t first, OptionUse use);
    /// Has these options required.
    void require(std::initializer_list<std::string_view> names);
    /// Takes values by name. Throws UsageError for the first, in the order of the table, that is wrong or missing.
    void take(const std::vector<OptionValue>& values);
    /// Throws UsageError for the first option that was given and is not for this form of the question.
    void check_use(bool has_cluster) const;

private:
    OptionRow& add_row(const std::string& names, const std::string& help, const std::string& type,
                       const std::string& group);

    std::deque<OptionRow> rows_;
};

/// Throws UsageError for an option that says nothing about a cluster.
[[noreturn]] void refuse_with_cluster(const std::string& name);
/// For messages: what to do where --cluster is missing.
inline constexpr const char* kClusterRemedy = "name a cluster file, or a built-in one such as dgx-h100";
}  // namespace pipescope
