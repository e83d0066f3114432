#include "benchmarks/published/csv_rows.h"

#include "base/error.h"

#include <fstream>
#include <sstream>

namespace pipescope {
namespace {
std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) {
        cells.push_back(cell);
    }
    if (line.ends_with(',')) {
        cells.emplace_back();
    }
    return cells;
}
}  // namespace

const std::string& CsvRow::text(const std::string& column) const {
    const auto found = values_.find(column);
    if (found == values_.end()) {
        throw Error("column " + column + " is missing; the published rows have it; correct the file");
    }
    return found->second;
}

double CsvRow::number(const std::string& column) const {
    return std::stod(text(column));
}

int CsvRow::count(const std::string& column) const {
    return std::stoi(text(column));
}

std::vector<CsvRow> read_csv_rows(const std::filesystem::path& file) {
    std::ifstream stream(file);
    std::string line;
    std::vector<std::string> header;
    std::vector<CsvRow> rows;
    while (std::getline(stream, line)) {
        const std::vector<std::string> cells = cells_of(line);
        if (header.empty()) {
            header = cells;
            continue;
        }
        if (cells.size() != header.size()) {
            throw Error(file.string() + ": '" + line + "' has another number of cells than the header; correct it");
        }
        std::map<std::string, std::string> values;
        for (std::size_t k = 0; k < cells.size(); ++k) {
            values[header[k]] = cells[k];
        }
        rows.emplace_back(std::move(values));
    }
    if (rows.empty()) {
        throw Error(file.string() + " holds no rows; it must be a CSV of published rows; name the repository's folder");
    }
    return rows;
}
}  // namespace pipescope
