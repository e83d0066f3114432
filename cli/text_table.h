#pragma once

#include <string>
#include <vector>

namespace pipescope {
enum class Align { left, right };

struct Column {
    std::string header;
    Align align = Align::right;
};

/// Rows of text under headers, each column as wide as its widest cell, two blanks between. ASCII only: one byte counts
/// as one column.
class TextTable {
public:
    explicit TextTable(std::vector<Column> columns);

    /// Throws Error unless there is one cell per column.
    void add_row(std::vector<std::string> cells);
    /// Lines without trailing blanks, each ended by a newline.
    std::string str() const;
    /// The same as a Markdown table.
    std::string markdown() const;

private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};
}  // namespace pipescope
