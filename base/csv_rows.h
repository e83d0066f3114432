#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// A row of a CSV by the names of its header. Messages begin with its file and line.
class CsvRow {
public:
    CsvRow(std::string place, std::map<std::string, std::string> values)
        : place_(std::move(place)), values_(std::move(values)) {}

    /// "rows.csv, line 3".
    const std::string& place() const { return place_; }
    const std::map<std::string, std::string>& values() const { return values_; }
    bool has(const std::string& column) const { return values_.contains(column); }
    /// Throws UsageError for a column that the file does not have, and for a text that is no number.
    const std::string& text(const std::string& column) const;
    double number(const std::string& column) const;
    int count(const std::string& column) const;

private:
    std::string place_;
    std::map<std::string, std::string> values_;
};

/// The rows of a CSV with a header. Cells have no spaces around them; "a cell in quotes" may have commas, and "" in it
/// is a quote. Empty lines, and lines that begin with #, are comments. `what`: "a CSV of measured steps". Throws
/// UsageError, with the file and line, for a file that is none, a row without as many cells as the header, a column
/// that appears twice, and a file without rows or with more than `most_rows`.
std::vector<CsvRow> read_csv_rows(const std::filesystem::path& file, const std::string& what = "a CSV with a header",
                                  std::size_t most_rows = 100'000);
}  // namespace pipescope
