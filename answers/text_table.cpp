#include "answers/text_table.h"

#include "base/error.h"
#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace pipescope {
namespace {
/// The number of UTF-8 characters: all bytes except continuation bytes.
std::size_t columns_of(std::string_view cell) {
    return static_cast<std::size_t>(
        std::ranges::count_if(cell, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }));
}

std::string padded(const std::string& cell, std::size_t width, Align align) {
    const std::string blanks(width - columns_of(cell), ' ');
    return align == Align::left ? cell + blanks : blanks + cell;
}
}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
    if (cells.size() != columns_.size()) {
        throw Error(fmt::format("a row of {} cells does not fit a table of {} columns; give one per column",
                                cells.size(), columns_.size()));
    }
    for (std::string& cell : cells) {
        cell = printable(cell);  // names come from files and models
    }
    rows_.push_back(std::move(cells));
}

std::string TextTable::str() const {
    std::vector<std::size_t> widths;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
        std::size_t width = columns_of(columns_[column].header);
        for (const auto& row : rows_) {
            width = std::max(width, columns_of(row[column]));
        }
        widths.push_back(width);
    }
    std::string text;
    const auto add_line = [&](const auto& cell_of) {
        std::string line;
        for (std::size_t column = 0; column < columns_.size(); ++column) {
            line += (column == 0 ? "" : "  ") + padded(cell_of(column), widths[column], columns_[column].align);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    };
    add_line([&](std::size_t column) { return columns_[column].header; });
    for (const auto& row : rows_) {
        add_line([&](std::size_t column) { return row[column]; });
    }
    return text;
}

std::string TextTable::markdown() const {
    std::string text = "|";
    for (const Column& column : columns_) {
        text += " " + column.header + " |";
    }
    text += "\n|";
    for (const Column& column : columns_) {
        text += column.align == Align::left ? " --- |" : " ---: |";
    }
    text += '\n';
    for (const auto& row : rows_) {
        text += '|';
        for (const std::string& cell : row) {
            text += " " + cell + " |";
        }
        text += '\n';
    }
    return text;
}
}  // namespace pipescope
