#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace pipescope {
/// Writes the bytes to a file of this process with that name and reads it completely, like a viewer and every export.
/// Ignores TraceError, which a damaged file may cause; other exceptions end the process.
void open_bytes(std::span<const std::uint8_t> bytes, const std::string& name);

/// Small SQLite files with rows in every table: one of ours, and one like an export of nsys, without our tables.
std::string sample_trace_bytes();
std::string sample_nsys_bytes();

/// Changes values of the sample, drops tables and duplicates rows according to the input, and reads the result. SQLite
/// usually detects damage of single bytes, but not wrong values.
void open_with_changed_values(const std::string& sample, const std::uint8_t* data, std::size_t size);
}  // namespace pipescope
