#pragma once

#include "cluster/language_model.h"

#include <cstdint>
#include <set>
#include <vector>

// The numbers of devices that a plan tries.

namespace pipescope {
/// The divisors of a number up to `most`, ascending.
std::vector<int> divisors(std::int64_t number, std::int64_t most);
/// Powers of two, and 5/4 and 3/2 of them, from least to most, and both limits. Also 7/4 of them if the sizes of the
/// model or of the batch have that factor.
std::set<int> device_numbers(int least, int most, bool with_sevenths);
/// Numbers that divide `most` and may split a sample's tokens, 2048 or more for each. Fewer tokens take so little work
/// that Megatron-Core advises context parallelism for samples of 8192 and more.
std::vector<int> contexts_of(const LanguageModel& model, int most);
}  // namespace pipescope
