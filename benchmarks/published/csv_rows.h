#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// A row of a CSV by the names of its header.
class CsvRow {
public:
    explicit CsvRow(std::map<std::string, std::string> values) : values_(std::move(values)) {}

    /// Throws Error for a column that the file does not have.
    const std::string& text(const std::string& column) const;
    double number(const std::string& column) const;
    int count(const std::string& column) const;

private:
    std::map<std::string, std::string> values_;
};

/// The rows of a CSV without quotes, as those of this folder. Throws Error for a file that is none.
std::vector<CsvRow> read_csv_rows(const std::filesystem::path& file);
}  // namespace pipescope
