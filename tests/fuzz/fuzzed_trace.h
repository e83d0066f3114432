#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace pipescope {
/// Puts the bytes into a file of this process with that name and reads all of it: as a viewer does, and into every
/// export. Lets TraceError pass, which a damaged file may cause; any other exception ends the process.
void open_bytes(std::span<const std::uint8_t> bytes, const std::string& name);

/// Small SQLite files with rows in every table: of ours, and as an export of nsys, without our tables.
std::string sample_trace_bytes();
std::string sample_nsys_bytes();

/// Sets values of the sample as the input says, drops tables and doubles rows, and reads the result. Damage of single
/// bytes hardly gets past SQLite; wrong values do.
void open_with_changed_values(const std::string& sample, const std::uint8_t* data, std::size_t size);
}  // namespace pipescope
