#include "base/csv_rows.h"

#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/text_file.h"

#include <algorithm>
#include <sstream>

namespace pipescope {
namespace {
[[noreturn]] void refuse_row(const std::string& place, const std::string& fault) {
    throw UsageError(place + ": " + fault);
}

std::string trimmed(const std::string& text) {
    const auto first = text.find_first_not_of(" \t\r");
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// The cell in quotes that begins at text[at]; leaves `at` after it.
std::string quoted_cell(const std::string& text, std::size_t& at, const std::string& place) {
    std::string cell;
    for (++at; at < text.size(); ++at) {
        if (text[at] != '"') {
            cell += text[at];
        } else if (at + 1 < text.size() && text[at + 1] == '"') {
            cell += text[at++];
        } else {
            ++at;
            return cell;
        }
    }
    refuse_row(place, "a cell has a quote that does not end; close it on the same line");
}

std::vector<std::string> cells_of(const std::string& line, const std::string& place) {
    std::vector<std::string> cells;
    std::size_t at = 0;
    while (true) {
        at = std::min(line.find_first_not_of(" \t\r", at), line.size());
        std::string cell;
        if (at < line.size() && line[at] == '"') {
            cell = quoted_cell(line, at, place);
            at = std::min(line.find_first_not_of(" \t\r", at), line.size());
            if (at < line.size() && line[at] != ',') {
                refuse_row(place, "a cell goes on after its quotes; put all of it into them");
            }
        } else {
            const std::size_t comma = std::min(line.find(',', at), line.size());
            cell = trimmed(line.substr(at, comma - at));
            at = comma;
        }
        cells.push_back(std::move(cell));
        if (at == line.size()) {
            return cells;
        }
        ++at;
    }
}
}  // namespace

const std::string& CsvRow::text(const std::string& column) const {
    const auto found = values_.find(column);
    if (found == values_.end()) {
        refuse_row(place_, "the file has no column " + column + "; add it");
    }
    return found->second;
}

double CsvRow::number(const std::string& column) const {
    const auto number = number_in<double>(text(column));
    if (!number) {
        refuse_row(place_, column + " is '" + printable(text(column)) + "'; it is a number; write it as 1.25");
    }
    return *number;
}

int CsvRow::count(const std::string& column) const {
    const auto count = number_in<int>(text(column));
    if (!count) {
        refuse_row(place_, column + " is '" + printable(text(column)) + "'; it is a whole number; write it as 8");
    }
    return *count;
}

std::vector<CsvRow> read_csv_rows(const std::filesystem::path& file, const std::string& what, std::size_t most_rows) {
    std::string text = read_text_as<UsageError>(file, {what, "it has a header and a line for each row"});
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Excel writes one
    std::istringstream lines(text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : std::move(text));
    std::vector<std::string> header;
    std::vector<CsvRow> rows;
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        const std::string place = file.string() + ", line " + std::to_string(++number);
        if (trimmed(line).empty() || line.starts_with('#')) {
            continue;
        }
        std::vector<std::string> cells = cells_of(line, place);
        if (header.empty()) {
            header = std::move(cells);
            for (std::size_t k = 0; k < header.size(); ++k) {
                if (std::ranges::count(header, header[k]) > 1) {
                    refuse_row(place, "column " + printable(header[k]) + " appears twice; keep one");
                }
            }
            continue;
        }
        if (cells.size() != header.size()) {
            refuse_row(place, "it has " + std::to_string(cells.size()) + " cells; the header has " +
                                  std::to_string(header.size()) + "; correct the line");
        }
        if (rows.size() == most_rows) {
            refuse_row(place, "more than " + std::to_string(most_rows) + " rows; keep those that differ");
        }
        std::map<std::string, std::string> values;
        for (std::size_t k = 0; k < cells.size(); ++k) {
            values[header[k]] = std::move(cells[k]);
        }
        rows.emplace_back(place, std::move(values));
    }
    if (rows.empty()) {
        refuse_row(file.string(), "it has no row below its header; add one");
    }
    return rows;
}
}  // namespace pipescope
