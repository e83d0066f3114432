#pragma once

#include <string>
#include <vector>

namespace pipescope {
enum class Align { left, right };

struct Column {
    std::string header;
    Align align = Align::right;
};

/// Rows of text under headers, in columns two blanks apart. Control characters in cells are escaped.
class TextTable {
public:
    explicit TextTable(std::vector<Column> columns);

    /// Throws Error unless the row has one cell per column.
    void add_row(std::vector<std::string> cells);
    /// Lines without trailing blanks, each with a newline.
    std::string str() const;
    std::string markdown() const;

private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};
}  // namespace pipescope
