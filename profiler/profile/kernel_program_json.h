#pragma once

#include "base/json_reader.h"
#include "profiler/profile/kernel_program.h"

#include <string>
#include <vector>

namespace pipescope {
/// The keys of a KernelProgram in a program file and in a profile.
const std::vector<std::string>& kernel_program_keys();
/// Reads these keys. Throws the object's kind of error for the first fault; `name` is required.
KernelProgram read_kernel_program(JsonObject<Json>& object);
/// Sets `name`, and each of the other keys whose value is not the default.
void write_kernel_program(const KernelProgram& program, Json& json);

/// A share from 0 to 1, and one above 0. Missing keys are `otherwise`.
double read_share(JsonObject<Json>& object, const char* key, double otherwise);
double read_positive_share(JsonObject<Json>& object, const char* key, double otherwise);
bool read_truth(JsonObject<Json>& object, const char* key, bool otherwise);
}  // namespace pipescope
